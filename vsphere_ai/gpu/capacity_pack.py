"""Packs vGPUs into GPUs exactly: proposals, weights that prove "no room", and a search for what is in between."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations as subsets
from operator import mul

from vsphere_ai.gpu.capacity_gpu import Vector

Weights = tuple[float, ...]

MAX_SUBSETS = 6
"""Up to that many kinds of vGPU every subset of them is counted, which gives proofs an operator understands."""
_WORK = 150_000  # products of weights and combinations spent on proposals before the search begins
_SLACK = 1e-9


Part = tuple[tuple[int, int], ...]
"""What one GPU is given: (item, how many)."""


@dataclass(frozen=True)
class Group:
    """GPUs that are alike: how many, and their full combinations.

    `chains` says for each place of a combination which items may fill it, those with the fewest hosts first: items of
    one profile differ in their hosts only, and as long as one's hosts are within the other's, it is never wrong to
    serve the one that has fewer first.
    """

    count: int
    chains: tuple[tuple[int, ...], ...]
    full: tuple[Vector, ...]

    def best(self, weights: Sequence[float]) -> tuple[float, Vector]:
        """Return the combination of the greatest weight, that weight first."""
        prices = [max(weights[i] for i in chain) for chain in self.chains]
        return max((sum(map(mul, v, prices)), v) for v in self.full)

    def part(self, vector: Vector, left: Sequence[int]) -> Part:
        """Return the part of a combination that is still wanted."""
        found = []
        for n, chain in zip(vector, self.chains, strict=True):
            for item in chain:
                take = min(n, left[item])
                if take:
                    found.append((item, take))
                    n -= take
        return tuple(found)


@dataclass
class Budget:
    """How many steps a search may still take; shared by the searches of one question."""

    steps: int

    def spend(self, steps: int = 1) -> bool:
        """Take steps; tell whether there were any left."""
        self.steps -= steps
        return self.steps >= 0


@dataclass(frozen=True)
class Packed:
    """Per group what its GPUs are given, as (part, GPUs); GPUs that are not named get nothing."""

    given: tuple[tuple[tuple[Part, int], ...], ...]


@dataclass(frozen=True)
class Unpacked:
    """No way was found. With `exact` there is none.

    `proof` names items of which `wanted` are to be packed where only `room` fit; `left` is what the best proposal
    could not pack, per item.
    """

    exact: bool
    left: Vector
    proof: tuple[int, ...] = ()
    wanted: int = 0
    room: int = 0


@dataclass
class _Proposals:
    """The best proposal so far and the weights that came closest to a proof."""

    left: tuple[int, ...]
    weights: list[Weights] = field(default_factory=list)


def pack(groups: Sequence[Group], counts: Sequence[int], budget: Budget) -> Packed | Unpacked:
    """Place `counts` of each item on the GPUs of the groups; `Unpacked` says whether that is proved to be impossible.

    The full combinations must be closed: with one, every smaller one is possible as well.
    """
    wanted = tuple(counts)
    for chosen in _subsets(groups, wanted):
        weights = tuple(float(i in chosen) for i in range(len(wanted)))
        need, room = sum(wanted[i] for i in chosen), int(_room(groups, weights))
        if need > room:
            _, left = _propose(groups, wanted, _shares(groups, wanted))
            return Unpacked(True, left, chosen, need, room)
    proposals = _Proposals(wanted)
    for weights in _adjusted(groups, wanted, 4 * _WORK if budget.steps > 0 else _WORK):
        if _exceeds(_worth(wanted, weights), _room(groups, weights)):
            return Unpacked(True, proposals.left)
        proposals.weights.append(weights)
        given, left = _propose(groups, wanted, weights)
        if not any(left):
            return Packed(given)
        if sum(left) < sum(proposals.left):
            proposals.left = left
    return _search(groups, wanted, proposals, budget)


def _subsets(groups: Sequence[Group], wanted: Vector) -> Iterator[tuple[int, ...]]:
    """Yield the items to count: one by one, then together, as long as they are few."""
    items = [i for i, n in enumerate(wanted) if n]
    largest = len(items) if len(items) <= MAX_SUBSETS and len(groups) <= _WORK // 1000 else 1
    for size in range(1, largest + 1):
        yield from subsets(items, size)


def _shares(groups: Sequence[Group], wanted: Vector) -> Weights:
    """Return per item the part of a GPU it takes at least."""
    most = [0] * len(wanted)
    for group in groups:
        for n, chain in zip(map(max, zip(*group.full, strict=True)), group.chains, strict=True):
            for i in chain:
                most[i] = max(most[i], n)
    return tuple(1 / n if n else 1.0 for n in most)


def _adjusted(groups: Sequence[Group], wanted: Vector, work: int) -> Iterator[Weights]:
    """Yield weights that grow where GPUs filled by weight offer less than is wanted, and shrink where they offer more.

    Multiplicative weights: they approach prices under which a demand that is too large proves itself so.
    """
    weights = list(_shares(groups, wanted))
    size = sum(len(g.full) * len(g.chains) for g in groups) + 1
    for turn in range(max(4, min(200, work // size))):
        yield tuple(weights)
        pace = 0.5 / (1 + turn / 20)
        offered = [0] * len(wanted)
        for group in groups:
            for n, chain in zip(group.best(weights)[1], group.chains, strict=True):
                offered[max(chain, key=weights.__getitem__)] += n * group.count
        for i, n in enumerate(wanted):
            weights[i] *= math.exp(pace * (n - offered[i]) / max(n, offered[i], 1))
        top = max(weights, default=1.0)
        weights = [max(w / top, _SLACK) for w in weights]


def _room(groups: Sequence[Group], weights: Sequence[float]) -> float:
    return sum(g.count * g.best(weights)[0] for g in groups)


def _worth(counts: Sequence[int], weights: Sequence[float]) -> float:
    return sum(n * w for n, w in zip(counts, weights, strict=True))


def _exceeds(need: float, room: float) -> bool:
    return need > room * (1 + _SLACK) + _SLACK


def _propose(
    groups: Sequence[Group], wanted: Vector, weights: Weights
) -> tuple[tuple[tuple[tuple[Part, int], ...], ...], tuple[int, ...]]:
    """Fill GPU by GPU with what weighs most, the choosiest GPUs first; return what was given and what is left."""
    left = list(wanted)
    given: list[tuple[tuple[Part, int], ...]] = [()] * len(groups)
    for at in _choosiest(groups):
        group, free, chosen = groups[at], groups[at].count, []
        while free:
            part = max((group.part(v, left) for v in group.full), key=lambda p: _weight(p, weights))
            if not part:
                break
            times = min(free, *(left[i] // n for i, n in part))
            for i, n in part:
                left[i] -= n * times
            free -= times
            chosen.append((part, times))
        given[at] = tuple(chosen)
    return tuple(given), tuple(left)


def _weight(part: Part, weights: Sequence[float]) -> float:
    return sum(n * weights[i] for i, n in part)


def _choosiest(groups: Sequence[Group]) -> list[int]:
    """Sort groups so that GPUs which take little come first: what only they take has to go there anyway."""
    return sorted(range(len(groups)), key=lambda g: (len(groups[g].chains), len(groups[g].full), g))


class _Search:
    """Goes through GPU after GPU; what cannot be packed into the rest is remembered, weights cut off early."""

    def __init__(self, groups: Sequence[Group], wanted: Vector, tried: Sequence[Weights], budget: Budget) -> None:
        self.groups, self.budget = groups, budget
        self.dead: set[tuple[int, int, Vector]] = set()
        plain = [tuple(float(j == i) for j in range(len(wanted))) for i in range(len(wanted))]
        tightest = sorted((*tried, *plain), key=lambda w: _room(groups, w) - _worth(wanted, w))[:8]
        self.bounds = [(w, self._suffixes(w)) for w in tightest]
        self.weights = tightest[0]
        self.shares = _shares(groups, wanted)
        self.last = {i: at for at, g in enumerate(groups) for chain in g.chains for i in chain}

    def _suffixes(self, weights: Weights) -> list[tuple[float, float]]:
        """Return per group the room of one of its GPUs, and of all groups behind it."""
        per_gpu = [g.best(weights)[0] for g in self.groups]
        behind, suffixes = 0.0, []
        for group, room in zip(reversed(self.groups), reversed(per_gpu), strict=True):
            suffixes.append((room, behind))
            behind += room * group.count
        return suffixes[::-1]

    def run(self, at: int, free: int, left: Vector) -> tuple[tuple[int, Part], ...] | None:
        """Return (group, part) per GPU used, from `free` GPUs of group `at` on; None when there is no way."""
        if not any(left):
            return ()
        while not free:
            at += 1
            if at == len(self.groups):
                return None
            free = self.groups[at].count
        if (at, free, left) in self.dead or self._hopeless(at, free, left):
            return None
        group = self.groups[at]
        parts = list({group.part(v, left) for v in group.full})
        # comparing parts is what takes time: pay for it, so that a budget is a time as well
        if not self.budget.spend(1 + len(group.full) // 8 + len(parts) * len(parts) // 32):
            return None
        for part in self._maximal(self._of_the_largest(at, left, parts)):
            less = list(left)
            for i, n in part:
                less[i] -= n
            rest = self.run(at, free - 1, tuple(less))
            if rest is not None:
                return ((at, part), *rest)
        self.dead.add((at, free, left))
        return None

    def _hopeless(self, at: int, free: int, left: Vector) -> bool:
        return any(_exceeds(_worth(left, w), free * s[at][0] + s[at][1]) for w, s in self.bounds)

    def _of_the_largest(self, at: int, left: Vector, parts: list[Part]) -> list[Part]:
        """Keep the parts with the largest item only this group takes: it goes to one of its GPUs, so to this one."""
        here = [i for i, n in enumerate(left) if n and self.last[i] <= at]
        if not here:
            return parts
        largest = max(here, key=lambda i: (self.shares[i], i))
        return [p for p in parts if any(i == largest for i, _ in p)]

    def _maximal(self, parts: list[Part]) -> list[Part]:
        """Return the parts that are in no other part, the heaviest first."""
        parts.sort(key=lambda p: (-_weight(p, self.weights), p))
        counts = [(p, dict(p)) for p in parts]
        return [p for p, _ in counts if not any(o is not p and _within(p, more) for o, more in counts)]


def _within(part: Part, other: Mapping[int, int]) -> bool:
    return all(n <= other.get(i, 0) for i, n in part)


def _search(groups: Sequence[Group], wanted: Vector, proposals: _Proposals, budget: Budget) -> Packed | Unpacked:
    order = _choosiest(groups)
    search = _Search([groups[g] for g in order], wanted, proposals.weights, budget)
    found = search.run(-1, 0, wanted)
    if found is None:
        return Unpacked(budget.steps >= 0, proposals.left)
    given: list[list[tuple[Part, int]]] = [[] for _ in groups]
    for at, part in found:
        given[order[at]].append((part, 1))
    return Packed(tuple(tuple(g) for g in given))
