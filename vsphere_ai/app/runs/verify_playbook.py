"""Verify: whether an estate still is as a playbook says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.events.results import exit_code_of
from vsphere_ai.app.runs.plan_playbook import make_plan
from vsphere_ai.planning.planner import Plan, PlanItem
from vsphere_ai.planning.printed_plan import DriftDocument


@dataclass(frozen=True)
class VerifyRequest:
    """Which playbook to compare with which estate."""

    playbook: Path
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class VerifyResult:
    """The plan that would bring the estate back; empty when it is in the desired state."""

    plan: Plan

    @property
    def drifted(self) -> tuple[PlanItem, ...]:
        """The settings that are not in the desired state."""
        return tuple(self.plan.changed())

    @property
    def as_wanted(self) -> bool:
        """Whether every setting could be read and is in the desired state."""
        return not self.drifted and not self.plan.problems

    @property
    def exit_code(self) -> int:
        """0 in the desired state, 2 on differences, 1 when that cannot be said (4 not accepted, 5 out of reach)."""
        code = exit_code_of(self.plan.problems) if self.plan.problems else 0
        return 2 if self.drifted and code in (0, 1) else code

    def document(self) -> DriftDocument:
        """Return how the estate differs as it is printed."""
        return DriftDocument.of(self.plan)


def verify(request: VerifyRequest, emit: Emit = ignore) -> VerifyResult:
    """Compare an estate with a playbook. Changes nothing."""
    playbook = load(request.playbook, request.estate, emit)
    with open_session(request.estate, playbook, emit) as session:
        return VerifyResult(make_plan(session, playbook)[0])
