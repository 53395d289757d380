"""What happens while a plan is carried out, and how its steps and the whole of it end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from vsphere_ai.errors import VsphereAiError, most_serious
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Wait
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.schedule import PlannedStep

State = Literal["done", "failed", "unknown", "skipped"]


@dataclass(frozen=True)
class Event:
    """Something that happened while applying: a step started, made progress or ended; or nothing did for a while."""

    what: Literal["start", "progress", "done", "failed", "unknown", "skipped", "waiting", "stopping", "settled"]
    planned: PlannedStep | None = None
    text: str = ""
    seconds: float = 0.0
    rule: str = ""


@dataclass(frozen=True)
class Outcome:
    """How one step ended. `error` is what stopped it; a skipped step names the step it waited for. `rule` is an id.

    A health gate that is done names the VMs it did not ask for. One that is `left` was skipped because somebody else
    had switched before us what it is about: nothing is wrong.
    """

    planned: PlannedStep
    state: State
    seconds: float = 0.0
    error: VsphereAiError | None = None
    reason: str = ""
    left: bool = False
    rule: str = ""

    @property
    def well(self) -> bool:
        """Whether the steps that wait for it may start."""
        return self.state == "done" or self.left


@dataclass(frozen=True)
class Run:
    """How a plan ended. `open` names what could not be put back: maintenance, SSH, VMs that are off.

    `put_back` says what of that was put back at the end, because the steps that do it were not reached.
    """

    plan: Plan
    outcomes: tuple[Outcome, ...]
    seconds: float
    signal: int = 0
    open: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()

    @property
    def interrupted(self) -> bool:
        """Whether an operator stopped it."""
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
        """How many steps were not started though they were to be: something failed, or an operator stopped the run."""
        return sum(o.state == "skipped" and not o.left for o in self.outcomes)

    @property
    def left(self) -> tuple[str, ...]:
        """What somebody else had switched before the run came to it, and what stays so, in sentences."""
        return tuple(dict.fromkeys(o.reason for o in self.outcomes if o.left))

    def verified(self) -> tuple[Target, ...]:
        """Return the targets that were read back and found as planned."""
        return tuple(sorted(o.planned.step.target for o in self.outcomes if o.state == "done" and reads_back(o)))


def reads_back(outcome: Outcome) -> bool:
    """Tell whether a step read its target back."""
    return isinstance(outcome.planned.step, Wait) and outcome.planned.step.until == "as-planned"


def failures(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return the outcomes an operator has to look at, in plan order."""
    return tuple(o for o in outcomes if o.state in ("failed", "unknown"))
