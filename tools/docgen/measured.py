"""Results of benchmarks: rows of figures, what they are compared with, and their ratios."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from math import log
from pathlib import Path
from typing import Any

UNITS = {"wall": "wall s", "cpu": "CPU s", "mib": "MiB", "requests": "requests", "mb": "MB read"}
"""Figures with a column of their own."""
COLUMNS = ("who", *UNITS.values(), "of the limit", "of ours", "note")
Figures = Mapping[str, float]
"""Figures of one run: ``wall`` and ``cpu`` in seconds, ``mib`` the peak of memory, ``requests``, and others by name."""


@dataclass(frozen=True)
class Size:
    """How large an estate is."""

    name: str
    hosts: int
    vms: int

    def __str__(self) -> str:
        return f"{self.name}: {self.hosts:,} hosts, {self.vms:,} VMs"


@dataclass(frozen=True)
class Row:
    """Figures of one subject in one case: the median of each, and the least one.

    `role` is ``limit`` for what cannot be undercut (the bytes alone, the tasks alone), ``ours``, or ``peer``; a case is
    compared by the figure `by`.
    """

    subject: str
    case: str
    who: str
    role: str
    size: Size
    median: Figures
    least: Figures
    runs: int
    by: str = "wall"
    note: str = ""

    @property
    def others(self) -> str:
        """Figures that have no column, as text."""
        found = ((key, value) for key, value in self.median.items() if key not in (*UNITS, "read"))
        return ", ".join(f"{key} {number(value)}" for key, value in found)


@dataclass(frozen=True)
class Results:
    """Rows that were measured on one machine on one day."""

    machine: Mapping[str, str]
    date: str
    load: float
    """Share of the machine's cores that other programs took before it: what ran besides, and disturbs."""
    rows: Sequence[Row] = field(default_factory=tuple)

    def to_json(self) -> str:
        """Return the results as they are kept in a file."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read(file: Path) -> Results:
    """Read what `to_json` has written into a file."""
    raw: dict[str, Any] = json.loads(file.read_text("utf-8"))
    rows = tuple(Row(**{**row, "size": Size(**row["size"])}) for row in raw["rows"])
    return Results(raw["machine"], raw["date"], raw["load"], rows)


def cases(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows by what they are compared in: subject, case and size."""
    return [list(members) for _, members in groupby(rows, key=lambda row: (row.subject, row.case, row.size))]


def ratio(row: Row, members: Iterable[Row], role: str) -> float | None:
    """Return what a row takes of the limit or of ours, by the figure of its case; None where there is no such row."""
    base = next((each.median.get(row.by) for each in members if each.role == role != row.role), None)
    return row.median[row.by] / base if base and row.by in row.median else None


def number(value: float | None) -> str:
    """Return a figure with as many digits as mean something."""
    if value is None:
        return ""
    if 0 < value < 0.01:
        return f"{value:.1g}"
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:,.{digits}f}"


def times(value: float | None) -> str:
    """Return a ratio."""
    return "" if value is None else f"{number(value)} ×"


def columns(members: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return a case as columns with their heads; those with nothing in them are left out."""
    rows: list[Sequence[str]] = [COLUMNS]
    for row in members:
        figures = [row.median.get(key) for key in UNITS]
        shown = [f"{value:,.0f}" if value and unit in ("MiB", "requests") else number(value)
                 for value, unit in zip(figures, UNITS.values(), strict=True)]  # fmt: skip
        rows.append([row.who, *shown, *(times(ratio(row, members, role)) for role in ("limit", "ours")), row.note])
    return [column for column in zip(*rows, strict=True) if any(column[1:])]


def table(rows: Iterable[Row]) -> str:
    """Return rows as text, a table for each case."""
    lines: list[str] = []
    for members in cases(rows):
        lines += ["", f"{members[0].subject}: {members[0].case} ({members[0].size})"]
        found = columns(members)
        widths = [max(len(cell) for cell in column) for column in found]
        for left, *rest in zip(*found, strict=True):
            right = "  ".join(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
            lines.append(f"  {left:{widths[0]}}  {right}".rstrip())
        lines += [f"    {row.who}: {row.others}" for row in members if row.others]
    return "\n".join(lines[1:])


@dataclass(frozen=True)
class Series:
    """One figure of one subject at several sizes: `points` are VMs and value, the smallest size first."""

    who: str
    points: Sequence[tuple[int, float]]

    @property
    def exponent(self) -> float:
        """Growth between the two largest sizes: 1 is linear, 2 quadratic."""
        (x1, y1), (x2, y2) = self.points[-2:]
        return log(y2 / y1) / log(x2 / x1)


def series(rows: Iterable[Row], subject: str, case: str, figure: str = "cpu") -> list[Series]:
    """Return the growth of a figure in a case: what was measured at two sizes or more."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if (row.subject, row.case) == (subject, case) and row.median.get(figure):
            found.setdefault(row.who, []).append((row.size.vms, row.median[figure]))
    return [Series(who, sorted(points)) for who, points in found.items() if len(points) > 1]
