"""What is sent where a call replaces a whole: the changes of this plan, on top of what is there now."""

from __future__ import annotations

import pickle

import pytest
from support.acting import Server, Shells
from support.estates import ESX1
from support.raising import refused

from vsphere_ai.errors import Conflict, VimFault
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.model.deferred import Deferred, chosen, inside, nested, property_path, spelled
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.module_options import changed, merged, parsed, written
from vsphere_ai.model.records.pending import Pending, closed_by, opened_by
from vsphere_ai.model.steps import HostBack, Invoke, Shell
from vsphere_ai.planning.planner import PlanItem
from vsphere_ai.planning.resume import overlay_pending

CORE = "nmlx5_core"
KIND = "some-kind"


def executor(server, **planned):
    """Deeds that know what was read when this was planned; reading back always finds something left to do."""
    left = (PlanItem(ESX1, KIND, ()),)
    facts = {ESX1.ref: Facts(ESX1.ref, planned)} if planned else {}
    return StepExecutor(Context(server, Shells(), lambda *_: left, {}, {}, planned=facts))


@pytest.mark.parametrize(
    ("planned", "wanted", "now", "sent"),
    [
        ("max_vfs=4", "max_vfs=4 pfctx=0x08", "max_vfs=4", "max_vfs=4 pfctx=0x08"),
        ("max_vfs=4", "max_vfs=4 pfctx=0x08", "max_vfs=8 drss", "max_vfs=8 drss pfctx=0x08"),
        ("", "pfctx=0x08", "max_vfs=8,8", "max_vfs=8,8 pfctx=0x08"),
        ("pfctx=0x08 a", "a", "pfctx=0x08 a b", "a b"),
        ("pfctx=0x01", "pfctx=0x08", "pfctx=0x08", "pfctx=0x08"),  # by the call whose answer was lost
        ("pfctx=0x01", "pfctx=0x08", "pfctx=0x02", ("pfctx",)),
        ("pfctx=0x01", "", "pfctx=0x02", ("pfctx",)),
        (None, "a=1", None, "a=1"),
    ],
)
def test_three_strings_become_one(planned, wanted, now, sent):
    assert merged(planned, wanted, now) == sent


def test_a_string_is_read_and_written():
    assert parsed(" max_vfs=4,4  drss a=b=c max_vfs=8 ") == {"max_vfs": "8", "drss": None, "a": "b=c"}
    assert written(changed(parsed("a=1 b c=2"), {"a": "3", "c": None, "d": "4", "e": None})) == "a=3 b d=4"


class Modules(Server):
    """A host whose module options somebody else changes, too."""

    def __init__(self, now, *readings):
        super().__init__(*readings or ({},))
        self.now = now

    def call(self, ref, method, args=None):
        if method == "QueryConfiguredModuleOptionString":
            return self.now
        return super().call(ref, method, args)


def options(text):
    return Invoke(target=ESX1, kinds=(KIND,), summary="", method="UpdateModuleOptionString", needs_reboot=True,
                  args={"name": CORE, "options": text})  # fmt: skip


def test_options_that_appeared_since_planning_are_kept():
    server = Modules("max_vfs=8")
    executor(server, **{f"query:{CORE}": ""}).do(options("pfctx=0x08"), str)
    ((_, method, args),) = server.calls
    assert (method, args) == ("UpdateModuleOptionString", {"name": CORE, "options": "max_vfs=8 pfctx=0x08"})


def test_an_option_that_somebody_changed_is_not_overwritten():
    server = Modules("pfctx=0x02")
    with refused(Conflict, "object.changed", "pfctx"):
        executor(server, **{f"query:{CORE}": ""}).do(options("pfctx=0x08"), str)
    assert server.calls == []


def test_what_is_there_is_not_sent_again():
    server = Modules("pfctx=0x08")
    executor(server, **{f"query:{CORE}": ""}).do(options("pfctx=0x08"), str)
    assert server.calls == []


VNICS = "config.network.vnic"


def vnic(device, address, mtu=1500, group="g1"):
    port = {"portgroupKey": group, "switchUuid": "50", "portKey": "3"}
    ip = {"dhcp": False, "ipAddress": address, "subnetMask": "255.255.255.0"}
    return {"device": device, "spec": {"mtu": mtu, "ip": ip, "mac": "00:50", "distributedVirtualPort": port}}


def add(address):
    nic = {"ip": {"dhcp": False, "ipAddress": address, "subnetMask": "255.255.255.0"},
           "distributedVirtualPort": {"portgroupKey": "g1"}}  # fmt: skip
    return Invoke(target=ESX1, kinds=(KIND,), summary="", method="AddVirtualNic", args={"portgroup": "", "nic": nic})


@pytest.mark.parametrize(
    ("present", "calls"),
    [((), 1), ((vnic("vmk0", "10.0.0.1", group="g0"),), 1), ((vnic("vmk1", "10.0.0.5"),), 0)],
)
def test_no_second_adapter_is_made(present, calls):
    server = Server({VNICS: present})
    executor(server).do(add("10.0.0.5"), str)
    assert len(server.calls) == calls


def test_an_adapter_of_somebody_else_is_not_taken_for_ours():
    with refused(Conflict, "object.changed", "vmk1"):
        executor(Server({VNICS: (vnic("vmk1", "10.0.0.9"),)})).do(add("10.0.0.5"), str)


def update(**nic):
    return Invoke(
        target=ESX1, kinds=(KIND,), summary="", method="UpdateVirtualNic", args={"device": "vmk1", "nic": nic}
    )


def test_an_adapter_is_changed_with_all_it_has_now():
    now = vnic("vmk1", "10.0.0.7")
    server = Server({VNICS: (now,)})
    executor(server, **{VNICS: (vnic("vmk1", "10.0.0.5"),)}).do(update(mtu=9000), str)
    ((_, _, args),) = server.calls
    assert args["nic"] == {**now["spec"], "mtu": 9000}  # the address somebody else has given it


@pytest.mark.parametrize("now", [(), (vnic("vmk1", "10.0.0.5", 4000),)])
def test_an_adapter_that_is_not_what_it_was(now):
    server = Server({VNICS: now})
    with pytest.raises(Conflict):
        executor(server, **{VNICS: (vnic("vmk1", "10.0.0.5"),)}).do(update(mtu=9000), str)
    assert server.calls == []


def test_a_change_that_counts_after_a_restart_is_owed_one():
    step = options("a=1")
    (pending,) = opened_by(step, own_ssh=False, detail="2026-01-01T00:00:00Z")
    assert pending == Pending("restart", ESX1, "2026-01-01T00:00:00Z")
    back = closed_by(HostBack(target=ESX1, timeout=5, summary=""))
    assert {d.kind for d in back} == {"reboot", "restart"}
    assert opened_by(Invoke(target=ESX1, summary="", method="x"), own_ssh=False) == ()


@pytest.mark.parametrize(("booted", "owes"), [("2026-01-01T00:00:00Z", 1), ("2026-02-01T00:00:00Z", 0)])
def test_a_host_that_has_not_restarted_since_is_restarted(booted, owes):
    from vsphere_ai.model.facts import About, Estate

    estate = Estate(About("", "", "", "", ""), {ESX1.ref: Facts(ESX1.ref, {"runtime.bootTime": booted})})
    owed = overlay_pending(estate, [Pending("restart", ESX1, "2026-01-01T00:00:00Z")])
    steps = [s for of in owed.extra.values() for s in of]
    assert [(s.needs_reboot, s.needs_maintenance) for s in steps] == [(True, True)] * owes


def test_the_boot_time_is_remembered_before_such_a_change():
    assert executor(Server({"runtime.bootTime": "then"})).before(options("a=1")) == "then"
    assert executor(Server({})).before(Shell(target=ESX1, summary="", argv=("true",))) == ""


def test_what_is_looked_up_can_hang_on_what_is_looked_up():
    key = Deferred("Datacenter:1", "DistributedVirtualPortgroup", "dvpg-new", "key")
    path = inside(VNICS, ("spec.distributedVirtualPort.portgroupKey", key), "device")
    deferred = Deferred("Datacenter:1", "HostSystem", "esx01", path)
    for same in (str(deferred), pickle.loads(pickle.dumps(deferred))):
        assert (same, same.path, same.name) == (deferred, path, "esx01")
    assert str(deferred) == f"<{spelled(path)} of HostSystem esx01 in Datacenter:1>"
    assert property_path(path) == VNICS
    assert spelled(path) == f"{VNICS} > spec.distributedVirtualPort.portgroupKey dvpg-new > device"
    asked = []
    found = nested(path, lambda other: asked.append(other) or "g1")
    assert asked == [key]
    assert chosen((vnic("vmk0", "10.0.0.1", group="g0"), vnic("vmk1", "10.0.0.2")), found) == "vmk1"
    assert chosen((vnic("vmk1", "10.0.0.1"), vnic("vmk2", "10.0.0.2")), found) is None


OPTION, PCI_INFO, PNICS = "Net.PVRDMAVmknic", "config.pciPassthruInfo", "config.network.pnic"


class Settings(Server):
    """A host with one advanced setting, or without it."""

    def __init__(self, now):
        super().__init__({})
        self.now = now

    def call(self, ref, method, args=None):
        if method != "QueryOptions":
            return super().call(ref, method, args)
        if self.now is None:
            raise VimFault("no such setting", "", {"_typeName": "InvalidName"})
        return ({"key": args["name"], "value": self.now},)


def setting(value):
    option = {"_typeName": "OptionValue", "key": OPTION, "value": value}
    return Invoke(target=ESX1, kinds=(KIND,), summary="", method="UpdateOptions", args={"changedValue": (option,)})


@pytest.mark.parametrize(
    ("planned", "now", "sent"), [("", "", 1), ("vmk1", "vmk1", 1), ("", "vmk2", 0), (None, None, 1)]
)
def test_a_setting_is_sent_where_it_is_as_planned(planned, now, sent):
    server = Settings(now)
    executor(server, **{f"option:{OPTION}": planned}).do(setting("vmk2"), str)
    assert len(server.calls) == sent


def test_a_setting_that_somebody_changed_is_not_overwritten():
    server = Settings("vmk7")
    with refused(Conflict, "object.changed", "Net.PVRDMAVmknic", "vmk7", "vmk1"):
        executor(server, **{f"option:{OPTION}": "vmk1"}).do(setting("vmk2"), str)
    assert server.calls == []


def device(whole=False, functions=0):
    return {"id": "0000:5e:00.0", "passthruEnabled": whole, "sriovEnabled": functions > 0, "numVirtualFunction": 0,
            "numVirtualFunctionRequested": functions}  # fmt: skip


def shared(functions):
    config = {"_typeName": "HostSriovConfig", "id": "0000:5e:00.0", "passthruEnabled": False,
              "sriovEnabled": functions > 0, "numVirtualFunction": functions}  # fmt: skip
    return Invoke(target=ESX1, kinds=(KIND,), summary="", method="UpdatePassthruConfig", args={"config": (config,)})


@pytest.mark.parametrize(("now", "sent"), [(device(), 1), (device(functions=4), 0), (device(functions=8), None),
                                           (device(whole=True), None)])  # fmt: skip
def test_a_device_is_shared_where_it_is_as_planned(now, sent):
    server = Server({PCI_INFO: (now, {"id": "0000:86:00.0"})})
    doing = executor(server, **{PCI_INFO: (device(), {"id": "0000:86:00.0"})})
    if sent is None:
        with refused(Conflict, "object.changed", "0000:5e:00.0"):
            doing.do(shared(4), str)
    else:
        doing.do(shared(4), str)
    assert len(server.calls) == (sent or 0)


def pnic(speed):
    link = {"linkSpeed": {"speedMb": speed, "duplex": True}} if speed else {}
    return {"device": "vmnic4", "spec": link}


@pytest.mark.parametrize(("now", "sent"), [(None, 1), (100_000, 0), (25_000, None)])
def test_a_speed_is_set_where_it_is_as_planned(now, sent):
    server = Server({PNICS: (pnic(now),)})
    args = {"device": "vmnic4", "linkSpeed": {"_typeName": "PhysicalNicLinkInfo", "speedMb": 100_000, "duplex": True}}
    step = Invoke(target=ESX1, kinds=(KIND,), summary="", method="UpdatePhysicalNicLinkSpeed", args=args)
    doing = executor(server, **{PNICS: (pnic(None),)})
    if sent is None:
        with refused(Conflict, "object.changed", "speed", "vmnic4"):
            doing.do(step, str)
    else:
        doing.do(step, str)
    assert len(server.calls) == (sent or 0)
