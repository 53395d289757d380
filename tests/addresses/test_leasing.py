"""Leases of sets: all or none, the same again, by affinity, and the problems of pools that do not give them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsphere_ai.addresses.holding import AddressLedger, NicHolding
from vsphere_ai.addresses.leasing import all_leases, lease, out_of_range, release
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.addresses.pool import AddressPool, Affinity, AffinityPlace, PoolRoute
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest
from vsphere_ai.model.names.networks import AddressRange, address_range, range_of, without

POOLS = {
    "mgmt": AddressPool(subnet="10.0.0.0/24", ranges=("10.0.0.10-10.0.0.19",), gateway="10.0.0.1", default=True),
    "more": AddressPool(subnet="10.0.1.0/29", gateway="10.0.1.1"),
    "six": AddressPool(subnet="fd00::/120"),
    "off": AddressPool(subnet="10.0.2.0/24", disabled=True),
    "rail": AddressPool(subnet="172.16.1.0/24", per_node=27, node_gateway=1, routes=(PoolRoute(to="172.16.0.0/16"),)),
}


def terms(pools=POOLS, now=0, **more):
    return PoolSettings(pools, now, **more)


def trn(count, *nics):
    return SetRequest("trn", count, nics or (NicRequest("mgmt"),))


def addresses(found, nic="mgmt", version=4):
    return [each.address for each in found.leases if each.nic.name == nic and each.nic.version == version]


def rules(found):
    return [problem.rule for problem in found.problems]


def test_every_nic_of_every_vm_has_an_address_of_each_family():
    found = lease(AddressLedger(), terms(), [trn(3, NicRequest("mgmt"), NicRequest("rail1", ("more", "six")))])
    assert not found.problems
    assert addresses(found) == ["10.0.0.10", "10.0.0.11", "10.0.0.12"]
    assert addresses(found, "rail1") == ["10.0.1.2", "10.0.1.3", "10.0.1.4"]
    assert addresses(found, "rail1", 6) == ["fd00::1", "fd00::2", "fd00::3"]
    assert found.new == found.leases
    assert {(each.prefix, each.gateway) for each in found.leases if each.pool == "mgmt"} == {(24, "10.0.0.1")}


def test_the_same_request_again_changes_nothing():
    first = lease(AddressLedger(), terms(), [trn(3)])
    again = lease(first.ledger, terms(now=9), [trn(3)])
    assert (again.ledger, again.leases, again.new) == (first.ledger, first.leases, ())


def at(vm, host="esx01"):
    return AffinityPlace((vm, "trn"), (host,))


def test_what_is_missing_is_counted_for_all_vms_that_ask_the_same_pools():
    ten = NicRequest("mgmt", ("more",), places=tuple(at(f"trn-{n:02d}") for n in range(1, 11)))
    (problem,) = lease(AddressLedger(), terms(), [trn(10, ten)]).problems
    assert "'more' has addresses for 5 of 10 VMs more" in problem.message
    there = lease(AddressLedger(), terms(), [trn(2, ten)]).ledger
    (problem,) = lease(there, terms(), [trn(10, ten)]).problems
    assert "'more' has addresses for 3 of 8 VMs more" in problem.message


def test_vms_of_other_pools_are_not_counted():
    small = {
        f"on-{n}": AddressPool(subnet=f"10.1.{n}.0/29", gateway=f"10.1.{n}.1", affinity=Affinity(hosts=(f"esx0{n}",)))
        for n in (1, 2)
    }
    places = tuple(at(f"trn-{n:02d}", f"esx0{1 + n % 2}") for n in range(1, 15))
    (problem,) = lease(AddressLedger(), terms(small), [trn(14, NicRequest("mgmt", places=places))]).problems
    assert "has addresses for 5 of 7 VMs more" in problem.message


def test_a_count_that_falls_gives_nothing_back_until_it_is_released():
    first = lease(AddressLedger(), terms(), [trn(5)])
    fewer = lease(first.ledger, terms(), [trn(3)])
    assert fewer.ledger == first.ledger
    assert len(fewer.leases) == 3
    after = release(first.ledger, terms(now=100), "trn", keep=3)
    assert [each.index for each in all_leases(after, POOLS)] == [1, 2, 3]
    other = SetRequest("other", 1, (NicRequest("mgmt"),))
    assert addresses(lease(after, terms(now=101), [other])) == ["10.0.0.15"]  # 13 and 14 are in quarantine
    assert addresses(lease(after, terms(now=701), [other])) == ["10.0.0.13"]


def test_a_nic_that_is_gone_from_the_set_is_released_alone():
    first = lease(AddressLedger(), terms(), [trn(2, NicRequest("mgmt"), NicRequest("data"))])
    after = release(first.ledger, terms(), "trn", keep={NicHolding("trn", "mgmt", 4): 2})
    assert {each.nic.name for each in all_leases(after, POOLS)} == {"mgmt"}


def test_one_nic_without_room_leaves_the_ledger_as_it_was():
    found = lease(AddressLedger(), terms(), [trn(6, NicRequest("mgmt"), NicRequest("data", ("more",)))])
    assert rules(found) == ["addresses.no-room"]
    assert (found.ledger, found.leases, found.new) == (AddressLedger(), (), ())
    assert "5 of 6" in found.problems[0].message


def test_the_next_pool_gives_what_the_first_lacks_in_the_order_of_the_playbook():
    found = lease(AddressLedger(), terms(), [trn(6, NicRequest("mgmt", ("more", "mgmt")))])
    assert addresses(found)[4:] == ["10.0.1.6", "10.0.0.10"]
    assert [each.gateway for each in found.leases[4:]] == ["10.0.1.1", "10.0.0.1"]


def test_spare_addresses_let_a_set_grow_without_a_gap():
    first = lease(
        AddressLedger(), terms(), [trn(2, NicRequest("mgmt", spare=2)), SetRequest("b", 1, (NicRequest("mgmt"),))]
    )
    grown = lease(first.ledger, terms(), [trn(4, NicRequest("mgmt"))])
    assert addresses(grown) == ["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13"]
    assert not grown.new
    nic = NicHolding("trn", "mgmt", 4)
    assert [found.ledger.holdings[nic].spare for found in (first, grown)] == [2, 0]
    assert release(first.ledger, terms(), "trn", keep=3).holdings[nic].spare == 1


def test_reserved_and_seen_addresses_are_not_given():
    busy = terms(avoided=(address_range("10.0.0.10"),), seen=(address_range("10.0.0.12"),))
    assert addresses(lease(AddressLedger(), busy, [trn(2)])) == ["10.0.0.13", "10.0.0.14"]  # the first gap for both


def test_an_address_that_its_own_vm_reports_is_kept():
    first = lease(AddressLedger(), terms(), [trn(2)])
    seen = terms(seen=(address_range("10.0.0.10-10.0.0.11"),))
    assert lease(first.ledger, seen, [trn(2)]).leases == first.leases


@pytest.mark.parametrize(
    ("nic", "rule"),
    [
        (NicRequest("a", ("none",)), "addresses.no-pool"),
        (NicRequest("a", versions=(6,)), "addresses.no-pool"),
        (NicRequest("a", ("mgmt",), versions=(6,)), "addresses.no-pool"),
        (NicRequest("a", ("off",)), "addresses.pool-disabled"),
        (NicRequest("a", ("mgmt", "rail")), "addresses.block-size"),
    ],
)
def test_a_request_that_no_pool_can_answer_is_a_problem_with_a_remedy(nic, rule):
    found = lease(AddressLedger(), terms(), [trn(1, nic)])
    assert rules(found) == [rule]
    assert found.problems[0].help
    assert found.problems[0].subject == "trn/a"


def test_a_pool_that_was_disabled_keeps_its_leases_and_gives_no_new_ones():
    first = lease(AddressLedger(), terms(), [trn(2)])
    pools = {**POOLS, "mgmt": POOLS["mgmt"].model_copy(update={"disabled": True})}
    assert lease(first.ledger, terms(pools), [trn(2)]).leases == first.leases
    assert rules(lease(first.ledger, terms(pools), [trn(3)])) == ["addresses.pool-disabled"]


EDITS = {
    "gone": None,
    "smaller": AddressPool(subnet="10.0.0.0/24", ranges=("10.0.0.11-10.0.0.19",), default=True),
    "excluded": AddressPool(subnet="10.0.0.0/24", exclude=("10.0.0.11",), default=True),
    "gateway": AddressPool(subnet="10.0.0.0/24", gateway="10.0.0.10", default=True),
    "blocks": AddressPool(subnet="10.0.0.0/24", per_node=30, default=True),
    "moved": AddressPool(subnet="10.9.0.0/24", default=True),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_of_a_pool_under_its_leases_is_refused(edit):
    first = lease(AddressLedger(), terms(), [trn(2)])
    pools = {name: pool for name, pool in {**POOLS, "mgmt": edit}.items() if pool is not None}
    found = lease(first.ledger, terms(pools), [trn(2)])
    assert rules(found) == ["addresses.out-of-range"]
    assert [str(held.range) for _, held, _ in out_of_range(first.ledger, terms(pools))] == ["10.0.0.10-10.0.0.11"]
    all_leases(first.ledger, pools)


def test_a_reservation_of_an_address_that_is_held_is_noticed():
    first = lease(AddressLedger(), terms(), [trn(2)])
    reserved = terms(avoided=(address_range("10.0.0.11"),))
    assert rules(lease(first.ledger, reserved, [trn(2)])) == ["addresses.out-of-range"]


def test_a_playbook_that_names_another_pool_does_not_move_vms():
    first = lease(AddressLedger(), terms(), [trn(2)])
    found = lease(first.ledger, terms(), [trn(2, NicRequest("mgmt", ("more",)))])
    assert rules(found) == ["addresses.other-pool"]


# -- affinity: VMs before hosts before folders before port groups


def affine(**by_name):
    return {n: AddressPool(subnet=f"10.{i}.0.0/24", **more) for i, (n, more) in enumerate(by_name.items())}


HERE = AffinityPlace(("trn", "training"), ("esx01",), ("ai/training",), ("dvpg-rail1",))


@pytest.mark.parametrize(
    ("pools", "chosen"),
    [
        ({"d": {"default": True}, "pg": {"affinity": Affinity(portgroups=("dvpg-rail1",))}}, "pg"),
        ({"pg": {"affinity": Affinity(portgroups=("dvpg-*",))}, "f": {"affinity": Affinity(folders=("ai/*",))}}, "f"),
        ({"f": {"affinity": Affinity(folders=("ai/*",))}, "h": {"affinity": Affinity(hosts=("esx0?",))}}, "h"),
        ({"h": {"affinity": Affinity(hosts=("esx01",))}, "v": {"affinity": Affinity(vms=("training",))}}, "v"),
        (
            {
                "three": {"affinity": Affinity(hosts=("*",), folders=("*",), portgroups=("*",))},
                "vm": {"affinity": Affinity(vms=("trn",))},
            },
            "vm",
        ),
        (
            {
                "one": {"affinity": Affinity(hosts=("esx01",))},
                "two": {"affinity": Affinity(hosts=("esx01",), portgroups=("dvpg-rail1",))},
            },
            "two",
        ),
        ({"b": {"affinity": Affinity(vms=("trn",))}, "a": {"affinity": Affinity(vms=("trn",))}}, "a"),
        ({"d": {"default": True}, "other": {"affinity": Affinity(hosts=("esx02",))}}, "d"),
        ({"d": {"default": True}, "part": {"affinity": Affinity(vms=("trn",), hosts=("esx02",))}}, "d"),
        ({"d": {"default": True}, "off": {"affinity": Affinity(vms=("trn",)), "disabled": True}}, "d"),
        ({"d": {"default": True}, "plain": {}}, "d"),
    ],
)
def test_the_pool_with_the_strongest_affinity_is_taken(pools, chosen):
    found = lease(AddressLedger(), terms(affine(**pools)), [trn(1, NicRequest("a", places=(HERE,)))])
    assert [each.pool for each in found.leases] == [chosen]


def test_without_a_name_a_nic_has_the_families_of_the_pools_that_fit():
    pools = {
        "four": AddressPool(subnet="10.0.0.0/24", default=True),
        "six": AddressPool(subnet="fd00::/64", affinity=Affinity(folders=("ai/*",))),
        "other": AddressPool(subnet="fd01::/64", affinity=Affinity(folders=("web",))),
    }
    found = lease(AddressLedger(), terms(pools), [trn(1, NicRequest("a", places=(HERE,)))])
    assert [each.pool for each in found.leases] == ["four", "six"]
    found = lease(AddressLedger(), terms(pools), [trn(1, NicRequest("a"))])
    assert [each.pool for each in found.leases] == ["four"]
    assert rules(lease(AddressLedger(), terms({}), [trn(1, NicRequest("a"))])) == ["addresses.no-pool"]


def test_a_named_pool_is_not_taken_for_a_vm_that_it_is_not_for():
    pools = affine(a={"affinity": Affinity(hosts=("esx02",))}, b={})
    elsewhere = NicRequest("a", ("a",), places=(HERE,))
    assert rules(lease(AddressLedger(), terms(pools), [trn(1, elsewhere)])) == ["addresses.affinity"]
    backed = NicRequest("a", ("a", "b"), places=(HERE,))
    assert [each.pool for each in lease(AddressLedger(), terms(pools), [trn(1, backed)]).leases] == ["b"]


def test_each_vm_has_an_address_of_the_pool_of_its_host():
    pools = affine(a={"affinity": Affinity(hosts=("esx01",))}, b={"affinity": Affinity(hosts=("esx02",))})
    hosts = ("esx01", "esx02", "esx02", "esx01")
    nic = NicRequest("a", places=tuple(AffinityPlace(hosts=(host,)) for host in hosts))
    first = lease(AddressLedger(), terms(pools), [trn(4, nic)])
    assert addresses(first, "a") == ["10.0.0.1", "10.1.0.1", "10.1.0.2", "10.0.0.2"]
    assert lease(first.ledger, terms(pools), [trn(4, nic)]).leases == first.leases


# -- rails: one block per node


def test_eight_blocks_of_27_are_exactly_a_24_and_the_ninth_node_is_refused():
    rails = NicRequest("rail1", ("rail",))
    found = lease(AddressLedger(), terms(), [trn(8, rails)])
    assert [(each.address, each.gateway, each.prefix) for each in found.leases][::7] == [
        ("172.16.1.2", "172.16.1.1", 27),
        ("172.16.1.226", "172.16.1.225", 27),
    ]
    assert found.leases[0].routes == (("172.16.0.0/16", "172.16.1.1"),)
    assert rules(lease(AddressLedger(), terms(), [trn(9, rails)])) == ["addresses.no-room"]


def test_no_address_of_a_block_lies_past_its_end():
    pool = POOLS["rail"]
    found = lease(AddressLedger(), terms(), [trn(8, NicRequest("rail1", ("rail",)))])
    inner = [part for each in found.leases for part in pool.inner(each.given)]
    assert {part.size for part in inner} == {29}  # of 32: without the subnet's own, the gateway, the broadcast address
    for each, part in zip(found.leases, inner, strict=True):
        assert each.given.first < part.first <= part.last < each.given.last
    assert not [a for a in inner for b in inner if a is not b and a.overlaps(b)]


@pytest.mark.parametrize("index", [0, 31, 32])
def test_a_gateway_of_blocks_has_to_be_an_address_in_them(index):
    with pytest.raises(ValueError, match="gateway"):
        AddressPool(subnet="172.16.1.0/24", per_node=27, node_gateway=index)


def test_a_route_without_a_gateway_is_refused():
    with pytest.raises(ValueError, match="via"):
        AddressPool(subnet="172.16.1.0/24", routes=(PoolRoute(to="172.16.0.0/16"),))


# -- at random


@st.composite
def actions(draw):
    kinds = st.tuples(st.sampled_from(["lease", "release"]), st.sampled_from("abc"), st.integers(0, 8))
    return draw(st.lists(kinds, max_size=12))


@settings(max_examples=200, deadline=None)
@given(actions())
def test_no_address_is_held_twice_nor_out_of_its_pool_whatever_is_asked(steps):
    ledger, nics = (
        AddressLedger(),
        (NicRequest("m", ("mgmt", "more")), NicRequest("r", ("rail",)), NicRequest("s", ("six",))),
    )
    for now, (what, name, count) in enumerate(steps):
        if what == "lease":
            before, found = ledger, lease(ledger, terms(now=now), [SetRequest(name, count, nics)])
            ledger = found.ledger
            assert ledger == before or not found.problems
            assert found.problems or len(found.leases) == 3 * count
        else:
            ledger = release(ledger, terms(now=now), name, keep=count)
        given_ = [(each.nic.version, each.given) for each in all_leases(ledger, POOLS)]
        for at, (_, one) in enumerate(given_):
            assert not any(one.overlaps(two) for _, two in given_[at + 1 :])
        assert not list(out_of_range(ledger, terms()))
        assert read_ledger(ledger_text(ledger)) == ledger


def test_the_gateway_of_a_pool_that_is_whole_is_no_address_of_a_vm():
    pool = POOLS["more"]
    whole = range_of(pool.network)
    left = without([AddressRange(4, whole.first + 1, whole.last - 1)], [address_range("10.0.1.1")])
    assert pool.usable() == left
