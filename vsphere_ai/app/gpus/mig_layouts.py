"""MIG layouts without a host: whether one fits on a board, and how to get there from what is present."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vsphere_ai.app.gpus.mig_xml import answered
from vsphere_ai.errors import UsageError
from vsphere_ai.gpu import catalog
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.mig import layout as layouts
from vsphere_ai.gpu.mig import moves, search
from vsphere_ai.gpu.mig.advice import Layout, pool
from vsphere_ai.gpu.mig.layout import LayoutItem
from vsphere_ai.gpu.mig.placement import Impossible, LayoutCase, transition
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.mig.standing import standing

EMPTY_LAYOUT = ("", "[]")


@dataclass(frozen=True)
class LayoutRequest:
    """A wanted layout, such as ``19,14,9``, on a GPU of a board; `xml` is a saved answer of ``nvidia-smi -q -x``.

    `current` are present instances such as ``3g.20gb:4``, `in_use` those of them that are used, `driver` the branch of
    the driver on the host.
    """

    layout: str
    gpu: str = ""
    current: str = ""
    in_use: Sequence[str] = ()
    driver: int | None = None
    xml: Path | None = None


@dataclass(frozen=True)
class LayoutExplained:
    """A layout on a board, and whether it can be reached; `pooled` are layouts on several GPUs that hold it."""

    case: LayoutCase
    pooled: tuple[Layout, ...]
    notes: tuple[str, ...]


def explain(request: LayoutRequest) -> LayoutExplained:
    """Check whether a layout fits on one GPU, or can be reached from what is present there."""
    board, driver, notes = _board_of(request)
    items = tuple(layouts.parse(request.layout))
    present = standing(board, request.current, request.in_use)
    answer = transition(board, present, items, driver_major=driver)
    pooled: tuple[Layout, ...] = ()
    if not present and isinstance(answer, Impossible):
        pooled = tuple(pool(board, items, driver_major=driver) or ())
    return LayoutExplained(LayoutCase(board, present, items, answer), pooled, notes)


def plan_layout(request: LayoutRequest) -> LayoutCase:
    """Return the commands that lead to a layout, in order; ``[]`` is the empty one."""
    items = items_of(request.layout)
    if not request.gpu:
        raise UsageError("no GPU was named", "give a board with --gpu, e.g. a100-40gb, or a host with --host")
    board = catalog.board(request.gpu)
    present = standing(board, request.current, request.in_use)
    answer = transition(board, present, items, driver_major=request.driver)
    commands = () if isinstance(answer, Impossible) else tuple(moves.moves_on_paper(board, answer))
    return LayoutCase(board, present, items, answer, commands)


def items_of(layout: str) -> tuple[LayoutItem, ...]:
    """Return the items of a layout; none of an empty one."""
    wanted = layout.strip()
    return () if wanted in EMPTY_LAYOUT else tuple(layouts.parse(wanted))


def full_layouts(board_key: str, driver: int | None) -> tuple[Board, list[list[Instance]]]:
    """Return a board and every layout of plain profiles that fills it."""
    board = catalog.board(board_key)
    full = search.full_layouts(board, search.plain_profiles(board), driver) if board.profiles else ()
    return board, [[spot.instance for spot in places] for places in full]


def is_impossible(case: LayoutCase) -> bool:
    """Return whether there is no way to a layout."""
    return isinstance(case.answer, Impossible)


def _board_of(request: LayoutRequest) -> tuple[Board, int | None, tuple[str, ...]]:
    """Return the board that is asked about, the driver branch, and what a file said besides."""
    if request.xml is not None:
        if request.driver:
            raise UsageError("--driver was given beside --xml, which holds the driver's version", "leave out --driver")
        found = answered(request.xml, request.gpu, placed=bool(request.current))
        return found.board, found.driver_major, found.notes
    if not request.gpu:
        raise UsageError(
            "no GPU was named", "give a board with --gpu, e.g. a100-40gb, or an answer of nvidia-smi with --xml"
        )
    return catalog.board(request.gpu), request.driver, ()
