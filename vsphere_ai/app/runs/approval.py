"""Approval: a plan is reported, and confirmed by the caller, before anything of it is carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vsphere_ai.app.events import Emit, PlanDeclined, PlanMade
from vsphere_ai.app.events.results import Proposal
from vsphere_ai.errors import Conflict, Denied, Refused, Unreachable, UsageError
from vsphere_ai.model.text import counted


@dataclass(frozen=True)
class ConfirmedCounts:
    """Numbers of VMs that a plan destroys and of hosts that it reboots, with which it is confirmed; None: not given."""

    destroy: int | None = None
    reboot: int | None = None


Confirm = Callable[[Proposal], bool]
NONE = ConfirmedCounts()


def no_confirmation(proposal: Proposal) -> bool:
    """Raise `UsageError`: there is no one to ask."""
    raise UsageError("no one confirms the plan", "give yes, or a function that confirms", rule="usage.no-terminal")


def approve(proposal: Proposal, confirm: Confirm, emit: Emit, numbers: ConfirmedCounts = NONE) -> bool:
    """Report a plan and have it confirmed; False when there is nothing to do or it was declined.

    A plan that destroys VMs is confirmed by their number: in `numbers`, or the answer to the question. `Refused`,
    `Denied` or `Unreachable` when the plan has problems; `UsageError` without the number, `Conflict` with another one.
    """
    emit(PlanMade(proposal))
    if proposal.plan.problems:
        raise {4: Denied, 5: Unreachable}.get(proposal.exit_code, Refused)("nothing was changed")
    if not proposal.plan.steps:
        return False
    _require_number(proposal, numbers.destroy)
    _require_reboots(proposal, numbers.reboot)
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


def _require_reboots(proposal: Proposal, reboot: int | None) -> None:
    hosts = len(proposal.plan.impact.reboots)
    if reboot is not None and reboot != hosts:
        text = f"the plan reboots {counted(hosts, 'host')}, and --reboot is for {reboot}; nothing was changed"
        raise Conflict(
            text, f"look at the hosts that are named; then give --reboot {hosts}", rule="reboot.other-number"
        )
