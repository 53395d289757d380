"""Pairs of VMs in rounds, each with each: the circle method, in which every VM is busy once per round.

N VMs take N - 1 rounds, N rounds where N is odd (as microsoft/superbenchmark's gen_traffic_pattern_config.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import isqrt
from types import MappingProxyType

from vsphere_ai.benchmarks.slow_part.partitions import FabricPlace
from vsphere_ai.benchmarks.slow_part.trials import Judge, Search, Trial

Pair = tuple[str, str]
EVERY, PARTNERS = 16, 4
"""Up to this many VMs every pair is measured; partners of each VM in larger sets."""


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


def chosen_pairs(where: Mapping[str, FabricPlace], kept: Iterable[Pair] = ()) -> tuple[Pair, ...]:
    """Return the pairs that show every VM, and the way between every two switches: every pair of up to `EVERY` VMs.

    In a larger set each VM has `PARTNERS` others, on other hosts where there are any. `kept` pairs are taken where they
    still serve, so that a VM that moves, comes or goes changes no pairs but its own.
    """
    names = sorted(where)
    if len(names) <= EVERY:
        return tuple(combinations(names, 2))
    found: dict[frozenset[str], None] = {}
    of: dict[str, int] = dict.fromkeys(names, 0)
    hosts = {place.host for place in where.values()}

    def serves(one: str, other: str) -> bool:
        apart = len(hosts) < 2 or not where[one].host or where[one].host != where[other].host
        return apart and one != other and frozenset((one, other)) not in found

    def take(one: str, other: str) -> None:
        found[frozenset((one, other))] = None
        of[one], of[other] = of[one] + 1, of[other] + 1

    for one, other in kept:
        if one in where and other in where and serves(one, other):
            take(one, other)
    for stride in (1, isqrt(len(names))):
        for at, one in enumerate(names):
            other = names[(at + stride) % len(names)]
            if serves(one, other) and max(of[one], of[other]) < PARTNERS:
                take(one, other)
    for one in (n for n in names if of[n] < PARTNERS):
        free = sorted((n for n in names if n != one), key=lambda n: (of[n], n))
        for other in (n for n in free if of[one] < PARTNERS and serves(one, n)):
            if of[one] < PARTNERS:
                take(one, other)
    for ends in _unseen(where, found):
        one, other = (min((n for n in names if where[n].switch == end), key=lambda n: (of[n], n)) for end in ends)
        take(one, other)
    return tuple((a, b) for a, b in (sorted(pair) for pair in found))


def _unseen(where: Mapping[str, FabricPlace], found: Iterable[frozenset[str]]) -> list[tuple[str, str]]:
    """Return the pairs of switches between which there is no pair of VMs; none where switches are not known."""
    seen = {frozenset(where[vm].switch for vm in pair) for pair in found}
    switches = sorted({place.switch for place in where.values()} - {""})
    return [ends for ends in combinations(switches, 2) if frozenset(ends) not in seen]


def in_rounds(pairs: Iterable[Pair]) -> tuple[tuple[Pair, ...], ...]:
    """Return pairs in rounds in which no name is twice."""
    rounds: list[dict[str, Pair]] = []
    for pair in pairs:
        free = next((r for r in rounds if not r.keys() & set(pair)), None)
        if free is None:
            rounds.append(free := {})
        free.update(dict.fromkeys(pair, pair))
    return tuple(tuple(dict.fromkeys(r.values())) for r in rounds)


def measure_pairs(
    rounds: Iterable[Sequence[Pair]], judge: Judge, known: Mapping[Pair, float] = MappingProxyType({})
) -> Search[dict[Pair, float | None]]:
    """Measure the pairs that are not `known`; return all of them. Learns the reference where there is none."""
    found: dict[Pair, float | None] = {}
    values = {frozenset(pair): value for pair, value in known.items()}
    for pairs in rounds:
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
