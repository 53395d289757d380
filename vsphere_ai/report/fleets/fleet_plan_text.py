"""Fleet plan as text: totals, the plan of each vCenter, equal ones once, and all that is disrupted by vCenter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from vsphere_ai.model.finding import Subject
from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.text import counted
from vsphere_ai.planning.document import SavedPlan
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.read_plan import plan_of
from vsphere_ai.report.findings_text import problem_lines
from vsphere_ai.report.folding import Alike, Line, Named, alike, names, wrapped
from vsphere_ai.report.plans.plan_impact import danger_lines, rounded
from vsphere_ai.report.plans.plan_text import BLANK, Beside, body_lines, changes_text, destroyed_lines, section
from vsphere_ai.report.plans.world_text import world_place

_WORD = re.compile(r"[^\s,;()]+")
_NUMBER = re.compile(r"\[[0-9]+:[0-9]+\]|[0-9]+")
_NAMES = re.compile(r"NAME(, NAME)+")


class PlannedVCenter(Protocol):
    """The plan of one vCenter."""

    @property
    def vcenter(self) -> str:
        """Its name in the inventory."""

    @property
    def plan(self) -> SavedPlan:
        """Its plan."""


class ShownTotals(Protocol):
    """What all shards do together."""

    @property
    def steps(self) -> int:
        """Number of steps."""

    @property
    def reboots(self) -> int:
        """Number of hosts that reboot."""

    @property
    def power_cycles(self) -> int:
        """Number of VMs that are power-cycled."""

    @property
    def destroyed(self) -> int:
        """Number of VMs that are destroyed."""

    @property
    def seconds(self) -> float:
        """Expected time."""

    @property
    def budget_bound(self) -> bool:
        """Whether the budget makes it as long."""


def fleet_plan_text(
    shards: Sequence[PlannedVCenter], totals: ShownTotals, budget: int | None, width: int = 100, *, full: bool = False
) -> str:
    """Return the plan of a fleet for a terminal of that many columns; dangers come last.

    Of many vCenters with plans that differ in names and numbers, one is shown; with `full` each, and all of it.
    """
    return "\n".join(wrapped(_lines(shards, totals, budget, full=full), width))


def fleet_result_text(shards: Sequence[PlannedVCenter], width: int = 100) -> str:
    """Return the problems of a fleet plan by vCenter, and its last line."""
    plans = {s.vcenter: plan_of(s.plan) for s in shards}
    lines: list[Line] = []
    for name, plan in plans.items():
        lines += section(f"PROBLEMS IN {quoted(name)}", problem_lines(plan.problems, full=False))
    return "\n".join(wrapped([*lines, (_summary(plans), 0)], width))


def _lines(shards: Sequence[PlannedVCenter], totals: ShownTotals, budget: int | None, *, full: bool) -> Iterator[Line]:
    plans = {s.vcenter: plan_of(s.plan) for s in shards}
    yield f"Fleet plan, {counted(len(shards), 'vCenter')}  {next(iter(plans.values())).playbook}", 4
    yield BLANK
    yield f"IMPACT   {', '.join(_impact(totals))}", 9
    if totals.seconds:
        about = "by the budget" if totals.budget_bound else "the slowest vCenter"
        yield f"         takes about {rounded(totals.seconds)} ({about})", 9
    if budget:
        yield f"         at most {counted(budget, 'host')} of the fleet out of service at the same time", 9
    yield BLANK
    yield from section("VCENTERS", _rows(shards, full=full))
    yield from _plan_lines(shards, plans, full=full)
    if not any(plan.problems for plan in plans.values()):
        yield from section("DISRUPTED", _dangers(plans))
        yield from section("DESTROYED, WITH ALL DATA", _destroyed(plans, full=full))
    yield _summary(plans), 0  # one line, for grep


def _summary(plans: Mapping[str, Plan]) -> str:
    refused = [name for name, plan in plans.items() if plan.problems]
    if refused:
        return f"Refused by {', '.join(map(quoted, refused))}: nothing of the fleet is carried out"
    steps = sum(len(plan.steps) for plan in plans.values())
    return f"{changes_text(plans.values())} · {counted(steps, 'step')} in {counted(len(plans), 'vCenter')}"


def _rows(shards: Sequence[PlannedVCenter], *, full: bool) -> Iterator[Line]:
    """Yield a row per vCenter: where it is, its plan, and what it is about."""

    def row(shard: PlannedVCenter) -> str:
        plan = shard.plan
        place = f"{world_place(plan.world)}, " if plan.world else f"{quoted(shard.vcenter)}, "
        work = counted(len(plan.steps), "step") if plan.steps else "nothing to do"
        if plan.problems:
            work = f"REFUSED, {counted(len(plan.problems), 'problem')}"
        return f"{place}plan {plan.digest[:8]}: {work}"

    rows = ((row(s), Subject("vCenter", s.vcenter)) for s in shards)
    for each in alike(rows, lambda text, on: re.sub("plan [0-9a-f]+", "", _shape(text, on, ())), full=full):
        count = f"{counted(len(each.targets), 'vCenter')} such as " if each.sample else ""
        yield f"  {count}{each.value}", 4


def _plan_lines(shards: Sequence[PlannedVCenter], plans: Mapping[str, Plan], *, full: bool) -> Iterator[Line]:
    """Yield the plan of each vCenter as one vCenter's is shown, those with problems first; equal ones once."""
    lines: dict[str, tuple[Line, ...]] = {}
    for shard in sorted(shards, key=lambda s: not s.plan.problems):
        plan = shard.plan
        beside = Beside(full=full, estimate=plan.expected, variables=plan.variables)
        lines[shard.vcenter] = tuple(body_lines(plans[shard.vcenter], beside))
    known = {name: tuple({i.target.name for i in plan.items}) for name, plan in plans.items()}

    def kind(body: tuple[Line, ...], on: Named) -> tuple[str, ...]:
        return tuple(_shape(text, on, known[on.name]) for text, _ in body)

    for each in alike(((body, Subject("vCenter", name)) for name, body in lines.items()), kind, full=full):
        yield _heading(each), 2
        yield BLANK
        yield from each.value
        if each.value[-1] != BLANK:
            yield BLANK


def _heading(each: Alike[tuple[Line, ...]]) -> str:
    heading = f"IN {names(each.targets)}"
    many = counted(len(each.targets), "vCenter")
    if each.sample:
        return f"{heading}: {many} alike but for names and numbers; the plan of {quoted(each.sample.name)}:"
    return heading if len(each.targets) == 1 else f"{heading}: {many}, each with this plan:"


def _shape(text: str, on: Named, known: Sequence[str]) -> str:
    """Return a line without names of its vCenter and its targets, however many of them, and without numbers."""
    shapes = {_NUMBER.sub("#", name) for name in known}

    def word(found: re.Match[str]) -> str:
        bare = _NUMBER.sub("#", found[0])
        lead = bare.rstrip(":")
        return f"NAME{bare[len(lead) :]}" if lead in shapes else bare

    return _NAMES.sub("NAME", _WORD.sub(word, text)).replace(on.name, "VCENTER")


def _dangers(plans: Mapping[str, Plan]) -> Iterator[Line]:
    texts = ((tuple(t.strip() for t, _ in danger_lines(p.impact)), Subject("vCenter", n)) for n, p in plans.items())
    for each in alike(texts, lambda value, _on: value, full=False):
        yield from ((f"  {names(each.targets)}: {text}", 4) for text in each.value)


def _destroyed(plans: Mapping[str, Plan], *, full: bool) -> Iterator[Line]:
    for name, plan in plans.items():
        going = list(destroyed_lines(plan, full=full))
        if going:
            yield f"  in {quoted(name)}, {counted(len(plan.impact.destroyed), 'VM')}:", 4
            yield from going


def _impact(totals: ShownTotals) -> Iterator[str]:
    numbers = (
        (totals.reboots, "host", "reboots", "reboot"),
        (totals.power_cycles, "VM", "is power-cycled", "are power-cycled"),
        (totals.destroyed, "VM", "is destroyed", "are destroyed"),
    )
    words = [f"{counted(n, noun)} {one if n == 1 else many}" for n, noun, one, many in numbers if n]
    yield from words or ["no host reboots, no VM is switched off"]
