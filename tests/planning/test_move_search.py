"""Moves of VMs with vGPUs over all windows of a roll-out, against a search through every sequence of moves."""

from __future__ import annotations

from functools import cache
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gpu_moves import HALF, WHOLE, farm, gpu_host, gpu_vm, moves, rolled
from support.seeds import by_level

from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import EnterMaintenance
from vsphere_ai.planning.moves.rolling import Roll
from vsphere_ai.planning.moves.vgpu_moves import FEW_HOSTS, Moves
from vsphere_ai.planning.moves.window_search import FEW_ORDERS, JudgedOrder, searched

LAN, ONLY = "Network:lan", "Network:only"
SIZE = {HALF: 1, WHOLE: 2}


def network(kind):
    return (LAN, ONLY) if kind else (LAN,)


def seen_of(hosts, vms):
    """`hosts`: whether each has the second network; `vms`: (host number, profile, whether it needs that network)."""
    on = {n: [v for v, (at, _, _) in enumerate(vms, 1) if at == n] for n in range(1, len(hosts) + 1)}
    return farm(
        *(gpu_host(n, on[n], network=network(has)) for n, has in enumerate(hosts, 1)),
        *(gpu_vm(v, at, profile, network=network(needs)) for v, (at, profile, needs) in enumerate(vms, 1)),
    )


def possible(hosts, vms, rolled_hosts):
    """Whether some sequence of moves empties each host of the roll-out in turn, one host being out at a time."""

    def fits(where, number):
        there = [SIZE[profile] for at, (_, profile, _) in zip(where, vms, strict=True) if at == number]
        return sum(there) <= 2

    @cache
    def search(where, window):
        if window == len(rolled_hosts):
            return True
        down = rolled_hosts[window]
        leaving = [v for v, at in enumerate(where) if at == down]
        others = [n for n in range(1, len(hosts) + 1) if n != down]
        for targets in product(others, repeat=len(leaving)):
            after = list(where)
            for v, to in zip(leaving, targets, strict=True):
                after[v] = to
            lacking = any(vms[v][2] and not hosts[after[v] - 1] for v in leaving)
            if not lacking and all(fits(after, n) for n in others) and search(tuple(after), window + 1):
                return True
        return False

    return search(tuple(at for at, _, _ in vms), 0)


def test_a_place_that_a_later_window_needs_is_left_free():
    hosts, vms = (True, False, True), ((2, HALF, False), (3, HALF, True), (1, HALF, False))
    plan = rolled(seen_of(hosts, vms), [2, 3])
    assert not plan.problems
    assert moves(plan) == [
        ("train-01", "esx02", "esx03"),
        ("train-02", "esx03", "esx01"),
        ("train-01", "esx03", "esx02"),
    ]


def windows(plan):
    (roll,) = plan.impact.rolls
    return [h.name for h in roll.hosts]


def test_what_no_sequence_can_do_is_refused_as_at_first():
    hosts, vms = (True, False, True), ((2, HALF, True), (3, HALF, True), (1, WHOLE, False))
    assert {p.rule for p in rolled(seen_of(hosts, vms), [2, 3]).problems} == {"rolling.no-slot"}


@st.composite
def farms(draw):
    hosts = tuple(draw(st.lists(st.booleans(), min_size=2, max_size=4)))
    room, vms = dict.fromkeys(range(1, len(hosts) + 1), 2), []
    for _ in range(draw(st.integers(1, 5))):
        at, profile = draw(st.sampled_from(sorted(room))), draw(st.sampled_from((HALF, HALF, WHOLE)))
        if room[at] >= SIZE[profile]:
            room[at] -= SIZE[profile]
            vms.append((at, profile, hosts[at - 1] and draw(st.booleans())))
    chosen = draw(st.sets(st.sampled_from(sorted(room)), min_size=1))
    return hosts, tuple(vms), sorted(chosen)


@settings(deadline=None, max_examples=by_level(120, 1000))
@given(farms())
def test_a_roll_out_is_refused_only_where_no_order_and_no_sequence_of_moves_does_it(case):
    hosts, vms, chosen = case
    plan = rolled(seen_of(hosts, vms), chosen)
    orders = [order for order in permutations(chosen) if possible(hosts, vms, order)]
    assert (not plan.problems) == bool(orders), plan.problems
    by_name = [f"esx{n:02d}" for n in chosen]
    if tuple(chosen) in orders or not orders:
        assert windows(plan) == by_name
        assert not plan.impact.rolls[0].why
    else:
        assert windows(plan) in [[f"esx{n:02d}" for n in order] for order in orders]
        assert "not by name" in plan.impact.rolls[0].why


def test_the_order_of_windows_does_not_depend_on_names_where_one_order_is_impossible():
    hosts, vms = (False, False, False), ((2, HALF, False), (1, WHOLE, False), (3, HALF, False))
    plan = rolled(seen_of(hosts, vms), [1, 3])
    assert not plan.problems
    assert windows(plan) == ["esx03", "esx01"]
    assert [m[1:] for m in moves(plan)] == [("esx03", "esx02"), ("esx01", "esx03")]
    entered = [p.step.target.name for p in plan.steps if isinstance(p.step, EnterMaintenance)]
    assert entered == ["esx03", "esx01"]


def test_hosts_of_an_interrupted_run_stay_the_first_ones():
    names = [Target("host", f"esx{n:02d}", f"HostSystem:host-{n}") for n in range(1, 4)]
    roll = Roll("gpu", (tuple(names),), 1)
    tried = []

    def judge(other):
        tried.append(other.hosts)
        return JudgedOrder(Moves(problems=[Finding.problem(names[0], "r", "m", "h")]), [], 0)

    assert searched(roll, judge, {names[0]})[0] == roll
    assert tried == [tuple(names)] * 2, "what begins as what is refused is not tried"
    assert all(hosts[0] == names[0] for hosts in tried)


def refusing(tried, refused):
    """A judge that refuses every order, each from the position on that `refused` returns for it."""

    def judge(roll):
        tried.append(roll.hosts)
        return JudgedOrder(Moves(problems=[Finding.problem(roll.hosts[0], "r", "m", "h")]), [], refused(roll.hosts))

    return judge


@pytest.mark.parametrize("count", [16, 40])
def test_a_first_window_that_is_refused_is_tried_with_each_host_once_however_many_there_are(count):
    """The orders that begin with one host of sixteen are 15!: passing over them one by one would never end."""
    hosts = tuple(Target("host", f"esx{n:02d}", f"HostSystem:host-{n}") for n in range(count))
    tried = []
    roll, _ = searched(Roll("gpu", (hosts,), 1, members=hosts), refusing(tried, lambda _: 0), ())
    assert roll.hosts == hosts
    assert [order[0] for order in tried[1:]] == list(hosts[: count if count <= FEW_HOSTS else FEW_ORDERS])


def test_a_refusal_takes_no_more_than_so_many_sequences_of_moves():
    hosts = tuple(Target("host", f"esx{n:02d}", f"HostSystem:host-{n}") for n in range(6))
    tried = []

    def judge(roll):
        tried.append(roll.hosts)
        return JudgedOrder(Moves(problems=[Finding.problem(hosts[0], "r", "m", "h")], tries=301), [], 5)

    searched(Roll("gpu", (hosts,), 1, members=hosts), judge, ())
    assert len(tried) == 1 + 2, "the given order, and those that 600 sequences allow"


@given(st.integers(1, 5), st.integers(0, 4), st.randoms())
def test_orders_left_out_are_those_that_begin_like_a_refused_one(count, most_begun, random):
    hosts = tuple(Target("host", f"esx{n:02d}", f"HostSystem:host-{n}") for n in range(count))
    begun, positions, tried = hosts[:most_begun], {}, []
    searched(
        Roll("gpu", (hosts,), 1, members=hosts),
        refusing(tried, lambda order: positions.setdefault(order, random.randrange(count))),
        begun,
    )
    expected, refused = [], set()
    for order in permutations(hosts[len(begun) :]):
        whole = (*begun, *order)
        if not any(whole[: len(start)] == start for start in refused):
            expected.append(whole)
            refused.add(whole[: positions[whole] + 1])
    assert tried[1:] == expected
