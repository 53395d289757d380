"""The order of steps: a place and a number for each, from what has to come before what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from vsphere_ai.model.facts import grouped
from vsphere_ai.model.steps import Step

Edge = tuple[Step, Step]
"""A step, and one that waits for it."""


@dataclass(frozen=True)
class PlannedStep:
    """A step with its place: it starts when all steps named in `after` have ended well.

    Those also named in `behind` end the window of another host: they need to have ended, well or not, and then the
    number of failed hosts decides.
    """

    id: str
    step: Step
    after: tuple[str, ...]
    behind: tuple[str, ...] = ()


def numbered(
    chains: Iterable[Sequence[Step]], rules: Sequence[Step], edges: Sequence[Edge], rolled: Sequence[Edge]
) -> tuple[PlannedStep, ...]:
    """Give every step an id in an order it may run in, and what it waits for.

    `chains` have steps that follow each other, `rules` steps that are in none; `rolled` are edges from the end of one
    host's window to the beginning of another's.
    """
    chains = [*chains]
    known = {id(step): step for chain in chains for step in chain}
    known |= {id(step): step for step in rules}
    after, behind = _before(chains, rules, (*edges, *rolled)), defaultdict[int, list[Step]](list)
    for earlier, later in rolled:
        behind[id(later)].append(earlier)
    order = [known[key] for key in _stable(_sorter(after), known)]
    names = {id(step): f"s{i:03d}" for i, step in enumerate(order, 1)}

    def named(steps: Sequence[Step]) -> tuple[str, ...]:
        return tuple(sorted({names[id(s)] for s in steps}))

    return tuple(PlannedStep(names[id(s)], s, named(after[id(s)]), named(behind[id(s)])) for s in order)


def can_be_ordered(chains: Iterable[Sequence[Step]], rules: Sequence[Step], edges: Iterable[Edge]) -> bool:
    """Return whether steps have an order in which each comes after those that it waits for."""
    try:
        _sorter(_before(chains, rules, edges)).prepare()
    except CycleError:
        return False
    return True


def that_can_be_added(
    chains: Iterable[Sequence[Step]], rules: Sequence[Step], edges: Iterable[Edge], groups: Sequence[Sequence[Edge]]
) -> list[int]:
    """Return the places of those groups of edges that can be added, each beside the ones before it.

    All are tried at once, and what cannot be added in halves: each group that is in the way takes some 2 log2(groups)
    looks at all steps, and none takes more where nothing is.
    """
    chains, held, kept = [*chains], [*edges], list[int]()

    def add(start: int, end: int) -> None:
        more = [edge for group in groups[start:end] for edge in group]
        if can_be_ordered(chains, rules, (*held, *more)):
            held.extend(more)
            kept.extend(range(start, end))
        elif end - start > 1:
            middle = (start + end) // 2
            add(start, middle)
            add(middle, end)

    if groups:
        add(0, len(groups))
    return kept


def _before(chains: Iterable[Sequence[Step]], rules: Iterable[Step], edges: Iterable[Edge]) -> dict[int, list[Step]]:
    """Return all steps, by identity, with those that each waits for."""
    chains = [*chains]
    after: dict[int, list[Step]] = {id(step): [] for chain in chains for step in chain}
    after |= {id(step): [] for step in rules}
    within = (pair for chain in chains for pair in pairwise(chain))
    for earlier, later in (*within, *edges):
        after[id(later)].append(earlier)
    return after


def _sorter(after: Mapping[int, Sequence[Step]]) -> TopologicalSorter[int]:
    return TopologicalSorter({key: [id(e) for e in earlier] for key, earlier in after.items()})


def _stable(sorter: TopologicalSorter[int], known: Mapping[int, Step]) -> Iterator[int]:
    """Yield keys wave by wave, each wave by target: the same inputs number the same steps, whatever their addresses."""
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=lambda k: (known[k].target, known[k].summary))
        yield from ready
        sorter.done(*ready)


def waves(steps: Sequence[PlannedStep]) -> tuple[tuple[PlannedStep, ...], ...]:
    """Group steps into waves: the steps of one wave wait only for earlier waves."""
    level: dict[str, int] = {}
    for planned in steps:
        level[planned.id] = 1 + max((level[a] for a in planned.after), default=-1)
    by_level = grouped(steps, lambda planned: level[planned.id])
    return tuple(by_level[i] for i in sorted(by_level))
