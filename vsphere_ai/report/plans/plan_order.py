"""Order of a plan as text: what is done on each target, and which targets are worked on alike."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Clone, Migrate
from vsphere_ai.planning.scheduling.step_order import PlannedStep, waves
from vsphere_ai.report.folding import NOUNS, Line, how_many, nameless, names
from vsphere_ai.report.layout import grouped

INDENT = 32
_VMS = re.compile(r"\b[0-9]+ VMs?\b")


@dataclass(frozen=True)
class OrderRow:
    """A line of the order: one thing that is done on one target, or on several of a unit."""

    summary: str
    steps: Sequence[PlannedStep]

    @property
    def targets(self) -> list[Target]:
        """The targets of its steps."""
        return [p.step.target for p in self.steps]


@dataclass(frozen=True)
class Unit:
    """A host with the VMs that wait for it or that it waits for; or a target by itself."""

    head: Target
    rows: Sequence[OrderRow]


def order_lines(steps: Sequence[PlannedStep], *, full: bool) -> Iterator[Line]:
    """Yield a line per step of a target, or of several at once; targets with the same steps are shown by one of them.

    Numbers are those of the steps, as in the log of the run and, behind an ``s``, in JSON.
    """
    known = frozenset(p.step.target.name for p in steps)
    for same in grouped((signature(unit, known), unit) for unit in units(steps)).values():
        if full or len(same) == 1:
            for unit in same:
                yield from _rows(unit, counts=False)
        else:
            heads = [unit.head for unit in same]
            yield f"  {names(heads)}: {how_many(heads)} alike; steps of {quoted(heads[0].name)}:", 4
            yield from _rows(same[0], counts=True)


def _rows(unit: Unit, *, counts: bool) -> Iterator[Line]:
    """Yield the rows of a unit; with `counts`, of what is done on several targets, their number."""
    for row in unit.rows:
        targets = row.targets
        who = how_many(targets) if counts and len(targets) > 1 else names(targets)
        yield f"  {_numbers(row.steps):>7}  {who:<20} {row.summary}", INDENT


def _numbers(steps: Sequence[PlannedStep]) -> str:
    """Return the numbers of steps; where they do not follow each other, the first one and that there are more."""
    numbers = sorted(number_of(p) for p in steps)
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
    return f"{numbers[0]}, …"


def number_of(planned: PlannedStep) -> int:
    """Return the number of a step: the one of its id."""
    return int(planned.id.lstrip("s"))


def number_ranges(numbers: Iterable[int]) -> str:
    """Return numbers of steps as ranges; of more than three ranges, the first two: ``1-8, 12, …``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    return ", ".join(texts if len(texts) <= 3 else [*texts[:2], "…"])


def signature(unit: Unit, known: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Return what is done on a unit's host and on its VMs; how many VMs there are, and their names, do not count."""
    said = [(row.targets[0].kind, _said(row, known)) for row in unit.rows]
    return tuple(tuple(words for kind, words in said if kind == each) for each in NOUNS)


def _said(row: OrderRow, known: frozenset[str]) -> str:
    """Return what is done, without names; a clone and a move name hosts that may be no targets."""
    step = row.steps[0].step
    if isinstance(step, Clone | Migrate):
        return type(step).__name__
    return _VMS.sub("VMs", nameless(row.summary, known))


def units(steps: Sequence[PlannedStep]) -> Iterator[Unit]:
    """Yield units in the order of their first steps."""
    hosts = _hosts(steps)
    level = {p.id: n for n, wave in enumerate(waves(steps)) for p in wave}
    own = grouped((hosts.get(p.step.target, p.step.target), p) for p in steps)
    for head, mine in sorted(own.items(), key=lambda each: min(level[p.id] for p in each[1])):
        rows: dict[tuple[str, str, int], list[PlannedStep]] = defaultdict(list)
        times: Counter[tuple[Target, str]] = Counter()
        for planned in sorted(mine, key=lambda p: (level[p.id], p.id)):
            step = planned.step
            times[step.target, step.summary] += 1
            rows[step.target.kind, step.summary, times[step.target, step.summary]].append(planned)
        yield Unit(head, [OrderRow(summary, found) for (_, summary, _), found in rows.items()])


def _hosts(steps: Sequence[PlannedStep]) -> Mapping[Target, Target]:
    """Return for each VM the host whose window its steps are tied to: the last one that it waits for."""
    by_id = {p.id: p.step.target for p in steps}
    found: dict[Target, Target] = {}
    for planned in steps:
        target = planned.step.target
        for other in (by_id[a] for a in planned.after if a not in planned.behind):
            if (target.kind, other.kind) == ("vm", "host"):
                found[target] = other
            elif (target.kind, other.kind) == ("host", "vm"):
                found.setdefault(other, target)
    return found
