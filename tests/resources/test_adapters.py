"""The network adapters of a VM: told apart by type, port group and place, and changed only where they are named."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.estates import ESX1, ESX2, guest, view, vm
from support.ethernet import LAN_SWITCH, NIC4, NIC5, around, card, function, machine
from support.judging import judge, plan_one, rules

from vsphere_ai.model.facts import Facts
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter
from vsphere_ai.resources.adapters import Adapters
from vsphere_ai.resources.pvrdma import Pvrdma, PvrdmaAdapter
from vsphere_ai.resources.vm_hardware import VmHardware

ALONE = "- vms: train-03\n  adapters: [{port_group: dvpg-lan}, {type: e1000e, port_group: dvpg-lan}]\n"

VM = vm(1)
LOCKED = {"config__memoryReservationLockedToMax": True}
RDMA, LAN_KEY = "dvportgroup-1", "dvportgroup-2"
VMXNET3 = {"port_group": "dvpg-lan"}
SRIOV = {"type": "sriov", "port_group": "dvpg-rdma"}


def want(*entries, exclusive=None):
    return Adapters(adapters=tuple(NetworkAdapter(**e) for e in entries), exclusive=exclusive)


def done(judged):
    """What one reconfigure does, as (operation, type or key)."""
    if not judged.steps:
        return []
    return [
        (c["operation"], c["device"].get("key") or c["device"]["_typeName"].removeprefix("Virtual"))
        for c in judged.step.device_changes
    ]


def device(judged, index=0):
    return judged.step.device_changes[index]["device"]


# -- what is there


def test_as_wanted():
    judged = judge(want(VMXNET3), VM, around(VM, card(4000)))
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_others_are_left_alone():
    judged = judge(want(VMXNET3), VM, around(VM, card(4000), card(4001, RDMA), card(4002, typ="VirtualE1000")))
    assert judged.steps == ()


def test_exclusive_removes_what_is_not_listed():
    estate = around(VM, card(4000), card(4001), card(4002, RDMA), card(4003, typ="VirtualE1000"))
    judged = judge(want(VMXNET3, exclusive=True), VM, estate)
    assert done(judged) == [("remove", 4001), ("remove", 4002), ("remove", 4003)]
    assert not judged.step.needs_power_off
    assert done(judge(want(exclusive=True), VM, around(VM, card(4000)))) == [("remove", 4000)]


def test_exclusive_leaves_to_pvrdma_what_it_says():
    estate = around(VM, card(4000), card(4001, RDMA, "VirtualVmxnet3Vrdma"))
    said = Pvrdma(adapters=(PvrdmaAdapter(port_group="dvpg-rdma"),))
    alone = judge(want(VMXNET3, exclusive=True), VM, estate)
    both = judge(want(VMXNET3, exclusive=True), VM, estate, stated={(VM.ref, "pvrdma"): said})
    assert (done(alone), done(both)) == ([("remove", 4001)], [])
    assert alone.step.needs_power_off


def test_what_is_not_said_says_nothing():
    said = {(VM.ref, "pvrdma"): Pvrdma(adapters=())}
    assert judge(Adapters(exclusive=True), VM, around(VM, card(4000)), stated=said).steps == ()


# -- what is new


def test_a_new_adapter_is_added_while_the_vm_runs():
    judged = judge(want(VMXNET3, VMXNET3), VM, around(VM, card(4000)))
    assert done(judged) == [("add", "Vmxnet3")]
    assert not judged.step.needs_power_off
    assert judged.step.spec == {}
    assert device(judged) == {
        "_typeName": "VirtualVmxnet3",
        "backing": {
            "_typeName": "VirtualEthernetCardDistributedVirtualPortBackingInfo",
            "port": {
                "_typeName": "DistributedVirtualSwitchPortConnection",
                "portgroupKey": LAN_KEY,
                "switchUuid": "50 2c",
            },
        },
        "connectable": {
            "_typeName": "VirtualDeviceConnectInfo",
            "startConnected": True,
            "allowGuestControl": True,
            "connected": True,
        },
    }


def test_a_standard_port_group():
    judged = judge(want({"type": "e1000e", "port_group": "VM Network"}), VM, around(VM))
    assert device(judged)["backing"] == {
        "_typeName": "VirtualEthernetCardNetworkBackingInfo",
        "deviceName": "VM Network",
    }
    present = card(4000, "name:VM Network", "VirtualE1000e")
    assert judge(want({"type": "e1000e", "port_group": "VM Network"}), VM, around(VM, present)).steps == ()


def test_an_sriov_adapter_takes_the_vm_off_and_reserves_the_memory():
    judged = judge(want(SRIOV), VM, around(VM))
    assert not judged.problems
    assert judged.step.needs_power_off
    assert judged.step.spec == {"memoryReservationLockedToMax": True}
    backing = device(judged)["sriovBacking"]["physicalFunctionBacking"]
    assert backing["id"] == "Automatic-0000:00:00.0"
    assert list(judged.fields) == ["adapters", "memory_locked"]
    assert "stays on its host" in judged.notes[0]


def test_an_sriov_adapter_of_one_nic():
    judged = judge(want({**SRIOV, "physical_function": NIC4}), VM, around(VM, **LOCKED))
    assert device(judged)["sriovBacking"]["physicalFunctionBacking"]["id"] == NIC4
    assert judged.step.spec == {}


def test_all_of_them_in_one_reconfigure():
    entries = ({"type": "pvrdma", "port_group": "dvpg-rdma", "protocol": "rocev2"}, SRIOV, VMXNET3, VMXNET3)
    judged = judge(want(*entries), VM, around(VM))
    assert not judged.problems
    assert [k for _, k in done(judged)] == ["Vmxnet3Vrdma", "SriovEthernetCard", "Vmxnet3", "Vmxnet3"]
    assert device(judged)["deviceProtocol"] == "rocev2"


# -- what is changed


@pytest.mark.parametrize(
    ("entry", "present", "expected", "cold"),
    [
        ({"connected": False}, {}, {"connectable": (False, False)}, False),
        ({"connected": True}, {"connectable": {"startConnected": True, "allowGuestControl": True, "connected": False}},
         {"connectable": (True, True)}, False),
        ({"mac": "00:50:56:01:02:0A"}, {}, {"macAddress": "00:50:56:01:02:0a", "addressType": "manual"}, True),
        ({"mac": "assigned"}, {"addressType": "manual", "macAddress": "00:50:56:01:02:03"},
         {"macAddress": "", "addressType": "assigned"}, True),
        ({"mac": "generated"}, {}, None, False),
        ({"mac": "00:50:56:80:00:00"}, {}, None, False),
        ({"connected": True}, {}, None, False),
    ],
)  # fmt: skip
def test_only_what_differs_is_edited(entry, present, expected, cold):
    judged = judge(want({**VMXNET3, **entry}), VM, around(VM, card(4000, **present)))
    assert not judged.problems
    if expected is None:
        assert judged.steps == ()
        return
    assert done(judged) == [("edit", 4000)]
    assert judged.step.needs_power_off is cold
    sent = dict(device(judged))
    sent["connectable"] = (sent["connectable"]["startConnected"], sent["connectable"]["connected"])
    assert {k: sent[k] for k in expected} == expected
    assert sent["backing"] == card(4000)["backing"]


def test_an_sriov_adapter_is_disconnected_while_the_vm_is_off():
    present = card(4000, RDMA, "VirtualSriovEthernetCard")
    judged = judge(want({**SRIOV, "connected": False}), VM, around(VM, present, **LOCKED))
    assert done(judged) == [("edit", 4000)]
    assert judged.step.needs_power_off


def test_a_vm_that_is_off_is_judged_by_what_counts_at_power_on():
    waiting = {"connectable": {"startConnected": True, "allowGuestControl": True, "connected": False}}
    off = {"runtime__powerState": "poweredOff"}
    assert judge(want({**VMXNET3, "connected": True}), VM, around(VM, card(4000, **waiting), **off)).steps == ()


def test_another_function_of_an_sriov_adapter():
    present = card(4000, RDMA, "VirtualSriovEthernetCard")
    judged = judge(want({**SRIOV, "physical_function": NIC4}), VM, around(VM, present, **LOCKED))
    assert done(judged) == [("edit", 4000)]
    assert judged.step.needs_power_off
    assert judge(want({**SRIOV, "physical_function": "auto"}), VM, around(VM, present, **LOCKED)).steps == ()


def test_of_equals_the_one_that_is_so_already_is_meant():
    off = {"connectable": {"startConnected": False, "allowGuestControl": True, "connected": False}}
    estate = around(VM, card(4000), card(4001, **off))
    first = {**VMXNET3, "connected": False}
    assert judge(want(first, {**VMXNET3, "connected": True}), VM, estate).steps == ()
    assert done(judge(want(first, first), VM, estate)) == [("edit", 4000)]


def test_equals_that_satisfy_each_other_s_entries_are_shared_out():
    """The greedy way would take the only adapter with that address for the entry that says less."""
    mac = "00:50:56:80:00:00"
    estate = around(VM, card(4000), card(4001))
    assert judge(want({**VMXNET3, "connected": True}, {**VMXNET3, "mac": mac}), VM, estate).steps == ()


# -- the order


def test_an_order_that_only_removing_could_bring_is_said():
    estate = around(VM, card(4000))
    judged = judge(want({"port_group": "dvpg-rdma"}, VMXNET3), VM, estate)
    assert done(judged) == [("add", "Vmxnet3")]
    (note,) = judged.notes
    assert "vmxnet3 on dvpg-lan, vmxnet3 on dvpg-rdma" in note
    assert judge(want(VMXNET3, {"port_group": "dvpg-rdma"}), VM, estate).notes == ()


def test_new_ones_come_in_the_order_of_the_playbook():
    entries = [{"port_group": g, "type": t} for g in ("dvpg-lan", "dvpg-rdma") for t in ("e1000e", "vmxnet3")]
    assert [k for _, k in done(judge(want(*entries), VM, around(VM)))] == ["E1000e", "Vmxnet3"] * 2


# -- what blocks it


def problems(state, estate, **of_view):
    return set(judge(state, VM, estate, **of_view).problems)


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ({"port_group": "no-such"}, "adapters.port-group"),
        ({**SRIOV, "port_group": "VM Network"}, "adapters.distributed"),
        ({**VMXNET3, "protocol": "rocev2"}, "adapters.field"),
        ({**VMXNET3, "physical_function": NIC4}, "adapters.field"),
        ({**VMXNET3, "mac": "01:50:56:00:00:01"}, "adapters.mac"),
        ({**VMXNET3, "mac": "00:50:56:40:00:01"}, "adapters.mac"),
        ({**VMXNET3, "mac": "00:0c:29:00:00:01"}, "adapters.mac"),
        ({**VMXNET3, "mac": "00:00:00:00:00:00"}, "adapters.mac"),
        ({**SRIOV, "physical_function": NIC5}, "sriov.no-vf"),
        ({"type": "sriov", "port_group": "dvpg-lan"}, "sriov.no-vf"),
    ],
)
def test_refused(entry, rule):
    assert problems(want(entry), around(VM)) == {rule}


def test_what_is_there_is_never_in_the_way():
    odd = card(4000, "dvportgroup-9", addressType="manual", macAddress="00:50:56:ff:00:00")
    elsewhere = card(4001, "name:Old Network")
    full = [card(4002 + n) for n in range(9)]
    entries = [VMXNET3] * 9
    assert problems(want(*entries), around(VM, odd, elsewhere, *full)) == set()


def test_a_host_that_is_not_on_the_network():
    bare = machine(ESX1, config__network__proxySwitch=(), network=())
    assert problems(want(VMXNET3), around(VM, hosts=(bare,))) == {"adapters.not-on-host"}
    assert problems(want({"port_group": "VM Network"}), around(VM, hosts=(bare,))) == {"adapters.not-on-host"}
    unread = machine(ESX1, config__network__proxySwitch=None, network=None)
    assert problems(want(VMXNET3, {"port_group": "VM Network"}), around(VM, hosts=(unread,))) == set()


def test_an_uplink_port_group():
    up = Facts("DistributedVirtualPortgroup:dvportgroup-3",
               {"name": "dvs-lan-DVUplinks", "parent": "Folder:group-n1", "key": "dvportgroup-3",
                "config.uplink": True, "config.distributedVirtualSwitch": LAN_SWITCH})  # fmt: skip
    assert problems(want({"port_group": "dvs-lan-DVUplinks"}), around(VM, others=(up,))) == {"adapters.port-group"}


def test_more_than_ten():
    assert problems(want(*[VMXNET3] * 11), around(VM)) == {"adapters.count"}
    assert problems(want(*[VMXNET3] * 8), around(VM, *(card(4000 + n, RDMA) for n in range(3)))) == {"adapters.count"}


def test_an_address_belongs_to_one():
    twice = {**VMXNET3, "mac": "00:50:56:01:02:03"}
    assert problems(want(twice, {**twice, "type": "e1000e"}), around(VM)) == {"adapters.mac-taken"}
    taken = card(4000, macAddress="00:50:56:01:02:03")
    other = guest(vm(2), ESX1, config__hardware__device=(taken,))
    judged = judge(want(twice), VM, around(VM, others=(other,)))
    assert "train-02" in judged.problems["adapters.mac-taken"].message


def test_pvrdma_in_two_places():
    said = {(VM.ref, "pvrdma"): Pvrdma(adapters=())}
    entry = {"type": "pvrdma", "port_group": "dvpg-rdma"}
    assert problems(want(entry), around(VM), stated=said) == {"adapters.pvrdma-twice"}
    assert problems(want(VMXNET3), around(VM), stated=said) == set()


def test_pvrdma_is_proved_as_by_its_own_kind():
    entry = {"type": "pvrdma", "port_group": "dvpg-lan", "protocol": "rocev2"}
    estate = around(VM, config__version="vmx-11")
    assert problems(want(entry), estate) == {"pvrdma.hardware-version", "pvrdma.protocol", "pvrdma.not-rdma"}


def test_memory_that_is_reserved_in_part():
    half = VmHardware(memory_reservation=1024)
    estate = around(VM)
    plan = plan_one(estate, VM, half, want(SRIOV))
    assert (VM.name, "adapters.memory") in rules(plan)


def test_an_old_vm_has_no_sriov():
    assert problems(want(SRIOV), around(VM, config__version="vmx-09")) == {"adapters.hardware-version"}


def test_a_vm_whose_devices_are_not_read():
    assert problems(want(VMXNET3), around(VM, config__hardware__device=None)) == {"adapters.unreadable"}


# -- virtual functions


def sriov_vm(number, count, on="poweredOn"):
    cards = tuple(card(4000 + n, RDMA, "VirtualSriovEthernetCard") for n in range(count))
    return guest(vm(number), ESX1, config__hardware__device=cards, runtime__powerState=on)


@pytest.mark.parametrize(
    ("held", "power", "wanted", "refused"),
    [(3, "poweredOn", 1, False), (3, "poweredOn", 2, True), (4, "poweredOff", 4, False), (0, "poweredOn", 5, True)],
)
def test_functions_are_counted_over_the_vms_of_the_host(held, power, wanted, refused):
    judged = judge(want(*[SRIOV] * wanted), VM, around(VM, others=(sriov_vm(2, held, power),)))
    assert set(judged.problems) == ({"sriov.no-vf"} if refused else set())


def test_a_nic_that_is_named_leaves_the_others_to_those_that_name_none():
    both = machine(ESX1, function(NIC4, 1), function(NIC5, 1))
    estate = around(VM, hosts=(both,))
    assert (
        problems(want({**SRIOV, "physical_function": NIC4}, {"type": "sriov", "port_group": "dvpg-lan"}), estate)
        == set()
    )
    assert problems(want(SRIOV, {**SRIOV, "physical_function": NIC4}), estate) == {"sriov.no-vf"}


def test_a_vm_runs_where_its_functions_are():
    bare = machine(ESX2, function(NIC4))
    estate = around(VM, card(4000, RDMA, "VirtualSriovEthernetCard"), hosts=(machine(), bare))
    assert view(estate).candidates(VM.ref) == (ESX1,)


# -- told


def test_shown_and_stated():
    manual = {"addressType": "manual", "macAddress": "00:50:56:01:02:03"}
    off = {"connectable": {"startConnected": False, "allowGuestControl": True, "connected": False}}
    estate = around(VM, card(4000, **manual), card(4001, RDMA, "VirtualSriovEthernetCard", **off),
                    card(4002, "name:VM Network", "VirtualE1000e"), card(4003, RDMA, "VirtualVmxnet3Vrdma"),
                    card(4004, typ="VirtualE1000"))  # fmt: skip
    seen = view(estate)
    state = seen.state(VM.ref, "adapters")
    assert [str(a) for a in state.export(VM, seen, "shown").state.adapters] == [
        "vmxnet3 on dvpg-lan (00:50:56:01:02:03)",
        "sriov on dvpg-rdma (disconnected)",
        "e1000e on VM Network",
        "pvrdma on dvpg-rdma",
        "e1000 on dvpg-lan",
    ]
    stated = state.export(VM, seen, "playbook").state
    assert [(a.type, a.port_group, a.mac) for a in stated.adapters] == [
        ("vmxnet3", "dvpg-lan", "00:50:56:01:02:03"),
        ("sriov", "dvpg-rdma", None),
        ("e1000e", "VM Network", None),
    ]
    again = want(*({k: getattr(a, k) for k in NetworkAdapter.model_fields if getattr(a, k) is not None}
                   for a in stated.adapters))  # fmt: skip
    assert judge(again, VM, around(VM, *estate[VM.ref].get("config.hardware.device"), **LOCKED)).steps == ()
    assert state.export(VM, seen, "playbook").left_out == "adapters left out: e1000 on dvpg-lan"


def test_a_vm_without_adapters_states_nothing():
    seen = view(around(VM))
    assert seen.state(VM.ref, "adapters").export(VM, seen, "playbook").state is None


@pytest.mark.parametrize("entry", [{"mac": "no"}, {"type": "e1000"}, {"physical_function": "vmnic4"}, {"device": "x"}])
def test_what_the_language_refuses(entry):
    with pytest.raises(ValidationError):
        NetworkAdapter(**{**VMXNET3, **entry})


# -- identity, whatever the VM looks like

GROUPS = {"dvpg-lan": LAN_KEY, "dvpg-rdma": RDMA, "VM Network": "name:VM Network"}
TYPES = {
    "vmxnet3": "VirtualVmxnet3",
    "e1000e": "VirtualE1000e",
    "e1000": "VirtualE1000",
    "pvrdma": "VirtualVmxnet3Vrdma",
    "sriov": "VirtualSriovEthernetCard",
}
COLD = ("pvrdma", "sriov")  # on a distributed port group with an RDMA NIC behind it
FOREIGN = (
    {"_typeName": "VirtualDisk", "unitNumber": 0, "backing": {"fileName": "[ds] train-01.vmdk"}},
    {"_typeName": "ParaVirtualSCSIController", "busNumber": 0},
    {"_typeName": "VirtualUSBController"},
    {"_typeName": "VirtualPCIPassthrough", "backing": {"id": NIC4}},
    {"_typeName": "VirtualPCIPassthrough", "backing": {"_typeName": "VirtualPCIPassthroughVmiopBackingInfo",
                                                       "vgpu": "grid_a100-10c"}},
    {"_typeName": "VirtualSerialPort", "backing": {"port": {"portgroupKey": RDMA}}},
    {"_typeName": "VirtualSomethingNew"},
)  # fmt: skip
ADAPTERS = st.lists(
    st.tuples(st.sampled_from(sorted(TYPES)), st.sampled_from(sorted(GROUPS)), st.booleans(), st.text(max_size=5)),
    max_size=8,
).map(lambda found: [(t, "dvpg-rdma" if t in COLD else g, on, label) for t, g, on, label in found])
OTHERS = st.lists(st.sampled_from(FOREIGN), max_size=5)
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(["vmxnet3", "e1000e", *COLD]),
        st.sampled_from(sorted(GROUPS)),
        st.sampled_from([None, True, False]),
    ),
    max_size=6,
).map(lambda listed: [(t, "dvpg-rdma" if t in COLD else g, on) for t, g, on in listed])
LIMITS = {"adapters.count", "pvrdma.count", "sriov.no-vf"}


def foreign(others):
    """Devices that are no network adapters, with keys before and after those of network adapters."""
    return [{**device, "key": (100, 4500)[n % 2] + n} for n, device in enumerate(others)]


def present(found):
    def connection(on):
        return {"startConnected": on, "allowGuestControl": True, "connected": on}

    return [
        card(4000 + n, GROUPS[g], TYPES[t], connectable=connection(on), deviceInfo={"label": label})
        for n, (t, g, on, label) in enumerate(found)
    ]


def entries_of(listed):
    return [{"type": t, "port_group": g} | ({} if on is None else {"connected": on}) for t, g, on in listed]


def carried_out(devices, judged):
    """The devices as vSphere would have them afterwards."""
    changes = judged.step.device_changes if judged.steps else ()
    after = {d["key"]: d for d in devices}
    for change in changes:
        made = change["device"]
        key = made.get("key", max([3999, *after]) + 1)
        if change["operation"] == "remove":
            del after[key]
        else:
            after[key] = {"unitNumber": key - 3993, "addressType": "assigned", **made, "key": key}
    return list(after.values())


@settings(max_examples=60, deadline=None)
@given(found=ADAPTERS, others=OTHERS, listed=ENTRIES, order=st.randoms(use_true_random=False))
def test_nothing_that_is_not_named_is_touched(found, others, listed, order):
    devices = [*present(found), *foreign(others)]
    judged = judge(want(*entries_of(listed)), VM, around(VM, *devices, **LOCKED))
    if judged.problems:
        assert set(judged.problems) <= LIMITS
        return
    changes = [(c["operation"], c["device"]) for c in (judged.step.device_changes if judged.steps else ())]
    assert "remove" not in [operation for operation, _ in changes]
    # as many are added as there are too few of, of each type and port group
    for typ, group in {(t, g) for t, g, _ in listed}:
        have = sum((t, g) == (typ, group) for t, g, _, _ in found)
        asked = sum((t, g) == (typ, group) for t, g, _ in listed)
        after = sum(_is(d, typ, group) for d in carried_out(devices, judged))
        assert after == max(have, asked)
    named = {(TYPES[t], GROUPS[g]) for t, g, _ in listed}
    for operation, made in changes:
        if operation == "edit":
            index = made["key"] - 4000
            assert (TYPES[found[index][0]], GROUPS[found[index][1]]) in named
    # once it is so, nothing is left to do, in whatever order the same adapters are listed
    then = carried_out(devices, judged)
    assert all(d in then for d in foreign(others))
    shuffled = list(listed)
    order.shuffle(shuffled)
    assert judge(want(*entries_of(shuffled)), VM, around(VM, *then, **LOCKED)).steps == ()


@settings(max_examples=30, deadline=None)
@given(found=ADAPTERS, others=OTHERS, listed=ENTRIES)
def test_exclusive_leaves_exactly_what_is_listed(found, others, listed):
    devices = [*present(found), *foreign(others)]
    judged = judge(want(*entries_of(listed), exclusive=True), VM, around(VM, *devices, **LOCKED))
    if judged.problems:
        assert set(judged.problems) <= LIMITS
        return
    then = carried_out(devices, judged)
    assert len(then) == len(listed) + len(others)
    assert all(d in then for d in foreign(others))
    assert judge(want(*entries_of(listed), exclusive=True), VM, around(VM, *then, **LOCKED)).steps == ()
    kept = [
        c["device"]["key"] for c in (judged.step.device_changes if judged.steps else ()) if c["operation"] == "remove"
    ]
    for typ, group in {(t, g) for t, g, _ in listed}:
        have = [d["key"] for d in devices if _is(d, typ, group)]
        asked = sum((t, g) == (typ, group) for t, g, _ in listed)
        assert sum(key in kept for key in have) == max(0, len(have) - asked)


@settings(max_examples=60, deadline=None)
@given(found=ADAPTERS, others=OTHERS, listed=st.lists(st.sampled_from([None, "rocev1", "rocev2"]), max_size=4))
def test_pvrdma_touches_its_own_adapters_only_and_names_what_goes(found, others, listed):
    devices = [*present(found), *foreign(others)]
    state = Pvrdma(adapters=tuple(PvrdmaAdapter(port_group="dvpg-rdma", protocol=p) for p in listed))
    judged = judge(state, VM, around(VM, *devices, **LOCKED))
    if judged.problems:
        assert set(judged.problems) <= LIMITS
        return
    changes = judged.step.device_changes if judged.steps else ()
    assert {c["device"]["_typeName"] for c in changes} <= {"VirtualVmxnet3Vrdma"}
    gone = [c["device"]["macAddress"] for c in changes if c["operation"] == "remove"]
    assert len(judged.notes) == bool(gone)
    assert all(mac in note for note in judged.notes for mac in gone)
    then = carried_out(devices, judged)
    assert all(d in then for d in devices if d["_typeName"] != "VirtualVmxnet3Vrdma")
    assert sum(d["_typeName"] == "VirtualVmxnet3Vrdma" for d in then) == len(listed)
    assert judge(state, VM, around(VM, *then, **LOCKED)).steps == ()


def _is(device, typ, group):
    backing = device.get("backing") or {}
    where = (backing.get("port") or {}).get("portgroupKey") or f"name:{backing.get('deviceName')}"
    return (device["_typeName"], where) == (TYPES[typ], GROUPS[group])
