"""Leaves of rails: the VMs of a set on as few leaf switches as any placement has, by comparison with all of them."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.choice_rooms import room

from vsphere_ai.capacity.verdict import GpuHosts
from vsphere_ai.sets.choice import Chooser, MemberNeed
from vsphere_ai.sets.leaf_choice import choose, cost
from vsphere_ai.sets.leaves import Rails

HOSTS = ("esx0", "esx1", "esx2", "esx3")
FARM = GpuHosts((), {})


def chooser(memory, sets=None):
    rooms = {h: room(h, mb, (sets or {}).get(h, {})) for h, mb in memory.items()}
    return Chooser(FARM, FARM, (), {}, rooms)


def need(number, hosts=HOSTS, mb=1, *, name="train", apart=False):
    return MemberNeed(f"{name}{number}", name, frozenset(hosts), (), mb, (), apart)


def used(asked, rails, hosts, name="train"):
    """The leaves on which a set is, with its existing VMs."""
    there = {h for h, room in asked.rooms.items() if room.sets.get(name)}
    return {rails.leaves[h] for h in {*hosts, *there}}


def fewest(asked, rails, needs):
    """The lowest cost of all placements; None where there is none."""
    found = []
    for places in product(*(sorted(n.hosts) for n in needs)):
        own = dict(zip((n.name for n in needs), places, strict=True))
        if all(asked.takes(h, [n for n in needs if own[n.name] == h]) for h in asked.rooms):
            found.append(cost(used(asked, rails, places)))
    return min(found, default=None)


@st.composite
def farms(draw):
    """Up to four hosts with room for a few VMs, each on leaves of two rails, or on none that is named."""
    names = HOSTS[: draw(st.integers(1, 4))]
    leaf = st.tuples(st.sampled_from(("a1", "a2", "")), st.sampled_from(("b1", "b2")))
    rails = Rails(("rail 1", "rail 2"), {h: draw(leaf) for h in names})
    memory = {h: draw(st.integers(0, 4)) for h in names}
    sets = {h: {"train": 1} for h in names if draw(st.integers(0, 5)) == 0}
    vms = draw(
        st.lists(st.tuples(st.integers(1, 3), st.sets(st.sampled_from(names), min_size=1)), min_size=1, max_size=5)
    )
    apart = draw(st.booleans())
    return chooser(memory, sets), rails, [need(n, hosts, mb, apart=apart) for n, (mb, hosts) in enumerate(vms)]


@settings(deadline=None, max_examples=250)
@given(farms())
def test_no_placement_is_on_fewer_leaves(case):
    asked, rails, needs = case
    found = choose(asked, needs, {"train": rails})
    best = fewest(asked, rails, needs)
    assert bool(found.choice.refused) == (best is None)
    if best is not None:
        leaves = used(asked, rails, found.choice.hosts.values())
        assert cost(leaves) == best
        assert found.sets["train"].one == all(len(set(r)) == 1 and "" not in r for r in zip(*leaves, strict=True))


def leaves(*own):
    return Rails(("rail 1",), dict(zip(HOSTS, ((leaf,) for leaf in own), strict=True)))


def test_a_set_is_spread_over_the_hosts_of_one_leaf():
    found = choose(chooser(dict.fromkeys(HOSTS, 9)), [need(n) for n in range(4)], {"train": leaves("a", "b", "a", "b")})
    assert len(set(found.choice.hosts.values())) == 2
    assert found.sets["train"].one


def test_where_no_leaf_has_room_the_reason_is_given():
    asked = chooser(dict.fromkeys(HOSTS, 1))
    found = choose(asked, [need(n) for n in range(3)], {"train": leaves("a", "a", "b", "b")})
    said = found.sets["train"]
    assert not said.one
    assert said.words == "rail 1 on a and b: a has room for 2 of 3 VMs; b has room for 2 of 3 VMs"


def test_new_vms_follow_those_that_are_there():
    asked = chooser(dict.fromkeys(HOSTS, 9), {"esx3": {"train": 1}})
    found = choose(asked, [need(0)], {"train": leaves("a", "a", "b", "b")})
    assert found.choice.hosts["train0"] == "esx2"
    assert found.sets["train"].words == "rail 1 on b"


def test_two_sets_are_each_on_one_leaf():
    asked = chooser(dict.fromkeys(HOSTS, 2))
    needs = [need(n, name=name) for name in ("one", "two") for n in range(4)]
    rails = leaves("a", "a", "b", "b")
    found = choose(asked, needs, {"one": rails, "two": rails})
    assert found.sets["one"].one
    assert found.sets["two"].one


def test_with_many_leaves_a_single_one_is_found():
    names = [f"esx{n:02d}" for n in range(36)]
    rails = Rails(("rail 1",), {h: (f"leaf{n // 3:02d}",) for n, h in enumerate(names)})
    memory = {h: 1 if n // 3 != 7 else 2 for n, h in enumerate(names)}
    found = choose(chooser(memory), [need(n, names) for n in range(6)], {"train": rails})
    assert found.sets["train"].words == "rail 1 on leaf07"


@pytest.mark.parametrize("named", [True, False])
def test_a_host_without_a_leaf_is_on_none(named):
    asked = chooser({"esx0": 1, "esx1": 1})
    rails = Rails(("rail 1",), {"esx0": ("a",), "esx1": ("a" if named else "",)})
    found = choose(asked, [need(n, ("esx0", "esx1")) for n in range(2)], {"train": rails})
    assert found.sets["train"].one == named
    assert ("esx1" in found.sets["train"].words) != named
