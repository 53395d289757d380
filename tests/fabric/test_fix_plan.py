"""Fixes of many links merged: one uplink and one MTU per switch, and a reason for what is not changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.estates import ESX3
from support.fabrics import (
    DC,
    ESX1,
    ESX2,
    PG,
    RDMA,
    fabric,
    machine,
    member,
    nic,
    order,
    port_group,
    proxy,
    switch,
    tagged,
    vmk,
)  # fmt: skip

from vsphere_ai.fabric.corrections import KernelAdapter, NewRdmaAdapter, RdmaAdapterSettings
from vsphere_ai.fabric.fix_plan import FixPlan
from vsphere_ai.fabric.fixes import fixes_for
from vsphere_ai.fabric.links import LinkPlace
from vsphere_ai.fabric.mtu_alignment import align
from vsphere_ai.fabric.trace import Trace
from vsphere_ai.fabric.uplink_assignment import assign
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.resources.corrections import plays_of

ACTIVE = {"state": "active", "mtu": 4096}
CAN = {"roceV1Capable": True, "roceV2Capable": True}
OPTION = "option:Net.PVRDMAVmknic"
VM = Target("vm", "train-01", "VirtualMachine:vm-1")


def teamed(*active, key="dvportgroup-1", name="dvpg-rdma", **more):
    return port_group(key, name, RDMA, uplinkTeamingPolicy={"uplinkPortOrder": order(*active, **more)})


def rdma(target, nics, *, able=("vmnic4",), **more):
    """A host on dvs-rdma whose RDMA NICs are `able`."""
    devices = tuple({"device": f"vmrdma{n}", "backing": {"pairedUplink": f"key-{name}"}, "connectionInfo": ACTIVE,
                     "capability": CAN} for n, name in enumerate(able))  # fmt: skip
    known = tuple(nic(n) for n in {*nics.values(), *able, "vmnic0"})
    return machine(target, proxy("dvs-rdma", nics), nics=known, config__network__rdmaDevice=devices, **more)


def sized(device, mtu, key="dvportgroup-1", on="dvs-rdma"):
    found = vmk(device, on, key)
    return {**found, "spec": {**found["spec"], "mtu": mtu}}


def assigned(around, *paths):
    fix_plan = FixPlan()
    assign(fix_plan, around, [(host, around[ref]) for host, ref in paths])
    return fix_plan


def plays_of_plan(fix_plan):
    return plays_of(fix_plan.corrections.values())


ONE, STORE = f"{PG}:dvportgroup-1", f"{PG}:dvportgroup-3"


def test_hosts_that_want_different_uplinks_get_one():
    around = fabric(teamed("Uplink 1", "Uplink 2"), rdma(ESX1, {"Uplink 1": "vmnic4", "Uplink 2": "vmnic5"}),
                    rdma(ESX2, {"Uplink 2": "vmnic4"}))  # fmt: skip
    fix_plan = assigned(around, (ESX1, ONE), (ESX2, ONE))
    assert plays_of_plan(fix_plan) == {
        DC: {"port_groups": {"dvpg-rdma": {"active_uplinks": ("Uplink 1",)}}},
        ESX1: {"uplinks": {"dvs-rdma": {"Uplink 1": "vmnic4"}}},
        ESX2: {"uplinks": {"dvs-rdma": {"Uplink 1": "vmnic4"}}},
    }


def test_the_uplink_with_the_fewest_moves_is_taken():
    hosts = [rdma(ESX1, {"Uplink 1": "vmnic4"}), rdma(ESX2, {"Uplink 2": "vmnic4"}), rdma(ESX3, {"Uplink 2": "vmnic4"})]
    around = fabric(teamed("Uplink 1", "Uplink 2"), *hosts)
    fix_plan = assigned(around, (ESX1, ONE), (ESX2, ONE), (ESX3, ONE))
    assert plays_of_plan(fix_plan)[DC]["port_groups"] == {"dvpg-rdma": {"active_uplinks": ("Uplink 2",)}}
    assert set(plays_of_plan(fix_plan)) == {DC, ESX1}


def test_a_host_outside_the_trace_is_not_cut_off():
    around = fabric(teamed("Uplink 1", "Uplink 2"), rdma(ESX1, {"Uplink 1": "vmnic4"}),
                    rdma(ESX2, {"Uplink 2": "vmnic7"}, able=()))  # fmt: skip
    fix_plan = assigned(around, (ESX1, ONE))
    assert plays_of_plan(fix_plan)[DC]["port_groups"] == {"dvpg-rdma": {"active_uplinks": ("Uplink 1",)}}
    assert plays_of_plan(fix_plan)[ESX2]["uplinks"] == {"dvs-rdma": {"Uplink 1": "vmnic7"}}


def test_another_port_group_keeps_a_way_out_of_the_host():
    store = teamed("Uplink 2", key="dvportgroup-3", name="dvpg-store")
    around = fabric(teamed("Uplink 1"), store, rdma(ESX1, {"Uplink 1": "vmnic4", "Uplink 2": "vmnic5"}))
    fix_plan = assigned(around, (ESX1, ONE))
    assert plays_of_plan(fix_plan)[DC]["port_groups"] == {"dvpg-store": {"standby_uplinks": ("Uplink 1",)}}


def test_two_port_groups_of_one_switch_get_the_same_uplink():
    store = teamed("Uplink 2", key="dvportgroup-3", name="dvpg-store")
    around = fabric(teamed("Uplink 1"), store, rdma(ESX1, {"Uplink 1": "vmnic4"}))
    fix_plan = assigned(around, (ESX1, ONE), (ESX1, STORE))
    assert plays_of_plan(fix_plan) == {DC: {"port_groups": {"dvpg-store": {"active_uplinks": ("Uplink 1",)}}}}


def test_the_management_network_is_never_cut_off():
    managed = {"vmks": (vmk("vmk0", "dvs-rdma", "dvportgroup-3"),),
               "config__virtualNicManagerInfo__netConfig": tagged("vmk0")}  # fmt: skip
    store = teamed("Uplink 2", key="dvportgroup-3", name="dvpg-store")
    around = fabric(teamed("Uplink 1"), store, rdma(ESX1, {"Uplink 1": "vmnic4", "Uplink 2": "vmnic5"}, **managed))
    fix_plan = assigned(around, (ESX1, ONE))
    assert plays_of_plan(fix_plan) == {}
    assert fix_plan.unfixed == {ESX1: "vmk0 has the management network over Uplink 2 = vmnic5; move it first"}

    managed["vmks"] = (vmk("vmk0", "dvs-rdma", "dvportgroup-1"),)
    around = fabric(teamed("Uplink 1", "Uplink 2"), rdma(ESX1, {"Uplink 1": "vmnic4"}),
                    rdma(ESX2, {"Uplink 2": "vmnic7"}, able=(), **managed))  # fmt: skip
    fix_plan = assigned(around, (ESX1, ONE))  # the uplink that it needs is taken, though a NIC moves for it
    assert plays_of_plan(fix_plan)[DC]["port_groups"] == {"dvpg-rdma": {"active_uplinks": ("Uplink 2",)}}
    assert plays_of_plan(fix_plan)[ESX1]["uplinks"] == {"dvs-rdma": {"Uplink 2": "vmnic4"}}


def test_link_aggregation_is_not_changed():
    lag = {"hostLag": ({"lagName": "lag1", "uplinkPort": ({"key": "dvs-rdma/0", "value": "lag1-0"},)},)}
    known = proxy("dvs-rdma", {"Uplink 1": "vmnic4"}, **lag)
    ready = rdma(ESX1, {"Uplink 1": "vmnic4"})
    lagged = replace(ready, properties={**ready.properties, "config.network.proxySwitch": (known,)})
    around = fabric(teamed("Uplink 1", "Uplink 2"), lagged)
    fix_plan = assigned(around, (ESX1, ONE))
    assert plays_of_plan(fix_plan) == {}
    assert fix_plan.unchanged == ["the uplinks of dvs-rdma stay as they are: no host has an RDMA NIC to assign"]


def test_a_whole_path_is_not_changed():
    assert assigned(fabric(teamed("Uplink 1"), rdma(ESX1, {"Uplink 1": "vmnic4"})), (ESX1, ONE)).corrections == {}


def test_members_that_could_not_be_read_are_named():
    members = (member(ESX1), member(ESX2))
    unread = Facts(ESX2.ref, {"name": ESX2.name})
    vnics = {"vmks": (sized("vmk2", 9000),), OPTION.replace(".", "__"): "vmk2"}
    around = fabric(switch(config__host=members), teamed("Uplink 1", "Uplink 2"), unread,
                    rdma(ESX1, {"Uplink 1": "vmnic4"}, **vnics))  # fmt: skip
    fix_plan = assigned(around, (ESX1, ONE))
    assert align(fix_plan, around, [(ESX1, around[ONE])]) == {RDMA: 9000}
    assert fix_plan.unchanged == [
        "esx02 could not be read: a NIC has to be on Uplink 1 of dvs-rdma there",
        "esx02 could not be read: VMkernel adapters on dvs-rdma there need MTU 9000",
    ]


def aligned(*vnics, mtu=1500, **more):
    """Level dvs-rdma for ESX1, whose vmk2 has MTU 9000; ESX2 has the adapters given."""
    around = fabric(
        switch(config__maxMtu=mtu),
        port_group("dvportgroup-3", "dvpg-store"),
        rdma(ESX1, {"Uplink 1": "vmnic4"}, vmks=(sized("vmk2", more.pop("own", 9000)),), **{OPTION: "vmk2"}),
        rdma(ESX2, {"Uplink 1": "vmnic4"}, vmks=vnics, **more),
    )
    fix_plan = FixPlan()
    align(fix_plan, around, [(ESX1, around[ONE])])
    return fix_plan


def test_a_raised_switch_takes_every_adapter_along():
    fix_plan = aligned(
        sized("vmk2", 1500), sized("vmk3", 9000, "dvportgroup-3"), sized("vmk1", 1500, "dvportgroup-2", "dvs-lan")
    )
    assert plays_of_plan(fix_plan) == {
        DC: {"switches": {"dvs-rdma": {"mtu": 9000}}},
        ESX2: {"vmkernel": {"dvpg-rdma": {"mtu": 9000}}},
    }
    assert fix_plan.unchanged == []


@pytest.mark.parametrize(
    ("vnics", "more", "words"),
    [
        ((sized("vmk0", 1500),), {"config__virtualNicManagerInfo__netConfig": tagged("vmk0")}, "carries management"),
        ((sized("vmk2", 1500), sized("vmk3", 1500)), {}, "several adapters"),
    ],
)
def test_an_adapter_that_cannot_be_raised_is_named(vnics, more, words):
    fix_plan = aligned(*vnics, **more)
    assert set(plays_of_plan(fix_plan)) == {DC}
    assert words in fix_plan.unchanged[0]


def test_more_than_a_switch_takes_is_left():
    fix_plan = aligned(own=9190)
    assert plays_of_plan(fix_plan) == {}
    assert "no switch takes more than 9000" in fix_plan.unchanged[0]


def test_only_the_own_adapter_is_raised_to_a_larger_switch():
    fix_plan = aligned(sized("vmk2", 1500), own=1500, mtu=9000)
    assert plays_of_plan(fix_plan) == {ESX1: {"vmkernel": {"dvpg-rdma": {"mtu": 9000}}}}


def wanting(*fixes):
    links = tuple(LinkPlace("x", "path", "vm.rdma-path").link("fail", "", fix=m) for m in fixes)
    return [Trace(VM, ESX1, "", "", links)]


def test_pvrdma_gets_one_adapter_of_a_host():
    new = KernelAdapter(ESX1, "b", for_pvrdma=True, is_new=True)
    found = fixes_for(fabric(), wanting(new, KernelAdapter(ESX1, "c", for_pvrdma=True)))
    assert plays_of(found.corrections) == {ESX1: {"vmkernel": {"c": {"pvrdma": True}}}}


def test_two_links_of_one_adapter_make_one_entry():
    card = {"type": "pvrdma", "port_group": "dvpg-rdma"}
    connect = RdmaAdapterSettings(VM, "dvpg-rdma", connected=True)
    found = fixes_for(fabric(), wanting(connect, RdmaAdapterSettings(VM, "dvpg-rdma", protocol="rocev2")))
    assert plays_of(found.corrections) == {VM: {"adapters": ({**card, "connected": True, "protocol": "rocev2"},)}}


def test_no_adapter_for_a_vm_whose_host_stays_broken():
    managed = {"vmks": (vmk("vmk0", "dvs-rdma", "dvportgroup-1"),),
               "config__virtualNicManagerInfo__netConfig": tagged("vmk0")}  # fmt: skip
    around = fabric(teamed("Uplink 2"), rdma(ESX1, {"Uplink 1": "vmnic4", "Uplink 2": "vmnic5"}, **managed))
    (found,) = wanting(NewRdmaAdapter(VM, "dvpg-rdma"))
    done = fixes_for(around, [replace(found, paths=((ESX1, ONE),))])
    assert done.corrections == ()
    assert done.traces[0].links[0].fix is None
    assert any("train-01 gets no PVRDMA adapter" in why for why in done.unchanged)
