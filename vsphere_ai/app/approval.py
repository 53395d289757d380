"""Approval: a plan is reported, and confirmed by the caller, before anything of it is carried out."""

from __future__ import annotations

from collections.abc import Callable

from vsphere_ai.app.events import Emit, PlanDeclined, PlanMade
from vsphere_ai.app.results import Proposal
from vsphere_ai.errors import Conflict, Denied, Refused, Unreachable, UsageError
from vsphere_ai.model.text import counted

Confirm = Callable[[Proposal], bool]


def no_confirmation(proposal: Proposal) -> bool:
    """Raise `UsageError`: there is no one to ask."""
    raise UsageError("no one confirms the plan", "give yes, or a function that confirms", rule="usage.no-terminal")


def approve(proposal: Proposal, confirm: Confirm, emit: Emit, destroy: int | None = None) -> bool:
    """Report a plan and have it confirmed; False when there is nothing to do or it was declined.

    A plan that destroys VMs is confirmed by their number: `destroy`, or the answer to the question. `Refused`,
    `Denied` or `Unreachable` when the plan has problems; `UsageError` without the number, `Conflict` with another one.
    """
    emit(PlanMade(proposal))
    if proposal.plan.problems:
        raise {4: Denied, 5: Unreachable}.get(proposal.exit_code, Refused)("nothing was changed")
    if not proposal.plan.steps:
        return False
    _require_number(proposal, destroy)
    if proposal.confirmed or confirm(proposal):
        return True
    emit(PlanDeclined(proposal))
    return False


def _require_number(proposal: Proposal, destroy: int | None) -> None:
    going = len(proposal.plan.impact.destroyed)
    again = f"look at the VMs and disks that are named; then give --yes --destroy {going}"
    if destroy is not None and destroy != going:
        text = f"the plan destroys {counted(going, 'VM')}, and --destroy is for {destroy}; nothing was changed"
        raise Conflict(text, again if going else "leave --destroy out", rule="destroy.other-number")
    if proposal.destroys and proposal.confirmed and destroy is None:
        text = f"the plan destroys {counted(going, 'VM')} with all disks, which --yes alone does not confirm"
        raise UsageError(text, again, rule="usage.destroy")
