"""SOAP no library would send: each request gets a typed fault, changes nothing, and the server goes on."""

from __future__ import annotations

import re
import time

import pytest
from pyVmomi import VmomiSupport, vim, vmodl
from support.gates import busy
from thirdparty import wire

COLLECTOR = "PropertyCollector:propertyCollector"
ROOT = '<obj type="Folder">group-d1</obj>'


@pytest.fixture(autouse=True)
def goes_on(bare):
    """Whatever a test does to the server, the next client is answered at once."""
    yield
    began = time.monotonic()
    assert bare.goes_on()
    assert time.monotonic() - began < 20 * busy(), "the server waits 30 s for the rest of a request"


BROKEN_XML = {
    "empty": b"",
    "text": b"hello",
    "json": b'{"method": "CurrentTime"}',
    "cut": wire.CLOCK[:-30],
    "twice": wire.CLOCK + wire.CLOCK,
    "nul": wire.CLOCK.replace(b"ServiceInstance<", b"Service\x00Instance<"),
    "not utf-8": wire.CLOCK.replace(b"ServiceInstance<", b"\xff\xfe<"),
    "unknown encoding": wire.CLOCK.replace(b"UTF-8", b"klingon"),
    "no namespace": wire.CLOCK.replace(b' xmlns="urn:vim25"', b""),
    "another namespace": wire.CLOCK.replace(b"urn:vim25", b"urn:nobody"),
    "unbound prefix": wire.CLOCK.replace(b"<_this", b"<a:_this").replace(b"</_this", b"</a:_this"),
    "no method": wire.envelope(""),
    "two methods": wire.envelope(wire.call("CurrentTime", "ServiceInstance:ServiceInstance") * 2),
    "unknown method": wire.envelope(wire.call("MakeCoffee", "ServiceInstance:ServiceInstance")),
    "no object": wire.envelope('<CurrentTime xmlns="urn:vim25"/>'),
    "object without type": wire.CLOCK.replace(b' type="ServiceInstance"', b""),
    "object of unknown type": wire.CLOCK.replace(b'type="ServiceInstance"', b'type="Teapot"'),
    "object of a data type": wire.CLOCK.replace(b'type="ServiceInstance"', b'type="AboutInfo"'),
    "unknown parameter": wire.envelope(wire.call("CurrentTime", "ServiceInstance:ServiceInstance", "<x>1</x>")),
    "deep": wire.envelope("<a>" * 5000 + "</a>" * 5000),
    "entity from a file": (
        b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/hostname">]>'
        + wire.ENVELOPE.partition("?>")[2].format("<CurrentTime>&e;</CurrentTime>").encode()
    ),
    "a billion laughs": (
        b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a0 "ha">'
        + b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 10))
        + b"]>"
        + wire.ENVELOPE.partition("?>")[2]
        .format(wire.call("CurrentTime", "ServiceInstance:ServiceInstance", "<x>&a9;</x>"))
        .encode()
    ),
}


@pytest.mark.parametrize("body", BROKEN_XML.values(), ids=BROKEN_XML)
def test_xml_that_is_no_request_is_an_invalid_request(bare, body):
    status, text, headers = bare.send(body)
    assert (status, wire.fault_of(text)) == (500, "InvalidRequest")
    assert headers["Content-Type"].startswith("text/xml")
    assert "Traceback" not in text


WRONG = {
    "text for a number": ("RetrievePropertiesEx", COLLECTOR, "<options><maxObjects>many</maxObjects></options>"),
    "number too large": ("EnterMaintenanceMode_Task", "HostSystem:{host}", "<timeout>99999999999</timeout>"),
    "text for a flag": ("CreateContainerView", "ViewManager:ViewManager", "<recursive>perhaps</recursive>"),
    "text for an object": ("ReconfigVM_Task", "VirtualMachine:{vm}", "<spec>fast</spec>"),
    "unknown field": ("ReconfigVM_Task", "VirtualMachine:{vm}", "<spec><wheels>4</wheels></spec>"),
    "unknown type": ("ReconfigVM_Task", "VirtualMachine:{vm}", '<spec xsi:type="Teapot"/>'),
    "another type": ("ReconfigVM_Task", "VirtualMachine:{vm}", '<spec xsi:type="AboutInfo"/>'),
    "a device of another type": (
        "ReconfigVM_Task",
        "VirtualMachine:{vm}",
        '<spec><deviceChange><operation>add</operation><device xsi:type="HostSystem"/></deviceChange></spec>',
    ),
    "an unknown choice": (
        "ReconfigVM_Task",
        "VirtualMachine:{vm}",
        "<spec><deviceChange><operation>explode</operation></deviceChange></spec>",
    ),
    "no required field": (
        "RetrieveProperties",
        COLLECTOR,
        f"<specSet><objectSet>{ROOT}</objectSet><propSet/></specSet>",
    ),
    "no object to read": (
        "RetrieveProperties",
        COLLECTOR,
        "<specSet><propSet><type>Folder</type></propSet><objectSet/></specSet>",
    ),
    "no such type to read": (
        "RetrieveProperties",
        COLLECTOR,
        f"<specSet><propSet><type>Teapot</type></propSet><objectSet>{ROOT}</objectSet></specSet>",
    ),
    "a date that is none": ("QueryOptions", "OptionManager:VpxSettings", '<name xsi:type="xsd:dateTime">soon</name>'),
}
"""Method, object, parameters."""


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_parameters_of_a_wrong_type_are_refused(user, ids, session_lab, wrong):
    method, this, inner = wrong
    before = len(session_lab.get("/lab/ledger")["entries"])
    status, text, _ = user.ask(method, this.format(**ids), inner)
    assert (status, wire.fault_of(text) in ("InvalidRequest", "InvalidArgument")) == (500, True), text
    assert len(session_lab.get("/lab/ledger")["entries"]) == before


@pytest.mark.parametrize(
    ("method", "this", "inner", "fault"),
    [
        ("PowerOnVM_Task", "VirtualMachine:vm-none", "", "ManagedObjectNotFound"),
        ("PowerOnVM_Task", "VirtualMachine:{host}", "", "ManagedObjectNotFound"),
        ("PowerOnVM_Task", "HostSystem:{host}", "", "MethodNotFound"),
        ("PowerOnVM_Task", "Folder:group-d1", "", "MethodNotFound"),
        ("PowerOnVM_Task", "VirtualMachine:{vm}", '<host type="HostSystem">host-none</host>', "ManagedObjectNotFound"),
        ("PowerOnVM_Task", "VirtualMachine:{vm}", '<host type="VirtualMachine">{vm}</host>', "InvalidRequest"),
        ("Fetch", "VirtualMachine:{vm}", "<prop>colour</prop>", "InvalidProperty"),
        ("Fetch", "VirtualMachine:{vm}", "<prop>config..name</prop>", "InvalidProperty"),
        ("Fetch", "VirtualMachine:{vm}", "<prop/>", "InvalidProperty"),
        ("Fetch", "VirtualMachine:{vm}", "", "InvalidProperty"),
        ("FindByUuid", "SearchIndex:SearchIndex", "<vmSearch>true</vmSearch>", "InvalidArgument"),
        ("Login", "SessionManager:SessionManager", "<userName>a</userName><password>b</password>", "InvalidLogin"),
        ("DestroyView", "ContainerView:session[0]1", "", "ManagedObjectNotFound"),
    ],
)
def test_objects_and_arguments_that_are_not_there_have_faults_of_their_own(user, ids, method, this, inner, fault):
    status, text, _ = user.ask(method, this.format(**ids), inner.format(**ids))
    assert (status, wire.fault_of(text)) == (500, fault), text


def test_nothing_but_the_door_is_open_without_a_login(bare, ids):
    for method, this in (
        ("PowerOnVM_Task", f"VirtualMachine:{ids['vm']}"),
        ("CreateContainerView", "ViewManager:ViewManager"),
        ("Logout", "SessionManager:SessionManager"),
        ("WaitForUpdatesEx", COLLECTOR),
    ):
        status, text, _ = bare.ask(method, this)
        assert (status, wire.fault_of(text)) == (500, "NotAuthenticated")
    status, text, _ = bare.ask(
        "Fetch", f"VirtualMachine:{ids['vm']}", "<prop>name</prop>", headers={"Cookie": 'vmware_soap_session="guess"'}
    )
    assert (status, wire.fault_of(text)) == (500, "NotAuthenticated")


LAST = ("Destroy_Task", "UnregisterVM")
"""After these their object is gone, and says so whatever it is asked."""


def test_every_method_of_every_type_is_answered_with_a_result_or_a_typed_fault(make_lab, quick_scenario):
    """Each method is called with its object and nothing else, over one connection."""
    lab = make_lab(quick_scenario.read_text(encoding="utf-8"))
    user = wire.Wire(lab.port, lab.directory / "ca.pem")
    user.login((lab.directory / "password").read_text(encoding="utf-8").strip())
    objects = {
        vim.ServiceInstance: "ServiceInstance",
        vim.SearchIndex: "SearchIndex",
        vim.view.ViewManager: "ViewManager",
        vim.TaskManager: "TaskManager",
        vim.option.OptionManager: "VpxSettings",
        vim.AuthorizationManager: "AuthorizationManager",
        vim.Folder: "group-d1",
        vmodl.query.PropertyCollector: "propertyCollector",
        vim.SessionManager: "SessionManager",
    }
    found = user.ask(
        "CreateContainerView",
        "ViewManager:ViewManager",
        '<container type="Folder">group-d1</container><recursive>1</recursive>',
    )
    view = re.search(r'type="ContainerView"[^>]*>([^<]+)<', found[1]).group(1)
    _, shown, _ = user.ask("Fetch", f"ContainerView:{view}", "<prop>view</prop>")
    for kind, moid in re.findall(r' type="(\w+)"[^>]*>([\w-]+)<', shown):
        objects[VmomiSupport.GetWsdlType("urn:vim25", kind)] = moid
    assert len(objects) > 17
    counts, waits = {}, {"WaitForUpdates", "WaitForUpdatesEx", "Logout"}
    _, content, _ = user.ask("RetrieveServiceContent", "ServiceInstance:ServiceInstance")
    for kind, moid in re.findall(r' type="(\w+)">([\w-]+)<', content):
        objects.setdefault(VmomiSupport.GetWsdlType("urn:vim25", kind), moid)
    _, managers, _ = user.ask("Fetch", f"HostSystem:{objects[vim.HostSystem]}", "<prop>configManager</prop>")
    for kind, moid in re.findall(r' type="(\w+)">([\w-]+)<', managers):
        objects.setdefault(VmomiSupport.GetWsdlType("urn:vim25", kind), moid)
    assert len(objects) > 60
    line = user.connection()
    for typ, moid in objects.items():
        methods = {m.info.wsdlName for n in dir(typ) if (m := getattr(typ, n, None)) is not None and hasattr(m, "info")}
        for method in sorted(methods - waits, key=lambda name: (name in LAST, name)):
            status, text, _ = user.ask(method, f"{typ._wsdlName}:{moid}", connection=line)
            outcome = "result" if status == 200 else wire.fault_of(text)
            assert f"<{method}Response" in text if status == 200 else status == 500
            counts[outcome] = counts.get(outcome, 0) + 1
    line.close()
    assert "SystemError" not in counts
    assert "InvalidRequest" not in counts
    assert counts["MethodNotFound"] > 200
    assert counts["result"] > 10


@pytest.mark.parametrize("cookies", ["{}", "a[b]=1; {}", "{}; other=2", "x;{};y", 'q="a;b"; {}'])
def test_the_session_is_found_among_other_cookies(user, ids, cookies):
    fetch = wire.envelope(wire.call("Fetch", f"VirtualMachine:{ids['vm']}", "<prop>name</prop>"))
    other = wire.Wire(user.port, user.ca_file)
    assert other.send(fetch, headers={"Cookie": cookies.format(user.cookie)})[0] == 200
    assert other.send(fetch, headers={"Cookie": cookies.format(user.cookie.replace("vmware", "x"))})[0] == 500
