"""A search through all packings, for what neither a proposal nor weights decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from vsphere_ai.capacity.gpu import Vector
from vsphere_ai.capacity.groups import Budget, Group, Packed, Part, Unpacked
from vsphere_ai.capacity.weights import Weights, choosiest, exceeds, room, shares, weight, worth


@dataclass
class Proposals:
    """The best proposal so far and the weights that came closest to a proof."""

    left: tuple[int, ...]
    weights: list[Weights] = field(default_factory=list)


def search(groups: Sequence[Group], wanted: Vector, proposals: Proposals, budget: Budget) -> Packed | Unpacked:
    """Look for a packing until the budget is spent; the weights of `proposals` show early where there is none."""
    order = choosiest(groups)
    every = _Search([groups[g] for g in order], wanted, proposals.weights, budget)
    found = every.run(-1, 0, wanted)
    if found is None:
        return Unpacked(budget.steps >= 0, proposals.left)
    given: list[list[tuple[Part, int]]] = [[] for _ in groups]
    for at, part in found:
        given[order[at]].append((part, 1))
    return Packed(tuple(tuple(g) for g in given))


class _Search:
    """Goes through GPU after GPU; what cannot be packed into the rest is remembered, weights cut off early."""

    def __init__(self, groups: Sequence[Group], wanted: Vector, tried: Sequence[Weights], budget: Budget) -> None:
        self.groups, self.budget = groups, budget
        self.dead: set[tuple[int, int, Vector]] = set()
        plain = [tuple(float(j == i) for j in range(len(wanted))) for i in range(len(wanted))]
        tightest = sorted((*tried, *plain), key=lambda w: room(groups, w) - worth(wanted, w))[:8]
        self.bounds = [(w, self._suffixes(w)) for w in tightest]
        self.weights = tightest[0]
        self.shares = shares(groups, wanted)
        self.last = {i: at for at, g in enumerate(groups) for chain in g.chains for i in chain}
        self.behind = [self._takers(at) for at in range(len(groups))]

    def _takers(self, at: int) -> dict[int, int]:
        """Return per item of a group which groups behind it take the item too, one bit each."""
        items = {i for chain in self.groups[at].chains for i in chain}
        later = [{i for chain in g.chains for i in chain} for g in self.groups[at + 1 :]]
        return {i: sum(1 << n for n, taken in enumerate(later) if i in taken) for i in items}

    def _suffixes(self, weights: Weights) -> list[tuple[float, float]]:
        """Return per group the room of one of its GPUs, and of all groups behind it."""
        per_gpu = [g.best(weights)[0] for g in self.groups]
        behind, suffixes = 0.0, []
        for group, best in zip(reversed(self.groups), reversed(per_gpu), strict=True):
            suffixes.append((best, behind))
            behind += best * group.count
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
        parts = list({p for v in group.full for p in self._parts(at, v, left)})
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

    def _parts(self, at: int, vector: Vector, left: Vector) -> Iterator[Part]:
        """Yield what a combination can be given: of items of one profile, the one that can go to fewer GPUs first.

        Where neither's GPUs are within the other's, every division between them has to be tried.
        """
        behind, group = self.behind[at], self.groups[at]
        options = [list(_splits(n, chain, left, behind)) for n, chain in zip(vector, group.chains, strict=True)]
        for chosen in product(*options):
            yield tuple(sorted(pair for part in chosen for pair in part))

    def _hopeless(self, at: int, free: int, left: Vector) -> bool:
        return any(exceeds(worth(left, w), free * s[at][0] + s[at][1]) for w, s in self.bounds)

    def _of_the_largest(self, at: int, left: Vector, parts: list[Part]) -> list[Part]:
        """Keep the parts with the largest item only this group takes: it goes to one of its GPUs, so to this one."""
        here = [i for i, n in enumerate(left) if n and self.last[i] <= at]
        if not here:
            return parts
        largest = max(here, key=lambda i: (self.shares[i], i))
        return [p for p in parts if any(i == largest for i, _ in p)]

    def _maximal(self, parts: list[Part]) -> list[Part]:
        """Return the parts that are in no other part, the heaviest first."""
        parts.sort(key=lambda p: (-weight(p, self.weights), p))
        counts = [(p, dict(p)) for p in parts]
        return [p for p, _ in counts if not any(o is not p and _within(p, more) for o, more in counts)]


def _splits(n: int, chain: Sequence[int], left: Vector, behind: Mapping[int, int]) -> Iterator[Part]:
    """Yield how `n` places are divided among the items of one profile that are still wanted."""
    items = [i for i in chain if left[i]]
    if not items or not n:
        yield ()
        return
    if len(items) == 1:
        yield ((items[0], min(n, left[items[0]])),)
        return
    items.sort(key=lambda i: (behind[i].bit_count(), i))
    first, rest = items[0], items[1:]
    most = min(n, left[first])
    least = max(0, min(n, sum(left[i] for i in items)) - sum(left[i] for i in rest))
    if all(behind[first] & ~behind[i] == 0 for i in rest):
        least = most
    for taken in range(most, least - 1, -1):
        for others in _splits(n - taken, rest, left, behind):
            yield (((first, taken), *others) if taken else others)


def _within(part: Part, other: Mapping[int, int]) -> bool:
    return all(n <= other.get(i, 0) for i, n in part)
