"""What is reclaimed: leases without a VM that nothing hides, seen twice; nothing else."""

from __future__ import annotations

import itertools

import pytest

from vsphere_ai.addresses.evidence import Evidence, assess, evidence_of, reclaimable, unrecorded
from vsphere_ai.addresses.holding import RESERVED, AddressLedger, HeldRange, Holding, NicHolding
from vsphere_ai.addresses.in_use import InUse
from vsphere_ai.addresses.leasing import lease
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.networks import address_range
from vsphere_ai.model.vm_sets import MemberMark

POOLS = {"mgmt": AddressPool(subnet="10.0.0.0/24", ranges=("10.0.0.10-10.0.0.29",), default=True)}


def ledger(count=4, spare=0):
    found = lease(
        AddressLedger(), PoolSettings(POOLS, 0), [SetRequest("trn", count, (NicRequest("mgmt", spare=spare),))]
    )
    return found.ledger


def vm(index, *, connected="connected", tools="guestToolsRunning", uuid=None, unread=False):
    own = f"u-{index}"
    extra = tuple({"key": key, "value": value} for key, value in MemberMark("trn", index, own).settings().items())
    known = {
        "name": f"trn-{index:02d}",
        "config.instanceUuid": uuid or own,
        "config.extraConfig": extra,
        "runtime.connectionState": connected,
        "guest.toolsRunningStatus": tools,
    }
    if unread:
        known = {"name": known["name"], "runtime.connectionState": "inaccessible"}
    return Facts(f"VirtualMachine:{index}", known)


def host(name="esx01", state="connected"):
    return Facts(f"HostSystem:{name}", {"name": name, "runtime.connectionState": state})


def reports(index, address):
    return InUse(address_range(address), f"VM trn-{index:02d}", set="trn", index=index)


def states(found):
    return [each.state for each in found]


HOSTS = (host(),)


def seen(*vms, hosts=HOSTS, in_use=()):
    return evidence_of(vms, hosts, in_use)


EVERY = [reports(n, f"10.0.0.{9 + n}") for n in (1, 2, 3, 4)]


def test_vms_that_report_their_addresses_have_them():
    found = assess(ledger(), POOLS, seen(*(vm(n) for n in (1, 2, 3, 4)), in_use=EVERY))
    assert states(found) == ["in use"] * 4
    assert not reclaimable(found, found)


def test_a_vm_that_was_deleted_behind_the_tools_back_is_a_leak():
    found = assess(ledger(), POOLS, seen(vm(1), vm(2), vm(3), in_use=EVERY[:3]))
    assert states(found) == ["in use"] * 3 + ["leaked"]
    assert reclaimable(found, found) == {"trn": 3}


def test_a_vm_that_is_off_or_without_tools_keeps_its_address():
    found = assess(ledger(1), POOLS, seen(vm(1, tools="guestToolsNotRunning")))
    assert states(found) == ["in use"]


def test_a_vm_whose_tools_do_not_report_the_address_is_no_leak():
    found = assess(ledger(1), POOLS, seen(vm(1), in_use=[reports(1, "10.0.0.99")]))
    assert states(found) == ["not reported"]
    assert not reclaimable(found, found)


def test_a_gap_in_a_set_is_filled_by_the_next_plan():
    found = assess(ledger(), POOLS, seen(vm(1), vm(4)))
    assert [s for s in states(found) if s in ("leaked", "no VM")] == ["no VM", "no VM"]
    assert not reclaimable(found, found)


@pytest.mark.parametrize(
    "evidence",
    [
        seen(vm(1, connected="disconnected")),
        seen(vm(7, unread=True)),
        seen(hosts=(host(), host("esx02", "disconnected"))),
        seen(hosts=(host("esx02", "notResponding"),)),
    ],
    ids=["its VM is not connected", "a mark cannot be read", "a host is disconnected", "a host does not respond"],
)
def test_what_may_run_unseen_is_unsafe_and_never_reclaimed(evidence):
    found = assess(ledger(1), POOLS, evidence)
    assert states(found) == ["unsafe"]
    assert not reclaimable(found, found)
    whole = assess(ledger(1), POOLS, seen())
    assert not reclaimable(whole, found)
    assert not reclaimable(found, whole)
    assert reclaimable(whole, whole) == {"trn": 0}


def test_an_address_that_someone_else_reports_is_a_conflict_and_not_reclaimed():
    found = assess(ledger(1), POOLS, seen(in_use=[InUse(address_range("10.0.0.10"), "VM infer-3")]))
    assert states(found) == ["conflict"]
    assert not reclaimable(found, found)


def test_another_vm_of_the_same_name_is_not_the_owner():
    found = assess(ledger(1), POOLS, seen(vm(1, uuid="another")))
    assert states(found) == ["leaked"]


def test_spare_addresses_and_reservations_are_no_leaks():
    reserved = Holding((HeldRange("mgmt", address_range("10.0.0.29")),))
    own = ledger(2, spare=2)
    both = AddressLedger({**own.holdings, NicHolding(RESERVED, "printer", 4): reserved})
    found = assess(both, POOLS, seen(vm(1), vm(2), in_use=EVERY[:2]))
    assert states(found) == ["in use", "in use", "spare", "spare"]
    assert not reclaimable(found, found)


def test_a_vm_that_came_between_the_two_reads_keeps_its_address():
    gone, there = (assess(ledger(2), POOLS, seen(*vms)) for vms in ([], [vm(2)]))
    assert reclaimable(gone, there) == {}
    assert reclaimable(there, gone) == {}
    assert reclaimable(gone, gone) == {"trn": 0}


def test_whatever_the_evidence_only_leases_that_leaked_twice_are_reclaimed():
    choices = [None, vm, lambda n: vm(n, connected="disconnected"), lambda n: vm(n, uuid="other")]
    for first, second in itertools.product(itertools.product(choices, repeat=3), repeat=2):
        one, two = (
            assess(ledger(3), POOLS, seen(*(make(n) for n, make in enumerate(which, 1) if make)))
            for which in (first, second)
        )
        keep = reclaimable(one, two).get("trn", 3)
        for a, b in zip(one[keep:], two[keep:], strict=True):
            assert (a.state, b.state) == ("leaked", "leaked")


def test_evidence_counts_every_vm():
    assert evidence_of([vm(1), vm(2, unread=True)], [], ()) == Evidence(
        {("trn", 1): evidence_of([vm(1)], [], ()).owners["trn", 1]}, 2, ("trn-02",)
    )


def test_an_address_that_a_vm_was_given_and_the_ledger_lacks_is_found():
    given = [InUse(address_range(f"10.0.0.{9 + n}"), "VM", set="trn", index=n, domain="") for n in (1, 2)]
    evidence = seen(vm(1), vm(2), in_use=given)
    assert unrecorded(ledger(2), POOLS, evidence) == []
    assert unrecorded(ledger(1), POOLS, evidence) == given[1:]
    assert unrecorded(AddressLedger(), POOLS, evidence) == given
    assert unrecorded(AddressLedger(), POOLS, seen(vm(1), in_use=EVERY)) == []
