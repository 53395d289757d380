"""MIG placement: the transition of a GPU to a wanted layout, or the reasons why there is none. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.mig import search
from vsphere_ai.gpu.mig.advice import Layout, nearest, reasons
from vsphere_ai.gpu.mig.layout import LayoutItem
from vsphere_ai.gpu.mig.moves import MigMove
from vsphere_ai.gpu.mig.search import Instance, Transition


@dataclass(frozen=True)
class Impossible:
    """A layout that cannot be reached: every reason with its numbers, and the closest layouts that can."""

    reasons: tuple[str, ...]
    nearest: tuple[Layout, ...]


@dataclass(frozen=True)
class LayoutCase:
    """One GPU with its present instances, the wanted items and the answer; `commands` lead there, in order.

    `notes` are sentences for the operator, such as that MIG is off on the GPU.
    """

    board: Board
    present: tuple[Instance, ...]
    items: tuple[LayoutItem, ...]
    answer: Transition | Impossible
    commands: tuple[MigMove, ...] = ()
    title: str = ""
    notes: tuple[str, ...] = ()


def transition(
    board: Board, present: Sequence[Instance], wanted: Iterable[LayoutItem], *, driver_major: int | None = None
) -> Transition | Impossible:
    """Return how to get from the present instances to exactly the wanted ones, or why that is impossible.

    Destroys as few instances as there is any way to, and never one in use. Of all ways the one is taken that leaves
    most room for further large instances. `driver_major` is the driver branch, e.g. 535; None assumes a current one.
    """
    items = tuple(wanted)
    known, unknown = search.resolve(board, items)
    found = None if unknown else search.move(board, present, known, driver_major=driver_major)
    if found is not None:
        return found
    busy = tuple(i for i in present if i.in_use)
    return Impossible(
        reasons(board, items, busy, driver_major=driver_major), nearest(board, items, busy, driver_major=driver_major)
    )
