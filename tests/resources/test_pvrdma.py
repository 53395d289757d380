"""The PVRDMA kind: adapters by port group, and the proof that RDMA is behind it on every host in question."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import (
    CLUSTER,
    ESX1,
    ESX2,
    GROUP,
    LAN,
    SWITCH,
    estate,
    guest,
    host,
    made,
    pvrdma_device,
    state_of,
    vgpu_device,
    view,
    vm,
    wants,
)
from support.judging import judge, rules, steps_of, words
from support.plays import READY

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.report.plans.plan_text import plan_text
from vsphere_ai.resources.pvrdma import Pvrdma, PvrdmaAdapter
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

ALONE = f"{READY}- vms: train-03\n  pvrdma: [{{port_group: dvpg-rdma}}]\n"

VM = vm(1)
OPEN = {
    "option:Net.PVRDMAVmknic": "vmk2",
    "config__firewall__ruleset": ({"_typeName": "HostFirewallRuleset", "key": "pvrdma", "enabled": True},),
}
KEY, LAN_KEY = "dvportgroup-1", "dvportgroup-2"


def around(*devices, hosts=(ESX1,), more_host=None, **more):
    prepared = {**OPEN, **(more_host or {})}
    machines = [host(h, **prepared) for h in hosts]
    return estate(*machines, guest(VM, ESX1, config__hardware__device=tuple(devices), **more))


def want(*adapters):
    return Pvrdma(adapters=tuple(PvrdmaAdapter(port_group=g, protocol=p) for g, p in adapters))


def operations(step):
    changes = step.device_changes
    return [(c["operation"], c["device"].get("key"), c["device"].get("deviceProtocol")) for c in changes]


LOCKED = {"config__memoryReservationLockedToMax": True}
V2 = ("dvpg-rdma", "rocev2")


# -- what changes


def test_as_wanted():
    judged = judge(want(V2), VM, around(pvrdma_device(4000), **LOCKED))
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_a_first_adapter_is_added_by_key_and_reserves_the_memory():
    judged = judge(want(V2), VM, around())
    assert list(judged.fields) == ["adapters", "memory_locked"]
    step = judged.step
    assert step.needs_power_off
    assert step.spec == {"memoryReservationLockedToMax": True}
    (change,) = step.device_changes
    assert (change["_typeName"], change["operation"]) == ("VirtualDeviceConfigSpec", "add")
    device = change["device"]
    assert device["_typeName"] == "VirtualVmxnet3Vrdma"
    assert device["deviceProtocol"] == "rocev2"
    assert device["backing"] == {
        "_typeName": "VirtualEthernetCardDistributedVirtualPortBackingInfo",
        "port": {
            "_typeName": "DistributedVirtualSwitchPortConnection",
            "portgroupKey": KEY,
            "switchUuid": "50 2b",
        },
    }
    assert device["connectable"] == {
        "_typeName": "VirtualDeviceConnectInfo",
        "startConnected": True,
        "allowGuestControl": True,
        "connected": True,
    }


def test_without_a_protocol_the_default_is_left_to_vsphere():
    (change,) = judge(want(("dvpg-rdma", None)), VM, around()).step.device_changes
    assert "deviceProtocol" not in change["device"]


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        ([pvrdma_device(4000)], [V2, V2], [("add", None, "rocev2")]),
        ([pvrdma_device(4000), pvrdma_device(4001)], [V2], [("remove", 4001, "rocev2")]),
        ([pvrdma_device(4000)], [("dvpg-rdma", "rocev1")], [("edit", 4000, "rocev1")]),
        ([pvrdma_device(4000, protocol="rocev1"), pvrdma_device(4001)], [V2, V2], [("edit", 4000, "rocev2")]),
        ([pvrdma_device(4000, LAN_KEY)], [V2], [("remove", 4000, "rocev2"), ("add", None, "rocev2")]),
        ([pvrdma_device(4000)], [], [("remove", 4000, "rocev2")]),
        ([pvrdma_device(4000)], [("dvpg-rdma", None)], []),
        ([pvrdma_device(4000, protocol=None)], [("dvpg-rdma", None)], []),
        ([pvrdma_device(4000, protocol="rocev1"), pvrdma_device(4001)], [("dvpg-rdma", None)] * 2, []),
        ([pvrdma_device(4000, protocol="rocev1"), pvrdma_device(4001)], [("dvpg-rdma", None), V2], []),
        ([pvrdma_device(4000, protocol="rocev1")], [("dvpg-rdma", None)] * 2, [("add", None, None)]),
    ],
)
def test_only_the_difference(present, wanted, expected):
    judged = judge(want(*wanted), VM, around(*present, **LOCKED))
    assert not judged.problems
    assert (operations(judged.step) if judged.steps else []) == expected


def test_an_edit_keeps_key_address_and_port():
    device = pvrdma_device(4007, protocol="rocev1")
    (change,) = judge(want(V2), VM, around(device, **LOCKED)).step.device_changes
    assert change["device"] == {**device, "deviceProtocol": "rocev2"}


def test_adapters_of_other_types_are_never_touched():
    lan = {**pvrdma_device(4000, LAN_KEY), "_typeName": "VirtualVmxnet3"}
    others = (lan, {"_typeName": "VirtualDisk", "key": 2000}, vgpu_device(13000, "grid_a100-40c"))
    judged = judge(want(), VM, around(*others, pvrdma_device(4001), **LOCKED))
    assert operations(judged.step) == [("remove", 4001, "rocev2")]
    assert judge(want(), VM, around(*others)).fields == {}


def test_removing_the_last_adapter_leaves_the_reservation_alone():
    assert judge(want(), VM, around(pvrdma_device(4000), **LOCKED)).step.spec == {}


def test_an_adapter_that_is_there_without_the_reservation_gets_it():
    judged = judge(want(V2), VM, around(pvrdma_device(4000)))
    assert judged.fields == {"memory_locked": (False, True)}
    assert judged.step.device_changes == ()
    assert judged.step.spec == {"memoryReservationLockedToMax": True}


def test_the_order_of_adapters_means_nothing():
    devices = (pvrdma_device(4000, protocol="rocev1"), pvrdma_device(4001))
    assert judge(want(V2, ("dvpg-rdma", "rocev1")), VM, around(*devices, **LOCKED)).fields == {}


def test_adapters_not_stated_stay():
    assert judge(Pvrdma(), VM, around(pvrdma_device(4000), **LOCKED)).fields == {}


def test_vgpu_and_pvrdma_of_one_vm_are_one_reconfigure_in_one_power_cycle():
    seen = around(more_host={"active": "sharedDirect", "config__sharedPassthruGpuTypes": ("grid_a100-40c",)})
    plan = made(seen, {VM: wants(want(V2), Vgpu(profiles=("grid_a100-40c",)), VmHardware(cpu_reservation_mhz=9))})
    assert plan.problems == ()
    steps = steps_of(plan, VM)
    assert words(steps) == ["power-off", "reconfigure", "as-planned", "power-on"]
    keys = [c["device"]["key"] for c in steps[1].device_changes]
    assert len(set(keys)) == len(keys) == 2
    assert all(k < 0 for k in keys)


# -- hardware version and protocol


@pytest.mark.parametrize(
    ("version", "protocol", "found"),
    [
        (12, None, {"pvrdma.hardware-version"}),
        (12, "rocev1", {"pvrdma.hardware-version", "pvrdma.protocol"}),
        (13, None, set()),
        (13, "rocev1", {"pvrdma.protocol"}),
        (14, "rocev1", set()),
        (19, "rocev2", set()),
        (20, "rocev2", {"pvrdma.protocol"}),
        (20, None, set()),
    ],
)
def test_the_protocol_is_chosen_on_versions_14_to_19_only(version, protocol, found):
    judged = judge(want(("dvpg-rdma", protocol)), VM, around(config__version=f"vmx-{version}"))
    assert set(judged.problems) == found


def test_an_adapter_that_has_its_protocol_already_is_not_refused_for_it():
    seen = around(pvrdma_device(4000), config__version="vmx-20", **LOCKED)
    assert judge(want(V2), VM, seen).problems == {}


def test_the_upgrade_of_the_same_plan_counts():
    seen = around(config__version="vmx-11")
    assert (VM.name, "pvrdma.hardware-version") in rules(made(seen, {VM: wants(want(V2))}))
    assert made(seen, {VM: wants(want(V2), VmHardware(version=19))}).problems == ()


def test_at_most_ten():
    assert judge(want(*[V2] * 10), VM, around()).problems == {}
    assert set(judge(want(*[V2] * 11), VM, around()).problems) == {"pvrdma.count"}


ASKED = "query:config-option:vmx-17"


def with_limits(seen, **limits):
    return Estate(seen.about, {**seen.objects, CLUSTER: Facts(CLUSTER, {"name": "gpu-a", ASKED: limits})})


def test_the_cluster_says_how_many():
    seen = with_limits(around(config__version="vmx-17"), numEthernetCards=4, numVmxnet3VrdmaEthernetCards=1)
    assert judge(want(("dvpg-rdma", None)), VM, seen).problems == {}
    judged = judge(want(*[("dvpg-rdma", None)] * 2), VM, seen)
    assert set(judged.problems) == {"pvrdma.count"}
    assert "1 at most (gpu-a, for hardware version 17)" in judged.problems["pvrdma.count"].message
    later = made(seen, {VM: wants(want(*[("dvpg-rdma", None)] * 2), VmHardware(version=19))})
    assert later.problems == (), "that version was not asked for"


def test_adapters_of_other_types_take_places_too():
    cards = [{"_typeName": "VirtualVmxnet3", "key": 4000 + n, "unitNumber": 7 + n} for n in range(9)]
    assert judge(want(V2), VM, around(*cards)).problems == {}
    assert set(judge(want(V2, V2), VM, around(*cards)).problems) == {"pvrdma.count"}
    there = [pvrdma_device(4100), pvrdma_device(4101)]
    assert "pvrdma.count" not in judge(want(V2, V2), VM, around(*cards, *there)).problems, "it is there already"


# -- port groups


def with_group(seen, *groups):
    return Estate(seen.about, {**seen.objects, **{g.ref: g for g in groups}})


def test_an_unknown_port_group_is_refused_with_those_there_are():
    (problem,) = judge(want(("dvpg-rmda", "rocev2")), VM, around()).problems.values()
    assert problem.rule == "pvrdma.port-group"
    assert "dvpg-lan, dvpg-rdma" in problem.remedy


def test_a_standard_port_group_is_told_apart():
    seen = with_group(around(), Facts("Network:network-1", {"name": "VM Network"}))
    (problem,) = judge(want(("VM Network", None)), VM, seen).problems.values()
    assert "not a distributed port group" in problem.message


def test_an_ambiguous_name_is_refused_with_both_places():
    twin = Facts("DistributedVirtualPortgroup:dvportgroup-9", {**dict(around()[GROUP].properties), "key": "x"})
    (problem,) = judge(want(V2), VM, with_group(around(), twin)).problems.values()
    assert (problem.rule, problem.message.count("/DC0/network/dvpg-rdma")) == ("pvrdma.port-group", 2)


# -- the proof


def rdma(**more):
    device = {
        "_typeName": "HostRdmaDevice", "key": "key-vmrdma0", "device": "vmrdma0",
        "backing": {"_typeName": "HostRdmaDevicePnicBacking", "pairedUplink": "key-vmnic4"},
        "connectionInfo": {"state": "active", "mtu": 4096, "speedInMbps": 100000},
        "capability": {"roceV1Capable": True, "roceV2Capable": True, "iWarpCapable": False},
    }  # fmt: skip
    return ({**device, **more},)


def proxy(**more):
    switch = {
        "_typeName": "HostProxySwitch", "dvsUuid": "50 2b", "dvsName": "dvs-rdma", "pnic": ("key-vmnic4",),
        "uplinkPort": ({"key": "12", "value": "Uplink 1"},),
        "spec": {"backing": {"pnicSpec": ({"pnicDevice": "vmnic4", "uplinkPortKey": "12"},)}},
    }  # fmt: skip
    return ({**switch, **more},)


def refusal(seen, protocol="rocev2"):
    judged = judge(want(("dvpg-rdma", protocol)), VM, seen)
    assert set(judged.problems) == {"pvrdma.not-rdma"}
    problem = judged.problems["pvrdma.not-rdma"]
    assert problem.remedy
    return problem.message


NET = "config__network__"
WAYS = [
    ({f"{NET}proxySwitch": ()}, "host is a member of the switch"),
    ({f"{NET}proxySwitch": proxy(dvsUuid="50 2c")}, "host is a member of the switch"),
    ({f"{NET}proxySwitch": proxy(uplinkPort=({"key": "12", "value": "Uplink 2"},))}, "physical NIC of that uplink"),
    ({f"{NET}proxySwitch": proxy(spec={"backing": {"pnicSpec": ()}})}, "physical NIC of that uplink"),
    ({f"{NET}proxySwitch": proxy(spec={})}, "physical NIC of that uplink"),
    ({f"{NET}pnic": ()}, "physical NIC of that uplink"),
    ({f"{NET}rdmaDevice": ()}, "RDMA device of that NIC"),
    ({f"{NET}rdmaDevice": rdma(backing={"pairedUplink": "key-vmnic5"})}, "RDMA device of that NIC"),
    ({f"{NET}rdmaDevice": rdma(backing=None)}, "RDMA device of that NIC"),
    ({f"{NET}rdmaDevice": rdma(connectionInfo={"state": "down"})}, "RDMA device is active"),
    ({f"{NET}rdmaDevice": rdma(capability={"roceV1Capable": True, "roceV2Capable": False})}, "RoCE protocol"),
    ({f"{NET}rdmaDevice": rdma(capability={"iWarpCapable": True})}, "RoCE protocol"),
    ({f"{NET}proxySwitch": proxy(pnic=("key-vmnic4", "key-vmnic5"))}, "RDMA NIC is the switch's only uplink"),
]


@pytest.mark.parametrize(("change", "link"), WAYS)
def test_every_broken_link_on_a_host_is_named(change, link):
    message = refusal(around(more_host=change))
    assert f"broken at {link} (" in message
    assert ESX1.name in message


def test_the_device_name_does_not_count_but_the_key_does():
    renamed = rdma(device="vmrdma7")
    assert judge(want(V2), VM, around(more_host={f"{NET}rdmaDevice": renamed})).problems == {}


@pytest.mark.parametrize("state", ["active", "activeDefer"])
def test_states_that_carry_traffic(state):
    change = {f"{NET}rdmaDevice": rdma(connectionInfo={"state": state})}
    assert judge(want(V2), VM, around(more_host=change)).problems == {}


def test_no_protocol_takes_any_roce():
    change = {f"{NET}rdmaDevice": rdma(capability={"roceV1Capable": True})}
    assert judge(want(("dvpg-rdma", None)), VM, around(more_host=change)).problems == {}
    assert "speaks rocev1" in refusal(around(more_host=change), "rocev2")


def changed_group(**more):
    seen = around()
    return with_group(seen, Facts(GROUP, {**seen[GROUP].properties, **more}))


def uplinks(*names):
    return {"config.defaultPortConfig": {"uplinkTeamingPolicy": {"uplinkPortOrder": {"activeUplinkPort": names}}}}


@pytest.mark.parametrize(
    ("change", "link", "seen"),
    [
        ({"config.uplink": True}, "port group", "uplink port group"),
        ({"config.distributedVirtualSwitch": "VmwareDistributedVirtualSwitch:dvs-7"}, "distributed switch", "cannot"),
        (uplinks("Uplink 1", "Uplink 2"), "active uplink of the port group", "Uplink 1, Uplink 2"),
        (uplinks(), "active uplink of the port group", "none"),
        ({"config.defaultPortConfig": None}, "active uplink of the port group", "none"),
        (uplinks("Uplink 9"), "physical NIC of that uplink", "Uplink 9"),
    ],
)
def test_every_broken_link_of_a_port_group_is_named(change, link, seen):
    message = refusal(changed_group(**change))
    assert f"broken at {link} (" in message
    assert seen in message


def test_a_port_group_on_a_switch_without_rdma():
    assert "host is a member of the switch" in str(judge(want(("dvpg-lan", "rocev2")), VM, around()).problems)
    assert LAN != GROUP != SWITCH


def test_every_host_the_vm_can_run_on_is_proved():
    seen = around(hosts=(ESX1, ESX2))
    broken = host(ESX2, **OPEN, **{f"{NET}rdmaDevice": ()})
    judged = judge(want(V2), VM, with_group(seen, broken))
    assert ESX2.name in judged.problems["pvrdma.not-rdma"].message
    assert judge(want(V2), VM, seen).problems == {}


def test_a_host_that_does_not_offer_the_vms_vgpu_does_not_count():
    gpu = {"active": "sharedDirect", "config__sharedPassthruGpuTypes": ("grid_a100-40c",)}
    seen = around(more_host=gpu)
    other = host(ESX2, **{f"{NET}rdmaDevice": ()})
    both = Vgpu(profiles=("grid_a100-40c",)), want(V2)
    assert made(with_group(seen, other), {VM: wants(*both)}).problems == ()


# -- what the hosts need


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"option:Net.PVRDMAVmknic": ""}, {"pvrdma.vmknic"}),
        ({"option:Net.PVRDMAVmknic": None}, {"pvrdma.vmknic"}),
        ({"config__firewall__ruleset": ()}, {"pvrdma.firewall"}),
        ({"option:Net.PVRDMAVmknic": None, "config__firewall__ruleset": None}, {"pvrdma.vmknic"}),
    ],
)
def test_the_vmkernel_adapter_and_the_firewall_are_checked(change, found):
    judged = judge(want(V2), VM, around(more_host=change))
    assert set(judged.problems) == found
    assert all(ESX1.name in p.message and "pvrdma_host" in p.remedy for p in judged.problems.values())


def test_they_are_satisfied_by_the_same_plan():
    seen = estate(host(ESX1), guest(VM, ESX1))
    assert {r for _, r in rules(made(seen, {VM: wants(want(V2))}))} == {"pvrdma.vmknic", "pvrdma.firewall"}
    plan = made(seen, {VM: wants(want(V2)), ESX1: wants(PvrdmaHost(vmknic="vmk2", firewall=True))})
    assert plan.problems == ()


# -- words


def test_port_groups_are_shown_by_name():
    seen = view(around(pvrdma_device(4000), pvrdma_device(4001, "dvportgroup-77", None)))
    state = seen.state(VM.ref, "pvrdma").export(VM, seen, "playbook").state
    assert [str(a) for a in state.adapters] == ["dvpg-rdma (rocev2)", "dvportgroup-77"]


def test_show_leaves_out_vms_without_an_adapter():
    seen = view(around())
    assert seen.state(VM.ref, "pvrdma").export(VM, seen, "playbook").state is None
    assert state_of(Pvrdma, Facts("VirtualMachine:vm-9")) is None


def test_an_adapter_on_no_distributed_port_group_is_seen():
    odd = {**pvrdma_device(4000), "backing": {"_typeName": "VirtualEthernetCardNetworkBackingInfo"}}
    (adapter,) = view(around(odd)).state(VM.ref, "pvrdma").adapters
    assert adapter.port_group == "(no distributed port group)"
    assert operations(judge(want(V2), VM, around(odd, **LOCKED)).step)[0][:2] == ("remove", 4000)


def test_protocols_are_roce_only():
    with pytest.raises(ValidationError):
        PvrdmaAdapter(port_group="dvpg-rdma", protocol="iwarp")


# -- what goes


def test_what_goes_is_named_and_counted():
    """Whoever lists an adapter to add one may not know of the others."""
    there = {**pvrdma_device(4001), "macAddress": "00:50:56:80:00:01", "deviceInfo": {"label": "Network adapter 3"}}
    there["backing"] = {"port": {"portgroupKey": LAN_KEY}}
    estate_ = around(pvrdma_device(4000), there, **LOCKED)
    judged = judge(want(V2), VM, estate_)
    assert operations(judged.step) == [("remove", 4001, "rocev2")]
    (note,) = judged.notes
    assert note.startswith("REMOVES Network adapter 3 (dvpg-lan, 00:50:56:80:00:01): not in the list")
    plan = made(estate_, {VM: wants(want(V2))})
    text = plan_text(plan, "0" * 64, 200)
    assert "- pvrdma" in text
    assert f"! {note}" in text
    assert "0 to add, 0 to change, 1 to remove" in text


def test_an_empty_list_names_them_all_and_an_edit_names_none():
    devices = (pvrdma_device(4000), {**pvrdma_device(4001), "macAddress": None})
    (note,) = judge(want(), VM, around(*devices, **LOCKED)).notes
    assert (
        note == "REMOVES PVRDMA adapter (dvpg-rdma, 00:50:56:00:00:00), PVRDMA adapter (dvpg-rdma): the list is empty"
    )
    assert judge(want(("dvpg-rdma", "rocev1"), V2), VM, around(*devices, **LOCKED)).notes == ()
    assert judge(Pvrdma(), VM, around(*devices, **LOCKED)).notes == ()


def test_a_port_group_that_is_not_there_still_names_what_would_go():
    judged = judge(want(("no-such", None)), VM, around(pvrdma_device(4000), **LOCKED))
    assert "pvrdma.port-group" in judged.problems
    assert judged.notes[0].startswith("REMOVES")
