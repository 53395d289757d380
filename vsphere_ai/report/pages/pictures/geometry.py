"""Geometry of the pictures of a page: paths and labels of GPUs and timelines, as filters of the templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from vsphere_ai.model.text import duration
from vsphere_ai.report.pages.values import Edge, GpuRow, PathNode, Paths, Timeline

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


def frames(rows: Sequence[GpuRow], now: bool = False) -> str:
    """Return the path of the outlines of GPUs: before and after, or as they are now."""
    wide = SLICES * _SLICE
    tops = (n * GPU.high + GPU.top + 2 for n in range(len(rows)))
    return "".join(f"M{left} {top}h{wide}v28h-{wide}z" for top in tops for left in _lefts(now))


def slots(rows: Sequence[GpuRow], now: bool = False) -> str:
    """Return the path of the lines between slices."""
    tops = (n * GPU.high + GPU.top + 2 for n in range(len(rows)))
    at = [left + n * _SLICE for left in _lefts(now) for n in range(1, SLICES)]
    return "".join(f"M{x} {top}v28" for top in tops for x in at)


def _lefts(now: bool) -> tuple[int, ...]:
    return (GPU.before,) if now else (GPU.before, GPU.after)


def slices(found: Iterable[tuple[int, int, str]], left: int, row: int) -> str:
    """Return the path of instances: a rectangle each, with a gap between them."""
    top = row * GPU.high + GPU.top + 4
    boxes = ((left + first * _SLICE + 2, width * _SLICE - 4) for first, width, _ in found)
    return "".join(f"M{x} {top}h{wide}v24h-{wide}z" for x, wide in boxes)


def labels(row: GpuRow, now: bool = False) -> Iterator[tuple[float, str, str]]:
    """Yield where the name of each instance stands, and of a GPU without instances its state."""
    for left, said, found, kind in (
        (GPU.before, row.before, row.slices[0], "on-before"),
        (GPU.before if now else GPU.after, row.after, row.slices[1], "on-after"),
    ):
        if not found and said and not now:
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
    return [(round(TIME.label + TIME.wide * n * step / line.seconds, 1), _round(n * step)) for n in range(count + 1)]


def _round(seconds: int) -> str:
    """Return a round time: 0, 30s, 5m, 1h30m."""
    said = duration(seconds)
    return said.removesuffix("00s") if seconds % 60 == 0 and "m" in said else said


PATH = SimpleNamespace(step=192, box=150, wide=5 * 192 + 150, high=80, tall=54, top=44, most=19)
"""Pixels of a graph of paths: from column to column, a part's width, all, a row, a part's height; and characters."""


def path_height(paths: Paths) -> int:
    """Return the height of a graph of paths."""
    last = max(_top(node) for node in paths.nodes)
    return int(last + PATH.tall + 8)


def path_nodes(paths: Paths) -> Iterator[tuple[float, float, PathNode]]:
    """Yield parts with the place of their upper left corner."""
    yield from ((node.column * PATH.step, _top(node), node) for node in paths.nodes)


def path_edges(paths: Paths) -> Iterator[tuple[float, float, float, float, Edge]]:
    """Yield where lines begin and end; what is broken is drawn last, on top."""
    for edge in sorted(paths.edges, key=lambda e: e.status == "fail"):
        begin, end = paths.nodes[edge.begin], paths.nodes[edge.end]
        left = begin.column * PATH.step + PATH.box
        yield left, _top(begin) + PATH.tall / 2, end.column * PATH.step, _top(end) + PATH.tall / 2, edge


def path_labels(paths: Paths) -> Iterator[tuple[float, float, str, str]]:
    """Yield what is broken or not known above the part that the line leads to."""
    for edge in {edge.end: edge for edge in paths.edges if edge.label}.values():
        node = paths.nodes[edge.end]
        words = f"{'✗' if edge.status == 'fail' else '?'} {edge.label}"
        yield node.column * PATH.step, _top(node) - 5, words if len(words) <= 28 else f"{words[:27]}…", edge.status


def _top(node: PathNode) -> float:
    return float(node.row * PATH.high + PATH.top)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "frames": frames,
    "slots": slots,
    "slices": slices,
    "labels": labels,
    "spans": spans,
    "legend": legend,
    "ticks": ticks,
    "path_height": path_height,
    "path_nodes": path_nodes,
    "path_edges": path_edges,
    "path_labels": path_labels,
}
