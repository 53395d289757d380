"""What a run has come to when its last step ended: which hosts may leave maintenance mode, which VMs may run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from vsphere_ai.errors import Conflict, Denied, DidNotReboot, StepFailed, Storage, Unreachable, VsphereAiError
from vsphere_ai.execution.outcome import Outcome, reads_back
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Lifecycle, PendingKind, Step
from vsphere_ai.planning.planner import Plan

HARMLESS = (Conflict, Denied, DidNotReboot, StepFailed, Storage, Unreachable)
"""Errors of a step that did not take effect, or whose effect does no harm to VMs that run on the host."""


@dataclass(frozen=True)
class Ended:
    """The outcomes of a run's steps by id, and what it owes; `earlier` are debts of an earlier attempt."""

    plan: Plan
    outcomes: Mapping[str, Outcome]
    owed: Mapping[PendingKind, set[Target]]
    earlier: Collection[tuple[PendingKind, Target]]

    def of(self, target: Target) -> list[Outcome]:
        """Return how the steps of a target ended, in plan order."""
        return [o for p in self.plan.steps if p.step.target == target and (o := self.outcomes.get(p.id)) is not None]

    def step_of(self, host: Target, is_it: Callable[[Step], bool]) -> Step | None:
        """Return the first step of a host that is such a one."""
        return next((p.step for p in self.plan.steps if p.step.target == host and is_it(p.step)), None)

    def not_rebooted(self) -> frozenset[Target]:
        """Return the hosts that were sent an order to reboot, and were seen not to follow it."""
        return frozenset(o.planned.step.target for o in self.outcomes.values() if isinstance(o.error, DidNotReboot))

    def needs_no_window(self, host: Target, was_refused: Callable[[Step, VsphereAiError], bool]) -> bool:
        """Tell whether a host that this run put into maintenance mode may leave it, as nothing there is in doubt.

        Not once a reboot was sent, or may have been, unless the host was seen not to follow it; not where the outcome
        of a step is unknown, where reading back showed something else than was planned, or where an earlier attempt has
        worked on it.
        """
        if any((kind, host) in self.earlier for kind in ("maintenance", "gate", "reboot")):
            return False
        for outcome in self.of(host):
            step, error = outcome.planned.step, outcome.error
            if outcome.state == "unknown" or (outcome.state == "failed" and not isinstance(error, HARMLESS)):
                return False
            refused = host in self.not_rebooted() or (error is not None and was_refused(step, error))
            if is_action(step, "reboot") and outcome.state != "skipped" and not refused:
                return False
        return True

    def is_doubtful(self, vm: Target) -> bool:
        """Tell whether a VM's own change is in doubt, or its power-on was refused."""
        return any(
            o.state == "unknown" or (o.state == "failed" and (is_action(o.planned.step, "power-on") or reads_back(o)))
            for o in self.of(vm)
        )


def is_action(step: Step, action: str) -> bool:
    """Tell whether a step is such a change of its target's life."""
    return isinstance(step, Lifecycle) and step.action == action
