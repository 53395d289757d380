"""HTML of a report: one file with everything in it, which loads nothing and runs no script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.model.text import duration, safe
from vsphere_ai.report.pages.values import Bar, Report, Row, Timeline

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_ROWS = 120
"""Rows that a table has; further ones are lines of text, so that a page for 1,000 hosts opens at once."""
LABEL, WIDE, HIGH = 200, 600, 18
"""Pixels of a timeline: its labels, its bars, and the height of a row."""
SLICE, GPU_HIGH = 20, 30
"""Pixels of a slice, and the height of the row of a GPU."""
LEFT, RIGHT = 120, 310
"""Where the slices before and after begin."""


def html(report: Report) -> str:
    """Return a report as HTML. Texts are escaped; control and bidirectional characters are replaced."""
    return _environment().get_template("report.html.j2").render(report=report)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_inert,
    )
    made.globals.update(most=MOST_ROWS, label=LABEL, wide=WIDE, high=HIGH, gpu_high=GPU_HIGH, left=LEFT, right=RIGHT)
    made.filters.update(
        digest=_digest, frame=_frame, slices=_slices, spans=_spans, ticks=_ticks, states=_states, lines=_lines
    )
    return made


def _digest(style: str) -> str:
    """Return what the page's policy allows its style by: its SHA-256 in base64."""
    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


def _inert(value: object) -> object:
    """Return a value without characters that hide something; lines made here are kept."""
    return safe(value) if type(value) is str else value


def _lines(rows: Iterable[Row]) -> str:
    """Return rows as escaped lines of text."""
    from markupsafe import Markup, escape

    return Markup("\n").join(escape(" | ".join(safe(cell) for cell in row)) for row in rows)


def _slices(found: Iterable[tuple[int, int]], left: int, row: int) -> str:
    """Return the path of slices: a rectangle each, with a gap between them."""
    top = row * GPU_HIGH + 6
    return "".join(
        f"M{left + first * SLICE + 1} {top}h{width * SLICE - 2}v18h-{width * SLICE - 2}z" for first, width in found
    )


def _frame(rows: int, left: int) -> str:
    """Return the path of the outlines of GPUs: eight memory slices each."""
    return "".join(f"M{left} {row * GPU_HIGH + 4}h{8 * SLICE}v22h-{8 * SLICE}z" for row in range(rows))


def _spans(bar: Bar, status: str, line: Timeline, row: int) -> str:
    """Return the path of what ended in one way on a target; nothing is narrower than two pixels."""
    scale, top = WIDE / line.seconds, row * HIGH + 4
    found = ((LABEL + begin * scale, max(took * scale, 2)) for state, begin, took in bar.spans if state == status)
    return "".join(f"M{x:.1f} {top}h{wide:.1f}v{HIGH - 6}h-{wide:.1f}z" for x, wide in found)


def _states(bar: Bar) -> list[str]:
    return sorted({state for state, _, _ in bar.spans})


def _ticks(line: Timeline) -> list[tuple[float, str]]:
    """Return where the marks of a time axis are, and what they say."""
    return [(LABEL + WIDE * n / 4, duration(line.seconds * n / 4)) for n in range(5)]
