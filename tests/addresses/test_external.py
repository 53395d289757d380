"""Addresses that a program gives: keys, answers that are refused, and leases made of those that are not."""

from __future__ import annotations

import pytest

from vsphere_ai.addresses.external import key_of, keys_dropped, leased_in, released_in, request_document
from vsphere_ai.addresses.holding import AddressLedger, NicHolding
from vsphere_ai.addresses.leasing import lease, release, wanted_keys
from vsphere_ai.addresses.pool import AddressPool, Backend
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest
from vsphere_ai.model.names.networks import address_range, network, range_of

BY = Backend(exec=("program",))
POOLS = {
    "ipam": AddressPool(subnet="10.0.0.0/24", gateway="10.0.0.1", exclude=("10.0.0.100",), backend=BY, quarantine=0),
    "blocks": AddressPool(subnet="172.16.0.0/24", per_node=28, backend=BY),
    "own": AddressPool(subnet="10.1.0.0/24"),
}
KEYS = ("vc/trn/1/mgmt/4", "vc/trn/2/mgmt/4")


def terms(answers=None, **more):
    return PoolSettings(
        POOLS, 0, vcenter="vc", answers={k: address_range(v) for k, v in (answers or {}).items()}, **more
    )


def trn(count, *pools, **more):
    return [SetRequest("trn", count, (NicRequest("mgmt", pools or ("ipam",), **more),))]


GIVEN = dict(zip(KEYS, ("10.0.0.40", "10.0.0.7"), strict=True))


def test_keys_name_vcenter_set_vm_nic_and_family():
    assert wanted_keys(AddressLedger(), terms(), trn(2)) == {"ipam": list(KEYS)}
    assert key_of("vc", NicHolding("trn", "mgmt", 4), 2) == KEYS[1]


def test_each_vm_has_what_the_program_gave_for_its_key_and_keeps_it():
    found = lease(AddressLedger(), terms(GIVEN), trn(2))
    assert [each.address for each in found.leases] == ["10.0.0.40", "10.0.0.7"]
    assert wanted_keys(found.ledger, terms(), trn(2)) == {}
    assert lease(found.ledger, terms(), trn(2)).leases == found.leases
    assert wanted_keys(found.ledger, terms(), trn(3)) == {"ipam": ["vc/trn/3/mgmt/4"]}


def test_without_an_answer_there_is_no_lease():
    found = lease(AddressLedger(), terms({KEYS[0]: "10.0.0.40"}), trn(2))
    assert [each.rule for each in found.problems] == ["addresses.backend-pending"]
    assert found.ledger == AddressLedger()


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.100", "10.0.0.50", "10.0.0.60", "10.0.0.40"])
def test_an_answer_that_cannot_be_given_is_a_problem(address):
    before = lease(
        AddressLedger(), terms({"vc/other/1/mgmt/4": "10.0.0.40"}), [SetRequest("other", 1, trn(1)[0].nics)]
    ).ledger
    busy = terms({KEYS[0]: address}, avoided=(address_range("10.0.0.50"),), seen=(address_range("10.0.0.60"),))
    found = lease(before, busy, trn(1))
    assert [each.rule for each in found.problems] == ["addresses.backend-answer"]
    assert found.ledger == before


def test_what_is_released_is_named_by_its_keys():
    ledger = lease(AddressLedger(), terms(GIVEN), trn(2)).ledger
    assert keys_dropped(ledger, AddressLedger(), terms()) == {"ipam": list(KEYS)}
    assert keys_dropped(ledger, release(ledger, terms(), "trn", keep=1), terms()) == {"ipam": [KEYS[1]]}
    assert keys_dropped(ledger, release(ledger, terms(), "other"), terms()) == {}
    own = lease(AddressLedger(), terms(), trn(2, "own")).ledger
    assert keys_dropped(own, AddressLedger(), terms()) == {}
    assert release(ledger, terms(), "trn") == AddressLedger()


def test_pools_of_programs_and_computed_ones_are_not_mixed_behind_a_computed_one():
    found = lease(AddressLedger(), terms(GIVEN), trn(2, "own", "ipam"))
    assert [each.rule for each in found.problems] == ["addresses.backend-mixed"]


def test_a_program_gives_blocks_as_networks():
    keys = ("vc/trn/1/rail/4",)
    given = leased_in({"version": 1, "addresses": {keys[0]: "172.16.0.32/28"}}, POOLS["blocks"], keys)
    assert given == {keys[0]: range_of(network("172.16.0.32/28"))}


def answer(**addresses):
    return {"version": 1, "addresses": dict(zip(KEYS, addresses.values(), strict=False))}


def test_an_answer_is_read():
    document = {"version": 1, "addresses": GIVEN}
    assert leased_in(document, POOLS["ipam"], KEYS) == {k: address_range(v) for k, v in GIVEN.items()}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "no JSON object"),
        ({"addresses": GIVEN}, "version"),
        ({"version": 2, "addresses": GIVEN}, "version"),
        ({"version": 1}, "no mapping"),
        ({"version": 1, "error": "no room"}, "no room"),
        (answer(a="10.0.0.5"), "1 are missing"),
        ({"version": 1, "addresses": {**GIVEN, "x": "10.0.0.9"}}, "1 were not asked for"),
        (answer(a="10.0.0.5", b="10.0.0.5"), "twice"),
        (answer(a="10.0.0.5", b="10.0.1.5"), "not inside"),
        (answer(a="10.0.0.5", b="fd00::1"), "not inside"),
        (answer(a="10.0.0.5", b="10.0.0.6-10.0.0.7"), "not one block"),
        (answer(a="10.0.0.5", b="10.0.0.8/30"), "not one block"),
        (answer(a="10.0.0.5", b=6), "no address"),
        (answer(a="10.0.0.5", b=None), "no address"),
        (answer(a="10.0.0.5", b="10.0.0.x"), "not an IP address"),
        (answer(a="10.0.0.5", b="10.0.0.5/24"), "host bits"),
    ],
)
def test_an_answer_that_is_wrong_is_refused(document, words):
    with pytest.raises(ValueError, match=words):
        leased_in(document, POOLS["ipam"], KEYS)


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "released": [KEYS[0]]},
        {"version": 1, "released": [*KEYS, "x"]},
        {"version": 1},
        None,
        {"error": "x"},
    ],
)
def test_a_release_names_exactly_its_keys(document):
    released_in({"version": 1, "released": list(reversed(KEYS))}, KEYS)
    with pytest.raises(ValueError, match=r"version|released|JSON|refused"):
        released_in(document, KEYS)


def test_a_request_says_what_the_pool_gives():
    document = request_document("lease", "ipam", POOLS["ipam"], KEYS)
    assert document["operation"] == "lease"
    assert document["keys"] == list(KEYS)
    assert document["pool"]["subnet"] == "10.0.0.0/24"
