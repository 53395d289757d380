"""Layout case: one GPU with its present instances, the wanted layout, and the transition between them."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.layout import Item
from vsphere_ai.gpu.moves import Move
from vsphere_ai.gpu.placement import Impossible, Instance, Transition


@dataclass(frozen=True)
class LayoutCase:
    """Present instances, wanted items and the answer; `commands` lead there, in order.

    `notes` are sentences for the operator, such as that MIG is off on the GPU.
    """

    board: Board
    present: tuple[Instance, ...]
    items: tuple[Item, ...]
    answer: Transition | Impossible
    commands: tuple[Move, ...] = ()
    title: str = ""
    notes: tuple[str, ...] = ()
