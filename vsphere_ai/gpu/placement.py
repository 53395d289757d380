"""MIG placement for the planner: places for a layout, the transition to it, or the reasons why there is none. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vsphere_ai.gpu import search
from vsphere_ai.gpu.advice import Layout, nearest, pool, reasons
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.layout import Item
from vsphere_ai.gpu.search import Instance, Transition

__all__ = ["Impossible", "Instance", "Layout", "Transition", "nearest", "place", "pool", "transition"]


@dataclass(frozen=True)
class Impossible:
    """A layout that cannot be reached: every reason with its numbers, and the closest layouts that can."""

    reasons: tuple[str, ...]
    nearest: tuple[Layout, ...]


def place(
    board: Board, wanted: Iterable[Item], kept: Sequence[Instance] = (), *, driver_major: int | None = None
) -> tuple[Instance, ...] | None:
    """Return places for all of `wanted` beside the `kept` instances, largest first; None when there are none.

    Of all ways the one is taken that leaves most room for further large instances. `driver_major` is the driver
    branch, e.g. 535; None assumes a current one.
    """
    known, unknown = search.resolve(board, wanted)
    stay = search.spots(board, kept)
    if unknown or not search.allowed(board, [w.profile for w in known] + [s.profile for s in stay], driver_major):
        return None
    found = search.best_arrangement(board, known, stay)
    return None if found is None else search.instances(found)


def transition(
    board: Board, present: Sequence[Instance], wanted: Iterable[Item], *, driver_major: int | None = None
) -> Transition | Impossible:
    """Return how to get from the present instances to exactly the wanted ones, or why that is impossible.

    Destroys as few instances as there is any way to, and never one in use.
    """
    items = tuple(wanted)
    known, unknown = search.resolve(board, items)
    if not unknown:
        found = search.move(board, present, known, driver_major=driver_major)
        if found is not None:
            return found
    busy = tuple(i for i in present if i.in_use)
    return Impossible(
        reasons(board, items, busy, driver_major=driver_major),
        nearest(board, items, busy, driver_major=driver_major),
    )
