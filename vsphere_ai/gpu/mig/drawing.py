"""A GPU's memory slices as a text picture, in plain ASCII and 80 columns."""

from __future__ import annotations

from collections.abc import Iterable

from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.mig.search import Instance, spots

WIDTH = 64


def draw(board: Board, instances: Iterable[Instance]) -> tuple[str, ...]:
    """Return the lines of a picture of the memory slices; free slices stay empty. No lines without MIG.

    A name too long for its slices loses the memory: ``1g.5gb+me`` becomes ``1g+me``.
    """
    if not board.memory_slices:
        return ()
    width = WIDTH // board.memory_slices
    ruler = "".join(str(n).ljust(width) for n in range(board.memory_slices)).rstrip()
    border, names = "", ""
    for size, name in _stretches(board, instances):
        inner = size * width - 1
        border += "+" + "-" * inner
        names += "|" + _label(name, inner).ljust(inner)
    return (f" {ruler}", f"{border}+", f"{names}|", f"{border}+")


def _stretches(board: Board, instances: Iterable[Instance]) -> list[tuple[int, str]]:
    """Return (size, name) without gaps, free slices one by one."""
    taken = {s.start: s.profile for s in spots(board, instances)}
    found, at = [], 0
    while at < board.memory_slices:
        profile = taken.get(at)
        size = profile.memory_slices if profile else 1
        found.append((size, profile.name if profile else ""))
        at += size
    return found


def _label(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    slices, _, rest = name.partition(".")
    extra = rest.partition("gb")[2]
    return f"{slices}{extra}"
