"""Geometry of the pictures of a page: paths and labels of GPUs and timelines, as filters of the templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from vsphere_ai.model.text import duration
from vsphere_ai.report.pages.values import GpuRow, Timeline

SLICES = 8
"""Memory slices of a GPU."""
_SLICE = 42
GPU = SimpleNamespace(
    high=36, top=18, before=190, after=190 + SLICES * _SLICE + 34, wide=190 + 2 * SLICES * _SLICE + 40
)
"""Pixels of a picture of GPUs: height of a row, where rows begin, where the slices before and after begin, width."""
TIME = SimpleNamespace(label=200, wide=760, high=24, top=24)
"""Pixels of a timeline: width of its labels and of its bars, height of a row, where rows begin."""
STATES: Mapping[str, str] = {
    "planned": "planned",
    "pass": "done",
    "fail": "failed",
    "warn": "skipped",
    "unknown": "end not known",
}
"""What spans of a timeline say."""
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
MOST_TICKS = 8


def frames(rows: Sequence[GpuRow]) -> str:
    """Return the path of the outlines of GPUs, before and after."""
    wide = SLICES * _SLICE
    tops = (n * GPU.high + GPU.top + 2 for n in range(len(rows)))
    return "".join(f"M{left} {top}h{wide}v28h-{wide}z" for top in tops for left in (GPU.before, GPU.after))


def slots(rows: Sequence[GpuRow]) -> str:
    """Return the path of the lines between slices."""
    tops = (n * GPU.high + GPU.top + 2 for n in range(len(rows)))
    at = [left + n * _SLICE for left in (GPU.before, GPU.after) for n in range(1, SLICES)]
    return "".join(f"M{x} {top}v28" for top in tops for x in at)


def slices(found: Iterable[tuple[int, int, str]], left: int, row: int) -> str:
    """Return the path of instances: a rectangle each, with a gap between them."""
    top = row * GPU.high + GPU.top + 4
    boxes = ((left + first * _SLICE + 2, width * _SLICE - 4) for first, width, _ in found)
    return "".join(f"M{x} {top}h{wide}v24h-{wide}z" for x, wide in boxes)


def labels(row: GpuRow) -> Iterator[tuple[float, str, str]]:
    """Yield where the name of each instance stands, and of a GPU without instances its state."""
    for left, said, found, kind in (
        (GPU.before, row.before, row.slices[0], "on-before"),
        (GPU.after, row.after, row.slices[1], "on-after"),
    ):
        if not found and said:
            yield left + SLICES * _SLICE / 2, said, "soft"
        for first, width, name in found:
            short = name if len(name) * 7.3 < width * _SLICE - 6 else name.partition(".")[0]
            yield left + (first + width / 2) * _SLICE, short, kind


def spans(line: Timeline, state: str) -> str:
    """Return the path of what ended in one way; nothing is narrower than two pixels.

    What is planned is the upper half of a row where there is something beside it.
    """
    scale, path = TIME.wide / line.seconds, []
    both = {s for bar in line.bars for s, _, _ in bar.spans} > {"planned"}
    high = (TIME.high - 8) // 2 if both else TIME.high - 8
    for row, bar in enumerate(line.bars):
        top = row * TIME.high + TIME.top + 4 + (high if both and state != "planned" else 0)
        for own, begin, took in bar.spans:
            if own == state:
                wide = max(took * scale - 0.5, 2)
                path.append(f"M{TIME.label + begin * scale:.1f} {top}h{wide:.1f}v{high}h-{wide:.1f}z")
    return "".join(path)


def legend(line: Timeline) -> list[tuple[str, str]]:
    """Return the states that a timeline has, and what they are called."""
    found = {state for bar in line.bars for state, _, _ in bar.spans}
    return [(state, words) for state, words in STATES.items() if state in found]


def ticks(line: Timeline) -> list[tuple[float, str]]:
    """Return where the marks of a time axis are, and what they say: round times, at most `MOST_TICKS` of them."""
    step = next((s for s in _STEPS if line.seconds / s <= MOST_TICKS), _STEPS[-1] * int(line.seconds / 604_800 + 1))
    count = int(line.seconds / step)
    return [(round(TIME.label + TIME.wide * n * step / line.seconds, 1), duration(n * step)) for n in range(count + 1)]


FILTERS: Mapping[str, Callable[..., Any]] = {
    "frames": frames,
    "slots": slots,
    "slices": slices,
    "labels": labels,
    "spans": spans,
    "legend": legend,
    "ticks": ticks,
}
