"""Events and outcomes of a run and of its steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from vsphere_ai.errors import VsphereAiError, most_serious
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, Destroy
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.scheduling.step_order import PlannedStep

State = Literal["done", "failed", "unknown", "skipped"]


@dataclass(frozen=True)
class RunEvent:
    """An event of a run: a step started, made progress or ended; or nothing did for a while."""

    what: Literal["start", "progress", "done", "failed", "unknown", "skipped", "waiting", "stopping", "reverted"]
    planned: PlannedStep | None = None
    text: str = ""
    seconds: float = 0.0
    rule: str = ""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one step. `error` is what stopped it; `reason` is why it was skipped, `rule` the id of that.

    The reason of a health gate that is done names the VMs that were not checked. A step is `external` when it was
    skipped because someone else had made the change before: nothing is wrong.
    """

    planned: PlannedStep
    state: State
    seconds: float = 0.0
    error: VsphereAiError | None = None
    reason: str = ""
    external: bool = False
    rule: str = ""

    @property
    def well(self) -> bool:
        """Whether the steps that wait for it may start."""
        return self.state == "done" or self.external


@dataclass(frozen=True)
class RunOutcome:
    """Outcome of a run. `open` names what could not be reverted: maintenance, SSH, VMs that are off.

    `put_back` says what was reverted at the end, because the steps that do it were not reached; `stopped` why that was.
    """

    plan: Plan
    outcomes: tuple[Outcome, ...]
    seconds: float
    signal: int = 0
    open: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()
    stopped: str = "stopped by the operator"

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped."""
        return self.signal != 0

    @property
    def exit_code(self) -> int:
        """0 when everything was done and read back, else the most serious code of what was not."""
        return most_serious(o.error.exit_code for o in self.outcomes if o.error is not None)

    def count(self, state: State) -> int:
        """Return how many steps ended in a state."""
        return sum(o.state == state for o in self.outcomes)

    @property
    def unstarted(self) -> int:
        """How many steps were not started because something failed, or the operator stopped the run."""
        return sum(o.state == "skipped" and not o.external for o in self.outcomes)

    @property
    def external_changes(self) -> tuple[str, ...]:
        """What someone else had switched before the run came to it, and what is not changed, in sentences."""
        return tuple(dict.fromkeys(o.reason for o in self.outcomes if o.external))

    def verified(self) -> tuple[Target, ...]:
        """Return the targets that were verified."""
        done = (o.planned.step for o in self.outcomes if o.state == "done")
        return tuple(sorted(step.target for step in done if isinstance(step, AsPlanned)))

    @property
    def destroyed(self) -> int:
        """How many VMs were destroyed, and seen to be gone."""
        return sum(o.state == "done" and isinstance(o.planned.step, Destroy) for o in self.outcomes)

    @property
    def kept_disks(self) -> tuple[str, ...]:
        """The files of the disks that were detached from VMs that were destroyed."""
        gone = (o.planned.step for o in self.outcomes if o.state == "done")
        return tuple(sorted({disk for step in gone if isinstance(step, Destroy) for disk in step.detached}))


def failures(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return the outcomes an operator has to look at, in plan order."""
    return tuple(o for o in outcomes if o.state in ("failed", "unknown"))
