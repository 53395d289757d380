"""Addresses in use as they are read, and the conflicts of leases with them and with each other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsphere_ai.addresses.conflicts import find_conflicts
from vsphere_ai.addresses.holding import AddressLedger, HeldRange, NicHolding
from vsphere_ai.addresses.in_use import InUse, of_guests, of_hosts, of_ip_pools, of_marks, owner_of
from vsphere_ai.addresses.leasing import all_leases, lease, lease_of
from vsphere_ai.addresses.pool import AddressPool, Affinity
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.networks import AddressRange, address_range
from vsphere_ai.model.vm_sets import MemberMark, MemberNic

POOLS = {
    "mgmt": AddressPool(subnet="10.0.0.0/24", ranges=("10.0.0.10-10.0.0.19",), default=True),
    "rail": AddressPool(subnet="10.0.0.0/24", domain="rail", affinity=Affinity(portgroups=("dvpg-rail*",))),
    "blocks": AddressPool(subnet="172.16.0.0/24", per_node=28),
    "six": AddressPool(subnet="fd00::/64"),
}


def leases(*nics, count=2):
    found = lease(AddressLedger(), PoolSettings(POOLS, 0), [SetRequest("trn", count, nics or (NicRequest("mgmt"),))])
    assert not found.problems
    return found.leases


def vm(name="infer-3", *nics, mark=None, uuid="u-1"):
    settings = {**MemberMark("", 1, "").settings(), **{f"vsphere-ai.{k}": v for k, v in mark.items()}} if mark else {}
    extra = tuple({"_typeName": "OptionValue", "key": k, "value": v} for k, v in settings.items())
    return Facts(name, {"name": name, "guest.net": nics, "config.instanceUuid": uuid, "config.extraConfig": extra})


def nic(*addresses, network="vlan10", states=()):
    listed = [{"ipAddress": text} for text in addresses]
    for each, state in zip(listed, states, strict=False):
        each["state"] = state
    return {"macAddress": "00:50:56:01:02:03", "network": network, "ipConfig": {"ipAddress": tuple(listed)}}


OURS = {"set": "trn", "index": "1", "instance-uuid": "u-1"}


def test_the_addresses_of_guests_are_read_without_those_that_every_network_may_have():
    found = of_guests([vm("infer-3", nic("10.0.0.10", "fe80::1%2", "fd00::5", "127.0.0.1", "nonsense"))])
    assert [(str(each.range), each.who) for each in found] == [
        ("10.0.0.10", "VM infer-3, NIC 00:50:56:01:02:03"),
        ("fd00::5", "VM infer-3, NIC 00:50:56:01:02:03"),
    ]


def test_old_tools_report_a_plain_list():
    found = of_guests([vm("infer-3", {"macAddress": "m", "ipAddress": ("10.0.0.10",)})])
    assert [str(each.range) for each in found] == ["10.0.0.10"]


def test_a_guest_without_tools_reports_nothing():
    assert not list(of_guests([vm("infer-3"), Facts("VirtualMachine:1", {"name": "bare"})]))


def test_the_addresses_of_vmkernel_adapters_are_read():
    adapters = (
        {"device": "vmk0", "portgroup": "Management", "spec": {"ip": {"ipAddress": "10.0.0.11"}}},
        {
            "device": "vmk1",
            "portgroup": "",
            "spec": {
                "ip": {"ipAddress": "10.0.0.12", "ipV6Config": {"ipV6Address": ({"ipAddress": "fd00::7"},)}},
                "distributedVirtualPort": {"portgroupKey": "dvportgroup-7"},
            },
        },
        {"device": "vmk2", "spec": {}},
    )
    host = Facts("HostSystem:1", {"name": "esx01", "config.network.vnic": adapters})
    found = list(of_hosts([host], {"dvportgroup-7": "dvpg-rail1"}))
    assert [(str(each.range), each.who, each.network) for each in found] == [
        ("10.0.0.11", "host esx01, vmk0", "Management"),
        ("10.0.0.12", "host esx01, vmk1", "dvpg-rail1"),
        ("fd00::7", "host esx01, vmk1", "dvpg-rail1"),
    ]


def ip_pool(span, *, enabled=True, networks=()):
    associated = tuple({"networkName": name} for name in networks)
    config = {"subnetAddress": "10.0.0.0", "ipPoolEnabled": enabled, "range": span}
    return {"name": "vapps", "id": 3, "ipv4Config": config, "networkAssociation": associated}


def test_the_ranges_of_an_ip_pool_are_in_use_when_it_is_enabled():
    assert [str(each.range) for each in of_ip_pools((ip_pool("10.0.0.10#2, 10.0.0.20"),), "DC1")] == [
        "10.0.0.10-10.0.0.11",
        "10.0.0.20",
    ]
    assert not list(of_ip_pools((ip_pool("10.0.0.10#2", enabled=False),), "DC1"))
    assert not list(of_ip_pools((ip_pool("nonsense#x"), ip_pool("")), "DC1"))


@pytest.mark.parametrize(
    ("mark", "uuid", "owner"),
    [
        (OURS, "u-1", ("trn", 1)),
        (OURS, "u-2", None),  # a clone of it, with a copied mark
        ({**OURS, "index": "one"}, "u-1", None),
        (None, "u-1", None),
    ],
)
def test_a_mark_is_that_of_its_own_vm_only(mark, uuid, owner):
    assert owner_of(vm("trn-01", mark=mark, uuid=uuid)) == owner


def subjects(problems):
    assert {problem.rule for problem in problems} <= {"addresses.conflict"}
    assert all(problem.help for problem in problems)
    return [problem.subject for problem in problems]


def test_a_lease_that_another_vm_reports_is_a_conflict_that_names_the_vm():
    problems = find_conflicts(leases(), of_guests([vm("infer-3", nic("10.0.0.11"))]), POOLS)
    assert subjects(problems) == ["trn/2/mgmt"]
    assert "infer-3" in problems[0].message


def test_a_lease_that_its_own_vm_reports_is_none():
    assert not find_conflicts(leases(), of_guests([vm("trn-01", nic("10.0.0.10"), mark=OURS)]), POOLS)


def test_a_duplicate_that_the_guest_itself_has_noticed_is_one():
    own = vm("trn-01", nic("10.0.0.10", states=["duplicate"]), mark=OURS)
    assert subjects(find_conflicts(leases(), of_guests([own]), POOLS)) == ["trn/1/mgmt"]


def test_a_clone_with_a_copied_mark_is_another_vm():
    copy = vm("copy", nic("10.0.0.10"), mark=OURS, uuid="u-2")
    assert subjects(find_conflicts(leases(), of_guests([copy]), POOLS)) == ["trn/1/mgmt"]


def test_a_vm_of_the_set_with_the_address_of_another_one_is_a_conflict():
    wrong = vm("trn-01", nic("10.0.0.11"), mark=OURS)
    assert subjects(find_conflicts(leases(), of_guests([wrong]), POOLS)) == ["trn/2/mgmt"]


def test_every_address_of_a_block_is_the_vms_own():
    given_ = leases(NicRequest("rail", ("blocks",)))
    own = vm("trn-01", nic("172.16.0.9"), mark=OURS)
    other = vm("infer-3", nic("172.16.0.31"))
    assert subjects(find_conflicts(given_, of_guests([own, other]), POOLS)) == ["trn/2/rail"]


def test_ip_pools_of_vcenter_and_vmkernel_adapters_conflict_too():
    host = Facts(
        "HostSystem:1", {"name": "esx01", "config.network.vnic": ({"spec": {"ip": {"ipAddress": "10.0.0.10"}}},)}
    )
    found = [*of_hosts([host], {}), *of_ip_pools((ip_pool("10.0.0.5#10"),), "DC1")]
    problems = find_conflicts(leases(), found, POOLS)
    assert subjects(problems) == ["trn/1/mgmt", "trn/1/mgmt", "trn/2/mgmt"]


def test_networks_that_do_not_reach_each_other_do_not_conflict():
    in_rail, in_mgmt = (InUse(address_range("10.0.0.10"), "VM x", network) for network in ("dvpg-rail1", "vlan10"))
    mgmt = leases()
    rail = tuple(
        lease_of(NicHolding("trn", "rail", 4), 1, HeldRange("rail", address_range("10.0.0.10")), POOLS["rail"])
        for _ in "1"
    )
    assert subjects(find_conflicts((*mgmt, *rail), [in_rail], POOLS)) == ["trn/1/rail"]
    assert subjects(find_conflicts((*mgmt, *rail), [in_mgmt], POOLS)) == ["trn/1/mgmt"]


def test_two_leases_of_one_address_after_an_edit_of_pools_are_a_conflict():
    first = leases()
    moved = {**POOLS, "later": AddressPool(subnet="10.0.0.0/24", ranges=("10.0.0.11",))}
    second = lease_of(NicHolding("other", "mgmt", 4), 1, HeldRange("later", address_range("10.0.0.11")), moved["later"])
    assert subjects(find_conflicts((*first, second), [], moved)) == ["other/1/mgmt"]


def test_an_address_of_the_other_family_is_none():
    seven = AddressRange(6, int(address_range("10.0.0.10").first), int(address_range("10.0.0.10").first))
    assert not find_conflicts(leases(), [InUse(seven, "VM x")], POOLS)


spans = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(
    lambda t: AddressRange(4, 0x0A000000 + t[0], 0x0A000000 + sum(t))
)


@settings(max_examples=200, deadline=None)
@given(st.lists(spans, max_size=8), st.lists(spans, max_size=8))
def test_conflicts_are_those_that_comparing_each_with_each_finds(held, used):
    pool = AddressPool(subnet="10.0.0.0/24")
    ours = [lease_of(NicHolding(f"s{n}", "a", 4), 1, HeldRange("p", span), pool) for n, span in enumerate(held)]
    others = [InUse(span, f"VM {n}") for n, span in enumerate(used)]
    found = {p.message for p in find_conflicts(ours, others, {"p": pool}) if "in use" in p.message}
    expected = {(o.nic.set, u.who) for o in ours for u in others if o.given.overlaps(u.range)}
    assert len(found) == len(
        {(o.nic.set, u.who, str(u.range)) for o in ours for u in others if o.given.overlaps(u.range)}
    )
    assert all(any(f"{s}/" in message and who in message for message in found) for s, who in expected)


def test_all_leases_of_a_ledger_are_without_conflict_among_themselves():
    found = lease(AddressLedger(), PoolSettings(POOLS, 0), [SetRequest(n, 3, (NicRequest("mgmt"),)) for n in "abc"])
    assert not find_conflicts(all_leases(found.ledger, POOLS), [], POOLS)


def marked(addresses, *, index=1, uuid="u-1"):
    mark = MemberMark("trn", index, "u-1", nics=(MemberNic("mgmt", "00:50:56:00:00:01", addresses),))
    extra = tuple({"key": key, "value": value} for key, value in mark.settings().items())
    return Facts("VirtualMachine:1", {"name": "trn-01", "config.instanceUuid": uuid, "config.extraConfig": extra})


def test_what_a_vm_was_given_is_in_use_also_while_it_is_off():
    pools = {name: pool for name, pool in POOLS.items() if name != "rail"}
    found = list(of_marks([marked(("10.0.0.11/24", "fd00::9/64"), index=7)], pools))
    assert [(str(e.range), e.set, e.index, e.domain) for e in found] == [
        ("10.0.0.11", "trn", 7, ""),
        ("fd00::9", "trn", 7, ""),
    ]
    assert subjects(find_conflicts(leases(), found, pools)) == ["trn/2/mgmt"]
    assert not find_conflicts(leases(), of_marks([marked(("10.0.0.10/24",))], pools), pools)


def test_a_mark_counts_where_its_domain_is_certain_and_it_is_the_vms_own():
    assert not list(of_marks([marked(("10.0.0.11/24",))], POOLS))  # mgmt and rail both have it
    assert not list(of_marks([marked(("fd00::9/64",), uuid="another")], POOLS))
    assert not list(of_marks([marked(("192.168.0.1/24",)), vm()], POOLS))
