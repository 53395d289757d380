"""Adoption: what of a VM fits a set, and the leases of the addresses that it has."""

from __future__ import annotations

import pytest

from vsphere_ai.addresses.holding import AddressLedger, NicHolding
from vsphere_ai.addresses.leasing import lease
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.vm_sets import MemberMark
from vsphere_ai.resources.makes_vms import WantedNic, WantedSet
from vsphere_ai.sets.adoption import faults_of, own_nics, with_own_addresses

PLACES = (
    Facts("Datacenter:1", {"name": "DC0"}),
    Facts("Datacenter:2", {"name": "DC1"}),
    *(Facts(f"Folder:{n}", {"name": "host", "parent": f"Datacenter:{n}"}) for n in (1, 2)),
    *(
        Facts(f"ClusterComputeResource:{n}", {"name": c, "parent": f"Folder:{at}", "resourcePool": f"ResourcePool:{n}"})
        for n, c, at in ((1, "gpu-a", 1), (2, "gpu-b", 1), (3, "gpu-c", 2))
    ),
    *(Facts(f"HostSystem:{n}", {"name": f"esx{n}", "parent": f"ClusterComputeResource:{n}"}) for n in (1, 2, 3)),
    *(Facts(f"ResourcePool:{n}", {"name": "Resources", "owner": f"ClusterComputeResource:{n}"}) for n in (1, 2, 3)),
)  # fmt: skip
NICS = tuple(WantedNic(name, net, "vmxnet3") for name, net in (("mgmt", "lan"), ("storage", "san"), ("more", "lan")))
WANTED = WantedSet("train", "ubuntu", cluster="gpu-a", nics=NICS)


def card(network, mac):
    return {"_typeName": "VirtualVmxnet3", "macAddress": mac, "backing": {"deviceName": network}}


CARDS = (card("lan", "00:50:56:AA:00:01"), card("san", "00:50:56:aa:00:02"), card("lan", "00:50:56:aa:00:03"))


def vm(host=1, *, folder=1, cards=CARDS, settings=(), **more):
    facts = {
        "name": "train-02", "parent": f"Folder:{folder}", "runtime.host": f"HostSystem:{host}",
        "runtime.connectionState": "connected", "config.instanceUuid": "own", "config.hardware.device": cards,
        "config.extraConfig": tuple({"key": k, "value": v} for k, v in settings), **more,
    }  # fmt: skip
    return Facts("VirtualMachine:7", facts)


def rules(facts):
    estate = Estate(About("vCenter", "7.0.2", "1", "7.0.2.0", "id"), {f.ref: f for f in (*PLACES, facts)})
    return {fault.rule: fault.message for fault in faults_of(WANTED, facts, estate)}


def test_a_vm_in_the_cluster_with_an_adapter_for_each_nic_is_taken():
    assert rules(vm()) == {}


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (vm(2), "adopt-elsewhere"),
        (vm(3, folder=2), "adopt-elsewhere"),
        (vm(cards=CARDS[:2]), "adopt-nic"),
        (vm(**{"config.template": True}), "adopt-template"),
        (vm(**{"runtime.connectionState": "disconnected"}), "not-connected"),
        (vm(settings=MemberMark("other", 1, "own").settings().items()), "adopt-marked"),
        (vm(settings=MemberMark("train", 2, "another").settings().items()), "adopt-copied"),
        (vm(settings=[("vsphere-ai.set", "train")]), "adopt-marked"),
    ],
)
def test_what_is_refused(facts, rule):
    assert list(rules(facts)) == [rule]


def test_another_datacenter_is_named():
    assert "DC1" in rules(vm(3, folder=2))["adopt-elsewhere"]
    assert "datacenter" not in rules(vm(2))["adopt-elsewhere"]


def test_adapters_of_one_port_group_are_taken_in_their_order():
    estate = Estate(About("vCenter", "7.0.2", "1", "7.0.2.0", "id"), {})
    assert own_nics(WANTED, vm(), estate) == {
        "mgmt": "00:50:56:aa:00:01", "storage": "00:50:56:aa:00:02", "more": "00:50:56:aa:00:03",
    }  # fmt: skip


POOLS = {
    "a": AddressPool(subnet="10.0.0.0/24", ranges=("10.0.0.11-10.0.0.14",)),
    "b": AddressPool(subnet="10.0.1.0/24", ranges=("10.0.1.11-10.0.1.20",)),
    "blocks": AddressPool(subnet="10.8.0.0/16", per_node=28),
    "program": AddressPool(subnet="10.9.0.0/24", backend={"exec": ("/bin/true",)}),
}
TERMS, EMPTY = PoolSettings(POOLS, now=0), AddressLedger()


def asked(*pools, count=4):
    return [SetRequest("train", count, (NicRequest("mgmt", pools),))]


def held(pools, vms, *, before=EMPTY, count=4, terms=TERMS):
    ledger, faults = with_own_addresses(before, terms, asked(*pools, count=count), vms)
    found = lease(ledger, terms, asked(*pools, count=count))
    return {e.index: e.address for e in found.leases}, {f.rule for own in faults.values() for f in own}


def of(*vms):
    return {("train", index): {"mgmt": texts} for index, texts in vms}


def test_several_vms_keep_what_they_have_and_the_others_get_what_is_free():
    assert held(("a",), of((1, ["10.0.0.12"]), (3, ["10.0.0.11"]))) == (
        {1: "10.0.0.12", 2: "10.0.0.13", 3: "10.0.0.11", 4: "10.0.0.14"}, set(),
    )  # fmt: skip


def test_an_address_may_be_of_another_pool_of_the_nic():
    addresses, faults = held(("a", "b"), of((2, ["fe80::1", "10.0.1.15"])))
    assert not faults
    assert addresses[2] == "10.0.1.15"


def test_a_block_goes_with_its_own_address_only():
    assert held(("blocks",), of((1, ["10.8.3.33"])))[0][1] == "10.8.3.33"
    assert held(("blocks",), of((1, ["10.8.3.34"])))[1] == {"adopt-address"}


LEDGER = lease(AddressLedger(), TERMS, asked("a", count=2)).ledger


def test_what_its_number_holds_already_is_not_taken_again():
    assert held(("a",), of((2, ["10.0.0.12"])), before=LEDGER) == (held(("a",), {}, before=LEDGER)[0], set())


@pytest.mark.parametrize(
    ("pools", "vms", "rule"),
    [
        (("a",), of((2, ["10.0.0.14"])), "adopt-address"),
        (("a",), of((3, ["10.0.0.11"])), "adopt-address"),
        (("a",), of((3, ["10.0.0.30"])), "adopt-address"),
        (("a",), of((3, ["192.168.0.1"])), "adopt-address"),
        (("a",), of((3, [])), "adopt-no-address"),
    ],
)
def test_an_address_that_is_not_free_for_its_number_is_refused(pools, vms, rule):
    assert held(pools, vms, before=LEDGER)[1] == {rule}


def test_a_reserved_address_and_one_of_a_program_are_refused():
    from vsphere_ai.model.names.networks import address_range

    reserved = PoolSettings(POOLS, 0, (address_range("10.0.0.13"),))
    assert held(("a",), of((3, ["10.0.0.13"])), before=LEDGER, terms=reserved)[1] == {"adopt-address"}
    assert with_own_addresses(AddressLedger(), TERMS, asked("program"), of((1, ["10.9.0.5"])))[1]


def test_the_ledger_holds_one_block_for_each_vm():
    ledger, _ = with_own_addresses(AddressLedger(), TERMS, asked("a"), of((2, ["10.0.0.11"])))
    assert ledger.holdings[NicHolding("train", "mgmt", 4)].count == 2
