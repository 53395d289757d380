"""Tables as esxcli prints them: a header row, a row of dashes, columns two blanks apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = (), gap: int = 2) -> str:
    """Return the table, columns `gap` blanks apart, those in `right` right-aligned; no line ends in blanks."""
    between = " " * gap
    cells = [[str(value) for value in row] for row in rows]
    widths = [max([len(title), *(len(row[n]) for row in cells)]) for n, title in enumerate(titles)]

    def line(row: Sequence[str]) -> str:
        padded = (v.rjust(w) if t in right else v.ljust(w) for v, w, t in zip(row, widths, titles, strict=True))
        return between.join(padded).rstrip()

    lines = [line(titles), between.join("-" * width for width in widths), *(line(row) for row in cells)]
    return "\n".join(lines) + "\n"


def block(rows: Iterable[tuple[str, object]], *, head: str = "") -> str:
    """Return an indented list of ``Label: value`` lines under an optional heading."""
    lines = [head] if head else []
    lines += [f"   {label}: {value}" for label, value in rows]
    return "\n".join(lines) + "\n"
