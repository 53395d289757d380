"""Patterns of parts of an answer: what stands around the few texts in which parts of one form differ."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.connect.wire.part_shapes import Shape
from vsphere_ai.model.plain import Plain


class Pattern:
    """Parts of one form, the same but for some of their texts."""

    __slots__ = ("_between", "_first", "_shape")

    def __init__(self, pieces: Sequence[str], shape: Shape, around: tuple[int, int]) -> None:
        """Take what stands around the texts that differ; `around`: how much of both ends is cut off."""
        self._first, *between = pieces
        self._first = self._first[around[0] :]
        between[-1] = between[-1][: len(between[-1]) - around[1]]
        self._between = between
        self._shape = shape

    def value(self, part: str) -> Plain:
        """Return the value of a part; None where it is none of these."""
        first = self._first
        if not part.startswith(first):
            return None
        at = len(first)
        texts: list[str] = []
        for piece in self._between:
            end = part.find("<", at)
            if end < 0:
                end = len(part)
            if not part.startswith(piece, end):
                return None
            texts.append(part[at:end])
            at = end + len(piece)
        written = "".join(texts)
        if at != len(part) or "" in texts or not written.isprintable() or "&" in written or ">" in written:
            return None
        return self._shape.made(texts)
