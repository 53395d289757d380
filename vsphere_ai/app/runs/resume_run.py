"""Resume: an unfinished run is brought to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Begun, Emit, Remark, Status, ignore
from vsphere_ai.app.events.results import Proposal, RunResult, exit_code_of
from vsphere_ai.app.runs import run_changes
from vsphere_ai.app.runs.approval import Confirm, ConfirmedCounts, approve, no_confirmation
from vsphere_ai.app.runs.continued_run import estate_of, held_again, plan_from
from vsphere_ai.app.runs.out_of_service import settle_record
from vsphere_ai.app.runs.plan_playbook import plan_again
from vsphere_ai.app.runs.recorded_playbooks import playbook_of
from vsphere_ai.app.runs.run_plan import Origin, PlannedRun, carry_out
from vsphere_ai.app.runs.surroundings import surroundings
from vsphere_ai.errors import Conflict
from vsphere_ai.planning.document import Approved, digest
from vsphere_ai.planning.resume import approved_to_go, beyond, done_again, rebooted_twice
from vsphere_ai.runs import history, journal
from vsphere_ai.runs.history import reasons_to_ask

if TYPE_CHECKING:
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.execution.host_budget import HostBudget
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.runs.journal import Journal
    from vsphere_ai.runs.locks import Hold, Mode


@dataclass(frozen=True)
class ResumeRequest:
    """Which run to bring to its end: by its name or the beginning of it, the latest unfinished one where it is empty.

    `inventory` is for when the run's own has moved. `confirm` is called when there is more to do than was approved,
    unless `yes`. `reboot_again` permits hosts to reboot once more, in a new run; `cleanup` only puts back what the run
    has switched. `destroy` is the number of VMs that the plan destroys, where more go than were approved, and
    `reboot` that of the hosts that reboot.
    """

    run: str = ""
    inventory: Path | None = None
    yes: bool = False
    confirm: Confirm = no_confirmation
    lock: Mode | None = None
    reboot_again: bool = False
    cleanup: bool = False
    destroy: int | None = None
    reboot: int | None = None
    budget: HostBudget | None = None
    """Hosts that may be out of service at once, together with other runs."""
    dry_run: bool = False
    """Report the plan, as where it is declined."""


def resume(request: ResumeRequest, emit: Emit = ignore) -> RunResult:
    """Bring a run to its end: plan what is left of what was approved, and put back what is pending.

    `Conflict` when a host would reboot a second time, or another run has taken over the cleanup.
    """
    emit(Begun())
    record = journal.open_run(request.run) if request.run else history.latest()
    playbook = playbook_of(record.documents.desired)
    with (
        open_session(estate_of(record, playbook, request.inventory), playbook, emit) as session,
        held_again(session.scope, session.connection, record, record, request.lock) as locks,
    ):
        planned, origin = _planned(session, record, request, emit)
        plan = planned.plan
        anew = _reboots_again(plan, record, allowed=request.reboot_again, emit=emit)
        asked = _more(plan, record, emit) or anew
        may_go = approved_to_go(plan, Approved.model_validate(record.documents.approved), record.done())
        around = surroundings(session.scope, plan)
        proposal = Proposal(
            plan, digest(plan), around, not request.dry_run and (request.yes or not asked), may_go=may_go
        )
        if not approve(proposal, request.confirm, emit, ConfirmedCounts(request.destroy, request.reboot)):
            if not plan.steps and not request.dry_run:
                settle_record(session.connection.vcenter, plan, record, emit)
                record.update(ended=True, exit_code=origin.problem_code, signal=0, skipped=origin.omitted, open=[])
            return RunResult(plan, origin.problem_code or int(bool(origin.gone)), record.id, gone=origin.gone)
        return carry_out(session, planned, _anew(origin, record, locks) if anew else origin, emit)


def _planned(session: Session, record: Journal, request: ResumeRequest, emit: Emit) -> tuple[PlannedRun, Origin]:
    """Plan what is left of a run; only its cleanup where that is asked for, or the rest has problems."""
    among = history.look()
    playbook, kept = run_changes.to_finish(
        playbook_of(record.documents.desired), run_changes.own(record, among), run_changes.after(record, among)
    )
    planned, gone = plan_from(session, record, playbook, emit)
    emit(Status(""))
    for line in kept:
        emit(Remark("run.changed-later", line))
    origin, plan = Origin(record.run.what, resumes=record, gone=gone, budget=request.budget), planned.plan
    less = _cleanup_of(session, record, planned, emit) if request.cleanup or plan.problems else None
    # no one wants what is left of a run any more after a later one has ended well
    outdone = history.is_outdone(next(s for s in among if s.run == record.id), among)
    refused = bool(plan.problems and plan.changed()) and not outdone
    # a plan that is refused has no steps, but something is omitted
    left_out = max(len(plan.steps) - len(less.plan.steps), int(refused)) if less else int(refused)
    code = exit_code_of(plan.problems) if refused else 0
    return less or planned, replace(origin, problem_code=code, omitted=0 if outdone else left_out)


def _anew(origin: Origin, record: Journal, locks: Hold) -> Origin:
    """Let a new run take over from the one that is resumed."""
    return replace(origin, resumes=None, locks=locks, takes_over=record)


def _cleanup_of(session: Session, record: Journal, whole: PlannedRun, emit: Emit) -> PlannedRun | None:
    """Plan only what puts hosts and VMs back; None where a plan is refused and there is nothing to put back.

    Problems of what changes nothing refuse nothing. What counts only after a restart of its host stays pending.
    """
    pending = [d for d in record.pending() if d.kind not in ("lock", "restart")]
    refused = whole.plan.problems if whole.plan.changed() else ()
    if refused and not pending:
        return None
    bare = run_changes.narrowed(whole.playbook, lambda *_: False)
    only, estate, _ = plan_again(session, bare, pending)
    for problem in refused:
        emit(Remark("plan.refused", f"problem: {problem.target.name}: {problem.message}"))
    if refused:
        emit(Remark("", "The rest of the run cannot be carried out now; only its cleanup is"))
    return PlannedRun(bare, only, estate)


def _more(plan: Plan, record: Journal, emit: Emit) -> bool:
    """Report additional changes, which were not approved; return whether there is anything."""
    remarks = [
        Remark("run.not-approved", f"not approved then: {line}")
        for line in beyond(plan, Approved.model_validate(record.documents.approved))
    ]
    remarks += [Remark("run.not-latest", line) for line in (reasons_to_ask(record) if plan.steps else ())]
    again = done_again(plan, record.done())
    remarks += [Remark("run.undone", f"done by this run, and undone since: {line}") for line in again]
    for remark in remarks:
        emit(remark)
    return bool(remarks)


def _reboots_again(plan: Plan, record: Journal, *, allowed: bool, emit: Emit = ignore) -> bool:
    """Return whether the plan reboots hosts that the run has rebooted; `Conflict` when that is not allowed."""
    names = ", ".join(rebooted_twice(plan, record.done()))
    if names and not allowed:
        raise Conflict(
            f"{names} would reboot a second time in run {record.id}",
            "look at why the first reboot was not enough; then allow a second one with: "
            f"vsphere-ai resume {record.id} --reboot-again (or go back to before the run: vsphere-ai rollback "
            f"{record.id})",
            rule="run.reboots-again",
        )
    if names:
        text = f"{names}: rebooted by run {record.id} already; a new run goes on from there"
        emit(Remark("run.reboots-again", text))
    return bool(names)
