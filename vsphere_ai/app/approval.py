"""Approval: a plan is reported, and confirmed by the caller, before anything of it is carried out."""

from __future__ import annotations

from collections.abc import Callable

from vsphere_ai.app.events import Emit, PlanDeclined, PlanMade
from vsphere_ai.app.results import Proposal
from vsphere_ai.errors import Denied, Refused, Unreachable, UsageError

Confirm = Callable[[Proposal], bool]


def no_confirmation(proposal: Proposal) -> bool:
    """Raise `UsageError`: there is no one to ask."""
    raise UsageError("no one confirms the plan", "give yes, or a function that confirms", rule="usage.no-terminal")


def approve(proposal: Proposal, confirm: Confirm, emit: Emit) -> bool:
    """Report a plan and have it confirmed; False when there is nothing to do or it was declined.

    `Refused`, `Denied` or `Unreachable` when the plan has problems.
    """
    emit(PlanMade(proposal))
    if proposal.plan.problems:
        raise {4: Denied, 5: Unreachable}.get(proposal.exit_code, Refused)("nothing was changed")
    if not proposal.plan.steps:
        return False
    if proposal.confirmed or confirm(proposal):
        return True
    emit(PlanDeclined(proposal))
    return False
