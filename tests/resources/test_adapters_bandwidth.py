"""Reservations of a VM's adapters where what other VMs reserve of the pool cannot be read, or is said later."""

from __future__ import annotations

from dataclasses import replace

from support.estates import ESX1, ESX2, LAN, guest, vm
from support.ethernet import LAN_SWITCH, around, card, machine
from support.judging import judge

from vsphere_ai.fabric import nioc
from vsphere_ai.model.facts import Estate
from vsphere_ai.resources._helpers import pool_use
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter
from vsphere_ai.resources.adapters import Adapters

VM, OTHER = vm(1), vm(2)


def reserving(key, megabits):
    share = {"level": "normal", "shares": 50}
    return card(key, resourceAllocation={"reservation": megabits, "limit": -1, "share": share})


def farm(*cards, quota=300, on=True, other=(), **of_other):
    """An estate whose dvs-lan has one pool; the other VM is on the other host."""
    given = {"config__hardware__device": other, **of_other}
    found = around(VM, *cards, hosts=(machine(), machine(ESX2)), others=(guest(OTHER, ESX2, **given),))
    traffic = {"key": "virtualMachine", "allocationInfo": {"reservation": 500, "limit": -1, "shares": {}}}
    pool = {"key": "pool-1", "name": "train", "configVersion": "0", "allocationInfo": {"reservationQuota": quota}}
    switch = {
        nioc.ENABLED: on,
        nioc.VERSION: "version3",
        nioc.TRAFFIC: (traffic,),
        nioc.POOLS: (pool,),
        "config.host": tuple({"config": {"host": h.ref}} for h in (ESX1, ESX2)),
    }
    more = {LAN_SWITCH: switch, LAN: {nioc.POOL_KEY: "pool-1"}}
    changed = {r: replace(found[r], properties={**found[r].properties, **p}) for r, p in more.items()}
    return Estate(found.about, {**found.objects, **changed})


def asking(megabits):
    return Adapters(adapters=(NetworkAdapter(port_group="dvpg-lan", reservation=megabits),))


def test_what_is_not_known_refuses_nothing_and_is_told():
    judged = judge(asking(300), VM, farm(card(4000), other=None))
    assert judged.problems == {}
    assert [n for n in judged.notes if "not known and not counted: train-02" in n]


def test_a_sum_that_is_not_whole_is_not_told_as_if_it_were():
    problem = judge(asking(301), VM, farm(card(4000), other=None)).problems["adapters.reservation"]
    assert problem.message.startswith("at least 301 Mbit/s")
    assert "train: N" in problem.remedy


def test_a_sum_that_is_whole_says_what_would_do():
    problem = judge(asking(150), VM, farm(card(4000), other=(reserving(4000, 200),))).problems["adapters.reservation"]
    assert problem.message.startswith("350 Mbit/s")
    assert "train: 350" in problem.remedy
    assert judge(asking(100), VM, farm(card(4000), other=(reserving(4000, 200),))).notes == ()


def test_a_vm_that_is_off_holds_nothing():
    there = farm(card(4000), other=(reserving(4000, 200),), runtime__powerState="poweredOff")
    assert judge(asking(300), VM, there).problems == {}


def test_less_that_is_said_later_counts_and_more_does_not():
    """VMs are planned one after the other; the last one sees them all as they will be."""
    there = farm(card(4000), other=(reserving(4000, 200),))
    for megabits, rules in ((100, set()), (101, {"adapters.reservation"}), (0, set())):
        stated = {(OTHER.ref, "adapters"): asking(300 - megabits if megabits > 100 else megabits)}
        assert set(judge(asking(200), VM, there, stated=stated).problems) == rules, megabits


def test_what_is_there_and_stated_needs_network_io_control():
    assert "adapters.bandwidth" in judge(asking(100), VM, farm(reserving(4000, 100), on=False)).problems
    assert judge(asking(100), VM, farm(reserving(4000, 100))).problems == {}
    unsaid = Adapters(adapters=(NetworkAdapter(port_group="dvpg-lan"),))
    assert judge(unsaid, VM, farm(reserving(4000, 100), on=False)).problems == {}


def test_running_vms_on_the_switch_are_looked_at():
    there = farm(card(4000))
    assert Adapters.related_vms({VM}, there) == {VM.ref, OTHER.ref}
    assert Adapters.related_vms({ESX2}, there) == {VM.ref, OTHER.ref}
    assert Adapters.related_vms({VM}, farm(card(4000), quota=0)) == set()
    assert Adapters.related_vms({VM}, farm(card(4000), runtime__powerState="poweredOff")) == {VM.ref}


def test_many_are_counted():
    assert pool_use.listed(["d", "b", "a", "c", "e"]) == "a, b, c and 2 more"
