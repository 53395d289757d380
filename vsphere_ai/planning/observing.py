"""Observed states of every kind on every target, and the estate without the values that keep them from being read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from typing import TypeVar

from vsphere_ai.language.playbooks.play import Kinds
from vsphere_ai.model.estate.malformed import ERRORS, evaluate
from vsphere_ai.model.estate.observed import Observed
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import KindName
from vsphere_ai.resources.base import Resource

T = TypeVar("T")


def observe(estate: Estate, kinds: Kinds) -> Observed:
    """Return the observed state of every kind on every datacenter, host and VM, each observed when it is asked for."""
    kind_of = cache(estate.kind_of)  # asked for each kind of each target, again and again
    return Observed(
        tuple(kinds),
        refs=lambda kind: (target.ref for target in estate.targets(kinds[kind].target)),
        has=lambda ref, kind: kind in kinds and kind_of(ref) == kinds[kind].target,
        observe=lambda ref, kind: kinds[kind].observe(estate[ref], estate),
    )


def evaluate_with(kinds: Kinds, estate: Estate, use: Callable[[Estate], T]) -> tuple[T, Estate]:
    """Return what `use` makes of an estate, and the estate without values that are not as vSphere defines them.

    Where it raises, each target is observed by itself first: that finds most such values, in many objects quickly.
    """
    try:
        return use(estate), estate
    except ERRORS:
        return evaluate(readable(estate, kinds), use)


def readable(estate: Estate, kinds: Kinds) -> Estate:
    """Return the estate without the values that keep a kind from observing a target."""
    _, estate = evaluate(estate, lambda e: [e.targets(cls.target) for cls in kinds.values()])
    for kind in sort_kinds(kinds):
        cls = kinds[kind]
        for target in estate.targets(cls.target):
            _, estate = evaluate(estate, lambda e, cls=cls, ref=target.ref: cls.observe(e[ref], e))  # type: ignore[misc]
    return estate


def sort_kinds(kinds: Kinds) -> tuple[KindName, ...]:
    """Return the kinds so that each comes after those it looks at; by name where that leaves a choice.

    What hosts and VMs share comes before any of theirs, and what is of hosts before what is of VMs. One more kind does
    not move the others, so that what a plan shows stays in its order.
    """
    return _sorted(tuple(kinds.items()))


@cache
def _sorted(each: tuple[tuple[KindName, type[Resource]], ...]) -> tuple[KindName, ...]:
    kinds = dict(each)
    order = ("datacenter", "host", "vm")
    shared = {k: [o for o, c in kinds.items() if order.index(c.target) < order.index(kinds[k].target)] for k in kinds}
    sorter = TopologicalSorter({k: {*c.traits.after, *shared[k]} for k, c in kinds.items()})
    sorter.prepare()
    ready, found = sorted(sorter.get_ready()), []
    while ready:
        found.append(heappop(ready))
        sorter.done(found[-1])
        for name in sorter.get_ready():
            heappush(ready, name)
    return tuple(k for k in found if k in kinds)
