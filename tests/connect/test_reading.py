"""Bulk reads: one view, leaf paths, pages, and what cannot be read."""

from __future__ import annotations

import re

import pytest
from support.raising import refused

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import Denied, StepFailed, Unparsed, Unreachable
from vsphere_ai.model.facts import UNTYPED


def value(name, text, kind="xsd:string"):
    return f'<propSet><name>{name}</name><val xsi:type="{kind}">{text}</val></propSet>'


def missing(path, kind, detail=""):
    return (
        f'<missingSet><path>{path}</path><fault><fault xsi:type="{kind}">{detail}</fault>'
        f"<localizedMessage>{kind} for {path}</localizedMessage></fault></missingSet>"
    )


def item(kind, moid, *inner):
    return f'<objects><obj type="{kind}">{moid}</obj>{"".join(inner)}</objects>'


def page(*items, token=""):
    return f"<returnval>{f'<token>{token}</token>' if token else ''}{''.join(items)}</returnval>"


def refuse(kind, detail=""):
    return (
        f"<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring/><detail>"
        f'<{kind}Fault xmlns="urn:vim25" xsi:type="{kind}">{detail}</{kind}Fault></detail></soapenv:Fault>'
    )


@pytest.fixture
def vcenter(fake, authority, limits):
    fake.script["CreateContainerView"] = lambda _: '<returnval type="ContainerView">view-1</returnval>'
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits) as connected:
        fake.calls.clear()
        fake.bodies.clear()
        yield connected


VM = {"VirtualMachine": ("name", "runtime.powerState")}


def test_one_view_and_one_request_per_page(fake, vcenter):
    pages = {
        "t1": page(item("VirtualMachine", "vm-2", value("name", "two")), token="t2"),
        "t2": page(item("VirtualMachine", "vm-3", value("name", "three"))),
    }
    fake.script["RetrievePropertiesEx"] = lambda _: page(
        item("VirtualMachine", "vm-1", value("name", "one")), token="t1"
    )
    fake.script["ContinueRetrievePropertiesEx"] = lambda body: pages[re.search(r"<token[^>]*>(\w+)<", body)[1]]
    found = vcenter.read(VM)
    assert {ref: f.name for ref, f in found.items()} == {
        "VirtualMachine:vm-1": "one",
        "VirtualMachine:vm-2": "two",
        "VirtualMachine:vm-3": "three",
    }
    assert fake.calls == ["CreateContainerView", "RetrievePropertiesEx", *["ContinueRetrievePropertiesEx"] * 2]
    assert "<maxObjects>500</maxObjects>" in fake.bodies[1]
    assert "<all>false</all>" in fake.bodies[1]


def test_nothing_there_is_nothing(fake, vcenter):
    assert vcenter.read(VM) == {}
    assert fake.calls[-1] == "RetrievePropertiesEx"


def test_a_view_is_used_again_until_the_session_ends(fake, vcenter):
    """It follows the inventory; vCenter drops it with the session."""
    for _ in range(3):
        vcenter.read(VM)
    vcenter.read({"Folder": ("name",)})
    assert fake.count("CreateContainerView") == 2
    gone = [refuse("ManagedObjectNotFound", '<obj type="ContainerView">view-1</obj>')]
    fake.script["RetrievePropertiesEx"] = lambda _: (
        gone.pop() if gone else page(item("VirtualMachine", "vm-1", value("name", "one")))
    )
    assert len(vcenter.read(VM)) == 1
    assert (fake.count("Login"), fake.count("CreateContainerView")) == (1, 3)
    fake.script["RetrievePropertiesEx"] = lambda _: page()
    vcenter.read({"Folder": ("name",)})
    assert fake.count("CreateContainerView") == 4, "those of the old session are forgotten, too"


def test_the_root_folder_is_read_too_when_folders_are(fake, vcenter):
    vcenter.read({"Folder": ("name",)})
    assert "group-d1" in fake.bodies[1]
    vcenter.read(VM)
    assert "group-d1" not in fake.bodies[3]


def test_a_derived_type_gets_its_own_and_its_bases_paths(fake, vcenter):
    vcenter.read({"ComputeResource": ("name",), "ClusterComputeResource": ("configuration",)})
    specs = dict(
        re.findall(r"<propSet><type>(\w+)</type><all>false</all>((?:<pathSet>[^<]*</pathSet>)+)", fake.bodies[1])
    )
    assert specs["ComputeResource"] == "<pathSet>name</pathSet>"
    assert specs["ClusterComputeResource"] == "<pathSet>configuration</pathSet><pathSet>name</pathSet>"


def test_a_path_newer_than_the_server_is_not_asked_for(fake, vcenter):
    fake.script["RetrievePropertiesEx"] = lambda _: page(item("VirtualMachine", "vm-1", value("name", "one")))
    facts = vcenter.read({"VirtualMachine": ("name", "config.fixedPassthruHotPlugEnabled", "no.such")})
    assert "fixedPassthru" not in fake.bodies[1]
    assert facts["VirtualMachine:vm-1"].unreadable == {
        "config.fixedPassthruHotPlugEnabled": "not in vSphere API 7.0.2.0",
        "no.such": "not in vSphere API 7.0.2.0",
    }


def test_a_path_the_server_rejects_is_given_up_and_the_rest_read(fake, vcenter):
    def answer(body):
        if "runtime.powerState" in body:
            return refuse("InvalidProperty", "<name>runtime.powerState</name>")
        return page(item("VirtualMachine", "vm-1", value("name", "one")))

    fake.script["RetrievePropertiesEx"] = answer
    facts = vcenter.read(VM)["VirtualMachine:vm-1"]
    assert facts.name == "one"
    assert facts.unreadable == {"runtime.powerState": "not known to this server"}
    fake.script["RetrievePropertiesEx"] = lambda _: refuse("InvalidProperty", "<name>other</name>")
    with refused(StepFailed, "fault.InvalidProperty"):
        vcenter.read(VM)


def test_what_may_not_be_read_says_why(fake, vcenter):
    fake.script["RetrievePropertiesEx"] = lambda _: page(
        item("VirtualMachine", "vm-1", value("name", "one"), missing("runtime.powerState", "NoPermission"))
    )
    facts = vcenter.read(VM)["VirtualMachine:vm-1"]
    assert facts.properties == {"name": "one"}
    assert "NoPermission for runtime.powerState" in facts.unreadable["runtime.powerState"]


def test_escaped_names_are_read_as_people_write_them(fake, vcenter):
    fake.script["RetrievePropertiesEx"] = lambda _: page(
        item("VirtualMachine", "vm-1", value("name", "a%2fb%5Cc%25d%20e"), value("config.annotation", "50%25"))
    )
    facts = vcenter.read({"VirtualMachine": ("name", "config.annotation")})["VirtualMachine:vm-1"]
    assert facts.name == "a/b\\c%d%20e"
    assert facts.get("config.annotation") == "50%25"


def test_a_session_lost_between_pages_starts_over_with_a_new_view(fake, vcenter):
    views = iter("abc")
    fake.script["CreateContainerView"] = lambda _: f'<returnval type="ContainerView">{next(views)}</returnval>'
    lost = [refuse("NotAuthenticated")]
    fake.script["RetrievePropertiesEx"] = lambda _: page(item("VirtualMachine", "vm-1", value("name", "1")), token="t")
    fake.script["ContinueRetrievePropertiesEx"] = lambda _: (
        lost.pop() if lost else page(item("VirtualMachine", "vm-2", value("name", "2")))
    )
    assert len(vcenter.read(VM)) == 2
    assert fake.count("Login") == 1
    assert fake.count("CreateContainerView") == 2
    assert 'ContainerView">b<' in fake.bodies[fake.calls.index("Login") + 2]


def test_named_objects_are_read_in_one_request(fake, vcenter):
    fake.script["RetrievePropertiesEx"] = lambda body: page(
        *(item("VirtualMachine", m, value("name", m)) for m in re.findall(r">(vm-\d+)<", body))
    )
    refs = [f"VirtualMachine:vm-{i}" for i in range(700)]
    assert len(vcenter.read_objects([*refs, "HostSystem:host-1"], VM)) == 700
    assert fake.calls == ["RetrievePropertiesEx"]
    assert vcenter.read_objects([], VM) == {}
    assert vcenter.read_objects(["HostSystem:host-1"], VM) == {}
    assert fake.calls == ["RetrievePropertiesEx"]


def test_objects_that_are_gone_are_left_out(fake, vcenter):
    def answer(body):
        if ">vm-2<" in body:
            return refuse("ManagedObjectNotFound", '<obj type="VirtualMachine">vm-2</obj>')
        return page(*(item("VirtualMachine", m, value("name", m)) for m in re.findall(r">(vm-\d+)<", body)))

    fake.script["RetrievePropertiesEx"] = answer
    refs = [f"VirtualMachine:vm-{i}" for i in (1, 2, 3)]
    assert sorted(vcenter.read_objects(refs, VM)) == ["VirtualMachine:vm-1", "VirtualMachine:vm-3"]
    assert vcenter.read_objects(["VirtualMachine:vm-2"], VM) == {}


def test_a_view_that_cannot_be_made_is_an_error(fake, vcenter):
    fake.script["CreateContainerView"] = lambda _: refuse("NoPermission", "<privilegeId>System.View</privilegeId>")
    with pytest.raises(Denied) as caught:
        vcenter.read(VM)
    assert "System.View" in caught.value.remedy
    del fake.script["CreateContainerView"]
    with pytest.raises(Unreachable, match="cannot be read"):
        vcenter.read(VM)


MANAGERS = (
    '<propSet><name>configManager</name><val xsi:type="HostConfigManager">'
    '<serviceSystem type="HostServiceSystem">s-1</serviceSystem>'
    '<graphicsManager type="HostGraphicsManager">g-1</graphicsManager></val></propSet>'
)


def test_the_managers_of_a_host_are_read_once(fake, vcenter):
    fake.script["RetrievePropertiesEx"] = lambda _: page(item("HostSystem", "host-1", MANAGERS))
    path, before = "configManager.graphicsManager", fake.count("RetrievePropertiesEx")
    for _ in range(2):
        assert vcenter.resolve_path("HostSystem:host-1", path) == "HostGraphicsManager:g-1"
        assert vcenter.resolve_path("HostSystem:host-1", "configManager.serviceSystem") == "HostServiceSystem:s-1"
        assert vcenter.resolve_path("HostSystem:host-1", "") == "HostSystem:host-1"
    assert fake.count("RetrievePropertiesEx") == before + 1
    with refused(StepFailed, "step.failed", "configManager.nothing"):
        vcenter.resolve_path("HostSystem:host-1", "configManager.nothing")


def test_a_host_without_managers_is_asked_again(fake, vcenter):
    path = "configManager.graphicsManager"
    fake.script["RetrievePropertiesEx"] = lambda _: page(item("HostSystem", "host-1", ""))
    with refused(StepFailed, "step.failed", path):
        vcenter.resolve_path("HostSystem:host-1", path)
    fake.script["RetrievePropertiesEx"] = lambda _: page(item("HostSystem", "host-1", MANAGERS))
    assert vcenter.resolve_path("HostSystem:host-1", path) == "HostGraphicsManager:g-1"


SWITCH = (
    '<propSet><name>config</name><val xsi:type="VMwareDVSConfigInfo"><uuid>50 2d</uuid><name>dvs</name>'
    "<maxMtu>9000</maxMtu></val></propSet>"
)


def test_a_leaf_that_only_a_derived_type_has_is_picked_out_of_the_whole(fake, vcenter):
    fake.script["RetrievePropertiesEx"] = lambda _: page(item("VmwareDistributedVirtualSwitch", "dvs-1", SWITCH))
    wanted = {"VmwareDistributedVirtualSwitch": ("config.maxMtu", "config.uuid", "config.linkDiscoveryProtocolConfig")}
    (facts,) = vcenter.read(wanted).values()
    assert facts.properties == {"config.maxMtu": 9000}
    assert "<pathSet>config</pathSet><pathSet>config.uuid</pathSet>" in fake.bodies[1]
    assert "maxMtu" not in fake.bodies[1]
    (both,) = vcenter.read({"VmwareDistributedVirtualSwitch": ("config", "config.maxMtu")}).values()
    assert both.get("config")["maxMtu"] == both.get("config.maxMtu") == 9000
    mixed = {"DistributedVirtualSwitch": ("config.maxMtu",), "VmwareDistributedVirtualSwitch": ("config",)}
    (both,) = vcenter.read(mixed).values()
    assert both.get("config")["maxMtu"] == both.get("config.maxMtu") == 9000


def test_a_leaf_of_what_may_not_be_read_says_why(fake, vcenter):
    fake.script["RetrievePropertiesEx"] = lambda _: page(
        item("VmwareDistributedVirtualSwitch", "dvs-1", missing("config", "NoPermission"))
    )
    (facts,) = vcenter.read({"VmwareDistributedVirtualSwitch": ("config.maxMtu",)}).values()
    assert facts.properties == {}
    assert list(facts.unreadable) == ["config.maxMtu"]
    fake.script["RetrievePropertiesEx"] = lambda body: (
        refuse("InvalidProperty", "<name>config</name>")
        if "<pathSet>config<" in body
        else page(item("VmwareDistributedVirtualSwitch", "dvs-1", value("name", "dvs")))
    )
    (facts,) = vcenter.read({"VmwareDistributedVirtualSwitch": ("config.maxMtu", "name")}).values()
    assert facts.unreadable == {"config.maxMtu": "not known to this server"}


# -- values that pyVmomi has no type for

DEVICE = '<propSet><name>config.hardware.device</name><val xsi:type="ArrayOfVirtualDevice">{}</val></propSet>'
UNTYPABLE = {
    "a type of the future": (
        value("runtime.powerState", "<x>1</x>", "VirtualFutureState"),
        "does not know 'VirtualFutureState'",
    ),
    "a value of an enumeration": (value("runtime.powerState", "hibernated", "VirtualMachinePowerState"), "hibernated"),
    "a number that is none": (value("runtime.powerState", "many", "xsd:int"), "many"),
    "another type than declared": (value("runtime.powerState", "5", "xsd:int"), "not a VirtualMachinePowerState"),
    "a list instead": (value("runtime.powerState", "<string>poweredOn</string>", "ArrayOfString"), "not a VirtualM"),
    "a reason of the future": (missing("runtime.powerState", "FutureFault"), "does not know 'FutureFault'"),
    "no value at all": (value("runtime.powerState", "", "ManagedObjectReference"), "cannot"),
}


@pytest.mark.parametrize("what", UNTYPABLE)
@pytest.mark.parametrize("at", [0, 3, 6])
def test_one_value_that_cannot_be_typed_is_one_unknown_fact(fake, vcenter, what, at):
    """It is asked for once, and everything else on the page is read."""
    broken, said = UNTYPABLE[what]

    def vm(number):
        state = broken if number == at else value("runtime.powerState", "poweredOn", "VirtualMachinePowerState")
        return item("VirtualMachine", f"vm-{number}", value("name", f"n{number}"), state)

    fake.script["RetrievePropertiesEx"] = lambda _: page(*map(vm, range(7)), token="t")
    fake.script["ContinueRetrievePropertiesEx"] = lambda _: page(item("VirtualMachine", "vm-9", value("name", "last")))
    found = vcenter.read(VM)
    assert fake.count("RetrievePropertiesEx") == fake.count("ContinueRetrievePropertiesEx") == 1
    unread = {(f.ref, path) for f in found.values() for path in f.unreadable}
    assert unread == {(f"VirtualMachine:vm-{at}", "runtime.powerState")}
    reason = found[f"VirtualMachine:vm-{at}"].unreadable["runtime.powerState"]
    assert reason.startswith(UNTYPED)
    assert said in reason
    assert len(found) == 8
    assert all(f.name for f in found.values())
    on = [f for f in found.values() if f.get("runtime.powerState") == "poweredOn"]
    assert len(on) == 6


def test_several_on_a_page_and_within_lists(fake, vcenter):
    new = '<VirtualDevice xsi:type="VirtualWarpDrive"><key>1</key></VirtualDevice>'
    old = '<VirtualDevice xsi:type="VirtualKeyboard"><key>600</key></VirtualDevice>'
    kinds = [new + old, old, old + new, '<string xsi:type="xsd:string">no device</string>', old]
    items = [
        item(
            "VirtualMachine",
            f"vm-{n}",
            value("name", f"n{n}"),
            DEVICE.format(devices),
            value("runtime.powerState", "x"),
        )
        for n, devices in enumerate(kinds)
    ]
    fake.script["RetrievePropertiesEx"] = lambda _: page(*items)
    found = vcenter.read({"VirtualMachine": ("name", "config.hardware.device")})
    bad = {f.name for f in found.values() if "config.hardware.device" in f.unreadable}
    assert bad == {"n0", "n2", "n3"}
    assert found["VirtualMachine:vm-1"].get("config.hardware.device")[0]["key"] == 600


def test_a_query_that_cannot_be_typed_is_asked_once(fake, vcenter):
    fake.script["QueryOptions"] = lambda _: '<returnval xsi:type="FutureOption"><key>a</key></returnval>'
    with refused(Unparsed, "vcenter.unparsed", "'FutureOption'"):
        vcenter.call("OptionManager:o", "QueryOptions", {"name": "a"})
    assert fake.count("QueryOptions") == 1


def test_an_object_that_cannot_be_typed_at_all_is_an_error_at_once(fake, vcenter):
    fake.script["RetrievePropertiesEx"] = lambda _: page(item("FutureEntity", "f-1", value("name", "x")))
    with refused(Unparsed, "vcenter.unparsed", "'FutureEntity'"):
        vcenter.read(VM)
    assert fake.count("RetrievePropertiesEx") == 1
