"""Findings about leases: the verdict of each state, and what no lease or pool has any more."""

from __future__ import annotations

from typing import get_args

from vsphere_ai.addresses.evidence import LeaseState, State
from vsphere_ai.addresses.in_use import InUse
from vsphere_ai.addresses.lease_findings import lease_findings
from vsphere_ai.addresses.request import Lease, NicHolding
from vsphere_ai.addresses.usage import OutOfRange
from vsphere_ai.model.finding import exit_code
from vsphere_ai.model.names.networks import address_range


def leased(state):
    given = address_range("10.0.0.10")
    return LeaseState(Lease(NicHolding("trn", "mgmt", 4), 1, "pool", given, "10.0.0.10", 24), state, "so")


def test_a_lease_that_is_unsafe_is_not_known_and_one_that_is_leaked_fails():
    codes = {state: exit_code(lease_findings([leased(state)], (), ())) for state in get_args(State)}
    assert codes == {
        "in use": 0, "spare": 0, "not reported": 0, "no VM": 0, "leaked": 2, "unsafe": 1, "conflict": 2,
    }  # fmt: skip


def test_a_finding_names_the_lease_and_its_address():
    (finding,) = lease_findings([leased("leaked")], (), ())
    assert (finding.target.name, finding.target.part, finding.rule) == ("trn/1/mgmt", "10.0.0.10", "ipam.leaked")


def test_what_no_pool_gives_and_no_lease_has_fails():
    stray = OutOfRange("trn/mgmt", "pool", "10.0.0.9", "it was edited")
    lost = InUse(address_range("10.0.0.12"), "VM trn-3", set="trn", index=3)
    found = tuple(lease_findings((), (stray,), (lost,)))
    assert [(f.rule, f.target.part) for f in found] == [
        ("ipam.out-of-range", "10.0.0.9"),
        ("ipam.not-recorded", "10.0.0.12"),
    ]
    assert exit_code(found) == 2
