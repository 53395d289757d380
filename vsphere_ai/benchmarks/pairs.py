"""Pairs of VMs in rounds, each with each: the circle method, in which every VM is busy once per round.

N VMs take N - 1 rounds, N rounds where N is odd (as microsoft/superbenchmark's gen_traffic_pattern_config.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from vsphere_ai.benchmarks.trials import Judge, Search, Trial

Pair = tuple[str, str]


def rounds_of_pairs(names: Sequence[str]) -> tuple[tuple[Pair, ...], ...]:
    """Return every pair of names once, in rounds in which no name is twice."""
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    half = len(circle) // 2
    made = []
    for _ in range(len(circle) - 1):
        ends = zip(circle[:half], reversed(circle[half:]), strict=True)
        made.append(tuple((a, b) for a, b in ends if a is not None and b is not None))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return tuple(made) if len(names) > 1 else ()


def measure_pairs(
    names: Sequence[str], judge: Judge, known: Mapping[Pair, float] = MappingProxyType({})
) -> Search[dict[Pair, float | None]]:
    """Measure every pair that is not `known`; return all of them. Learns the reference where there is none."""
    found: dict[Pair, float | None] = {}
    values = {frozenset(pair): value for pair, value in known.items()}
    for pairs in rounds_of_pairs(names):
        found.update((pair, values[frozenset(pair)]) for pair in pairs if frozenset(pair) in values)
        trials = {Trial(p, runs=judge.runs, why="pair"): p for p in pairs if frozenset(p) not in values}
        if not trials:
            continue
        results = yield tuple(trials)
        found.update((pair, results.get(trial)) for trial, pair in trials.items())
    judge.learn(found.values())
    return found


def slow_ends(found: Mapping[Pair, float | None], judge: Judge) -> tuple[tuple[str, ...], tuple[Pair, ...]]:
    """Return the VMs that are slow with every other VM, and the slow pairs that these do not explain.

    With two VMs, no VM can be named.
    """
    slow = {pair for pair, value in found.items() if judge.is_slow(value)}
    names = sorted({name for pair in found for name in pair})
    of = {name: [pair for pair in found if name in pair] for name in names}
    # the VMs without which every pair is fast, taken out by how many slow pairs they are in
    some: set[str] = set()
    while rest := [pair for pair in slow if not set(pair) & some]:
        some.add(max(names, key=lambda n: (sum(n in pair for pair in rest), n)))
    healthy = set(names) - some
    if len(healthy) > 1 and all(p in slow for n in some for p in of[n] if set(p) & healthy):
        return tuple(sorted(some)), ()
    bad = tuple(n for n in names if len(of[n]) > 1 and all(p in slow for p in of[n]))
    return bad, tuple(sorted(pair for pair in slow if not set(pair) & set(bad)))
