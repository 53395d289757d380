"""Plain aligned columns for what the lab's commands list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as aligned columns under their heads."""
    from vsphere_ai.model.text import safe

    lines = [tuple(safe(str(cell)) for cell in row) for row in rows]
    widths = [max(len(line[i]) for line in [tuple(heads), *lines]) for i in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [tuple(h.upper() for h in heads), *lines]
    )
