"""Fleet as text: its plan with totals and dangers by vCenter, and how its shards stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.text import columns, counted
from vsphere_ai.planning.document import SavedPlan
from vsphere_ai.report.findings_text import problem_lines
from vsphere_ai.report.folding import Line, names, wrapped
from vsphere_ai.report.plans.plan_impact import danger_lines, rounded
from vsphere_ai.report.plans.world_text import world_words


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


class ShownShardOutcome(Protocol):
    """How the shard of one vCenter stands."""

    @property
    def vcenter(self) -> str:
        """Its name in the inventory."""

    @property
    def run(self) -> str:
        """Its run."""

    @property
    def state(self) -> str:
        """Its state."""

    @property
    def changed(self) -> int:
        """Number of targets that were changed."""

    @property
    def verified(self) -> int:
        """Number of targets that were read back."""

    @property
    def failed(self) -> int:
        """Number of steps that failed."""

    @property
    def unknown(self) -> int:
        """Number of steps with an unknown outcome."""

    @property
    def left_open(self) -> Sequence[str]:
        """What was not put back."""

    @property
    def message(self) -> str:
        """Why it ended early."""


def fleet_plan_text(shards: Sequence[PlannedVCenter], totals: ShownTotals, budget: int | None, width: int = 100) -> str:
    """Return the plan of a fleet for a terminal of that many columns; dangers come last."""
    return "\n".join(wrapped(_plan_lines(shards, totals, budget), width))


def _plan_lines(shards: Sequence[PlannedVCenter], totals: ShownTotals, budget: int | None) -> Iterator[Line]:
    yield f"Fleet plan, {counted(len(shards), 'vCenter')}", 4
    yield f"IMPACT   {', '.join(_impact(totals))}", 9
    about = "by the budget" if totals.budget_bound else "the slowest vCenter"
    if totals.seconds:
        yield f"         takes about {rounded(totals.seconds)} ({about})", 9
    if budget:
        yield f"         at most {counted(budget, 'host')} of the fleet out of service at the same time", 9
    for shard in shards:
        plan = shard.plan
        yield "", 0
        place = world_words(plan.world) if plan.world else f"vCenter {quoted(shard.vcenter)}"
        yield f"{place}  plan {plan.digest[:8]}  {counted(len(plan.steps), 'step')}", 4
        targets = sorted({i.target for i in plan.items if i.changes})
        yield f"  changes {names(targets)}" if targets else "  nothing to do: all settings in the desired state", 4
        yield from problem_lines((p.finding for p in plan.problems), full=False)
    dangers = [(s.vcenter, line) for s in shards if not s.plan.problems for line in _dangers(s.plan)]
    if dangers:
        yield "", 0
        yield "DISRUPTED", 4
        yield from ((f"  {quoted(name)}: {text}", 4) for name, text in dangers)
    yield "", 0
    refused = [s.vcenter for s in shards if s.plan.problems]
    if refused:
        yield f"Refused by {', '.join(map(quoted, refused))}: nothing of the fleet is carried out", 0
    else:
        yield f"{counted(totals.steps, 'step')} in {counted(len(shards), 'vCenter')}", 0


def _dangers(plan: SavedPlan) -> Iterator[str]:
    yield from (text.strip() for text, _ in danger_lines(plan.impact))
    going = plan.impact.destroyed
    if going:
        yield f"{counted(len(going), 'VM')} destroyed, with all disks: {names(going)}"


def _impact(totals: ShownTotals) -> Iterator[str]:
    found = (
        (totals.reboots, "host", "reboots", "reboot"),
        (totals.power_cycles, "VM", "is power-cycled", "are power-cycled"),
        (totals.destroyed, "VM", "is destroyed", "are destroyed"),
    )
    said = [f"{counted(n, noun)} {one if n == 1 else many}" for n, noun, one, many in found if n]
    yield from said or ["no host reboots, no VM is switched off"]


def outcomes_text(outcomes: Sequence[ShownShardOutcome], width: int = 100) -> str:
    """Return how the shards of a fleet run stand, as a table, and what is left of each."""
    head = ("vCenter", "run", "state", "changed", "verified", "failed", "unknown", "left open")
    rows = [head, *map(_row, outcomes)]
    widths = [max(columns(row[at]) for row in rows) for at in range(len(head))]
    lines: list[Line] = []
    for row in rows:
        padded = (cell + " " * (size - columns(cell)) for cell, size in zip(row, widths, strict=True))
        lines.append(("  ".join(padded).rstrip(), 0))
    for each in outcomes:
        lines += [(f"  {quoted(each.vcenter)}: {text}", 4) for text in (each.message, *each.left_open) if text]
    return "\n".join(wrapped(lines, width))


def _row(outcome: ShownShardOutcome) -> tuple[str, ...]:
    numbers = (outcome.changed, outcome.verified, outcome.failed, outcome.unknown, len(outcome.left_open))
    return quoted(outcome.vcenter), outcome.run, outcome.state, *map(str, numbers)
