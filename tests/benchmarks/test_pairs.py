"""Pairs in rounds, and what a table of all pairs says."""

from __future__ import annotations

from itertools import combinations

import pytest

from vsphere_ai.benchmarks.slow_part.pairs import measure_pairs, rounds_of_pairs, slow_ends
from vsphere_ai.benchmarks.slow_part.trials import Judge


@pytest.mark.parametrize("count", range(0, 24))
def test_every_pair_is_there_once_and_no_vm_twice_in_a_round(count):
    names = [f"vm-{at}" for at in range(count)]
    rounds = rounds_of_pairs(names)
    assert len(rounds) == (0 if count < 2 else count - 1 if count % 2 == 0 else count)
    for pairs in rounds:
        assert len(pairs) == count // 2
        assert len({name for pair in pairs for name in pair}) == 2 * len(pairs)
    every = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert sorted(map(sorted, every)) == sorted(map(sorted, map(frozenset, combinations(names, 2))))


def table(count, slow):
    return {pair: 70.0 if slow(pair) else 100.0 for pair in combinations("abcdefgh"[:count], 2)}


@pytest.mark.parametrize(
    ("count", "slow", "vms", "pairs"),
    [
        (5, lambda p: False, (), ()),
        (5, lambda p: "c" in p, ("c",), ()),
        (6, lambda p: {"c", "e"} & set(p), ("c", "e"), ()),
        (6, lambda p: set(p) == {"a", "b"}, (), (("a", "b"),)),
        (6, lambda p: "f" in p or set(p) == {"a", "b"}, ("f",), (("a", "b"),)),
        (3, lambda p: "c" in p, ("c",), ()),
        (2, lambda p: True, (), (("a", "b"),)),
    ],
)
def test_slow_vms_are_slow_with_every_healthy_one(count, slow, vms, pairs):
    assert slow_ends(table(count, slow), Judge(reference=100.0)) == (vms, pairs)


def test_many_slow_vms_are_found_quickly():
    names = [f"vm-{at:02}" for at in range(64)]
    bad = set(names[::5])
    found = {pair: 70.0 if bad & set(pair) else 100.0 for pair in combinations(names, 2)}
    assert slow_ends(found, Judge(reference=100.0)) == (tuple(sorted(bad)), ())


def test_pairs_that_are_known_are_not_measured_again():
    names = list("abcdef")
    known = {pair: 100.0 for pair in combinations(names, 2) if "c" not in pair}
    running = measure_pairs(rounds_of_pairs(names), Judge(reference=100.0), known)
    asked, found = [], None
    try:
        trials = next(running)
        while True:
            asked += [trial.vms for trial in trials]
            trials = running.send({trial: 70.0 for trial in trials})
    except StopIteration as done:
        found = done.value
    assert len(asked) == 5
    assert all("c" in pair for pair in asked)
    assert {frozenset(p) for p in found} == {frozenset(p) for p in combinations(names, 2)}
    assert slow_ends(found, Judge(reference=100.0)) == (("c",), ())
