"""Bisection of a group of VMs that is slow together: to a VM, or to the link between two parts that are each fast.

Both halves pass although the whole failed: it is the link between them. Mixed quarters are then tried until two parts
are left (NVIDIA/cluster-readiness-engine, ADR-055 and ADR-056); where none of the mixed ones is slow, it was transient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from vsphere_ai.benchmarks.slow_part.trials import Judge, Search, Trial, together

MOST_OF_A_CELL = 4
"""VMs of a part that take part in a trial of links."""


@dataclass(frozen=True)
class Cell:
    """A part that is not divided: a VM, or VMs of one host or switch. `name` is that part's."""

    name: str
    vms: tuple[str, ...]


@dataclass(frozen=True)
class SlowCell:
    """A part that is slow wherever it takes part."""

    cell: Cell


@dataclass(frozen=True)
class SlowLink:
    """Two parts that are slow only together; `share` is measured over reference."""

    one: Cell
    other: Cell
    share: float | None = None


Found = SlowCell | SlowLink


def narrow(cells: Sequence[Cell], judge: Judge, good: Sequence[str]) -> Search[tuple[Found, ...]]:
    """Bisect parts that were slow together; `good` are known fast VMs, which pad a VM that would be alone.

    Returns nothing where both halves, and every mix of them, are fast: it was transient.
    """
    if len(cells) < 2:
        return tuple(SlowCell(cell) for cell in cells)
    half = (len(cells) + 1) // 2
    halves = [tuple(cells[:half]), tuple(cells[half:])]
    asked = [_trial(part, judge, good[at : at + 1], "half") for at, part in enumerate(halves)]
    results = yield tuple(t for t in asked if t)
    slow = [p for p, t in zip(halves, asked, strict=True) if t and judge.is_slow(results.get(t))]
    if not slow:
        return (yield from _between(halves[0], halves[1], judge))
    found = yield from together([narrow(part, judge, good[at :: len(slow)]) for at, part in enumerate(slow)])
    return tuple(chain(*found))


def _trial(cells: Sequence[Cell], judge: Judge, pad: Sequence[str], why: str) -> Trial | None:
    vms = tuple(vm for cell in cells for vm in cell.vms)
    vms = vms if len(vms) > 1 else (*vms, *pad)
    return Trial(vms, runs=judge.runs, why=why) if len(vms) > 1 else None


Parts = tuple[Cell, ...]


def _between(left: Parts, right: Parts, judge: Judge) -> Search[tuple[Found, ...]]:
    """Find the slow link between two parts that are fast each."""
    while len(left) > 1 or len(right) > 1:
        lefts, rights = _split(left), _split(right)
        mixes = [(a, b, (i + j) % 2) for i, a in enumerate(lefts) for j, b in enumerate(rights)]
        for mixed in _in_rounds(mixes):
            trials = {_mix(a, b, side, judge): (a, b) for a, b, side in mixed}
            results = yield tuple(trials)
            slow = next((parts for trial, parts in trials.items() if judge.is_slow(results.get(trial))), None)
            if slow:
                break
        else:
            return ()
        left, right = slow
    # once more with other VMs of the two parts, where there are others
    again = _mix(left, right, 1, judge)
    results = yield (again,)
    value = results.get(again)
    if not judge.is_slow(value):
        return ()
    share = value / judge.reference if value is not None and judge.reference else None
    return (SlowLink(left[0], right[0], share),)


def _split(parts: Parts) -> tuple[Parts, ...]:
    half = (len(parts) + 1) // 2
    return (parts[:half], parts[half:]) if len(parts) > 1 else (parts,)


def _in_rounds(mixes: Sequence[tuple[Parts, Parts, int]]) -> list[list[tuple[Parts, Parts, int]]]:
    """Return mixes in rounds: all at once where every part has VMs for two of them."""
    if all(len(cell.vms) > 1 for a, b, _ in mixes for cell in (*a, *b)):
        return [list(mixes)]
    rounds: list[list[tuple[Parts, Parts, int]]] = []
    for mix in mixes:
        free = next((r for r in rounds if all(mix[0] is not a and mix[1] is not b for a, b, _ in r)), None)
        if free is None:
            rounds.append([mix])
        else:
            free.append(mix)
    return rounds


def _mix(left: Parts, right: Parts, side: int, judge: Judge) -> Trial:
    """Return a trial of two parts, with every second VM of each cell where it has several."""
    vms = [cell.vms[: MOST_OF_A_CELL * 2][side::2] or cell.vms for cell in (*left, *right)]
    return Trial(tuple(chain(*vms)), runs=judge.runs, why="link")
