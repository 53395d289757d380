"""Packs vGPUs into GPUs exactly: proposals, weights that prove "no room", and a search for what is in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations as subsets
from operator import le

from vsphere_ai.capacity.backtrack import Proposals, search
from vsphere_ai.capacity.gpu import Vector
from vsphere_ai.capacity.groups import Budget, Group, Packed, Part, Unpacked
from vsphere_ai.capacity.weights import adjusted, exceeds, propose, room, rounded, shares, worth
from vsphere_ai.gpu.connected import leaders

MAX_SUBSETS = 6
"""Up to that many kinds of vGPU every subset of them is counted, which gives proofs an operator understands."""
_WORK = 150_000  # products of weights and combinations spent on proposals before the search begins
FIRST_TURNS = 8
"""Weights that each get a proposal of their own; later ones differ little, and every fourth does."""


def pack(groups: Sequence[Group], counts: Sequence[int], budget: Budget) -> Packed | Unpacked:
    """Place `counts` of each item on the GPUs of the groups; `Unpacked` says whether that is proved to be impossible.

    The full combinations must be closed: with one, every smaller one is possible as well.
    """
    wanted = tuple(counts)
    parts = _independent(groups, wanted)
    given: list[tuple[tuple[Part, int], ...]] = [()] * len(groups)
    misfits = []
    for own_groups, items in parts:
        told = _pack([_only(groups[g], items) for g in own_groups], [wanted[i] for i in items], budget)
        if isinstance(told, Unpacked):
            misfits.append((told, items))
            continue
        for g, parts_ in zip(own_groups, told.given, strict=True):
            given[g] = tuple((tuple((items[i], n) for i, n in part), times) for part, times in parts_)
    return _together(misfits, len(wanted)) if misfits else Packed(tuple(given))


def _independent(groups: Sequence[Group], wanted: Vector) -> list[tuple[list[int], list[int]]]:
    """Return groups and items that compete with each other: boards and modes that share nothing are packed apart."""
    takes = [[i for chain in group.chains for i in chain if wanted[i]] for group in groups]
    leader = leaders(takes)
    found: dict[int, tuple[list[int], list[int]]] = {}
    for item, count in enumerate(wanted):
        if count:
            found.setdefault(leader.get(item, item), ([], []))[1].append(item)
    for at, items in enumerate(takes):
        if items:
            found[leader[items[0]]][0].append(at)
    return list(found.values())


def _only(group: Group, items: Sequence[int]) -> Group:
    """Return a group as if only these items existed, numbered by their place among them."""
    number = {item: n for n, item in enumerate(items)}
    chains = [tuple(number[i] for i in chain if i in number) for chain in group.chains]
    kept = [at for at, chain in enumerate(chains) if chain]
    if len(kept) == len(chains):
        return replace(group, chains=tuple(chains))
    full = _undominated({tuple(v[at] for at in kept) for v in group.full})
    return Group(group.count, tuple(chains[at] for at in kept), full)


def _undominated(vectors: Iterable[Vector]) -> tuple[Vector, ...]:
    every = sorted(vectors, reverse=True)
    return tuple(v for v in every if not any(o is not v and all(map(le, v, o)) for o in every))


def _together(misfits: Sequence[tuple[Unpacked, Sequence[int]]], items: int) -> Unpacked:
    """Return one answer for several that were packed apart: the first that is proved tells why."""
    told, own = min(misfits, key=lambda m: (not m[0].exact, not m[0].proof))
    left = [0] * items
    for each, numbers in misfits:
        for n, item in zip(each.left, numbers, strict=True):
            left[item] = n
    return replace(told, left=tuple(left), proof=tuple(own[i] for i in told.proof))


def _pack(groups: Sequence[Group], counts: Sequence[int], budget: Budget) -> Packed | Unpacked:
    wanted = tuple(counts)
    for chosen in _subsets(groups, wanted):
        weights = tuple(float(i in chosen) for i in range(len(wanted)))
        need, free = sum(wanted[i] for i in chosen), int(room(groups, weights))
        if need > free:
            _, left = propose(groups, wanted, shares(groups, wanted))
            return Unpacked(True, left, chosen, need, free)
    proposals = Proposals(wanted)
    for turn, weights in enumerate(adjusted(groups, wanted, budget, 4 * _WORK if budget.steps > 0 else _WORK)):
        if exceeds(worth(wanted, weights), room(groups, weights)):
            return Unpacked(True, proposals.left)
        proposals.weights.append(weights)
        if turn % 4 and turn > FIRST_TURNS:
            continue
        given, left = propose(groups, wanted, weights)
        if not any(left):
            return Packed(given)
        if sum(left) < sum(proposals.left):
            proposals.left = left
    proposals.weights += rounded(proposals.weights)  # the search begins with what the best of all weights prove
    return search(groups, wanted, proposals, budget)


def _subsets(groups: Sequence[Group], wanted: Vector) -> Iterator[tuple[int, ...]]:
    """Yield the items to count: one by one, then together, as long as they are few."""
    items = [i for i, n in enumerate(wanted) if n]
    largest = len(items) if len(items) <= MAX_SUBSETS and len(groups) <= _WORK // 1000 else 1
    for size in range(1, largest + 1):
        yield from subsets(items, size)
