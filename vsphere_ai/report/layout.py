"""Layout of text: values grouped by what a line says of all of them, and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from vsphere_ai.model.text import safe

K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return values by key, keys and values in the order in which they come."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as aligned columns under their heads."""
    lines = [tuple(safe(str(cell)) for cell in row) for row in rows]
    widths = [max(len(line[i]) for line in [tuple(heads), *lines]) for i in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [tuple(h.upper() for h in heads), *lines]
    )
