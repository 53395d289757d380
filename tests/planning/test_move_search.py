"""Moves of VMs with vGPUs over all windows of a roll-out, against a search through every sequence of moves."""

from __future__ import annotations

from functools import cache
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from support.gpu_moves import HALF, WHOLE, farm, gpu_host, gpu_vm, moves, rolled

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


@settings(deadline=None, max_examples=120)
@given(farms())
def test_a_roll_out_is_refused_only_where_no_sequence_of_moves_does_it(case):
    hosts, vms, chosen = case
    plan = rolled(seen_of(hosts, vms), chosen)
    assert (not plan.problems) == possible(hosts, vms, tuple(chosen)), plan.problems
