"""Apply: a playbook, or a saved plan exactly as it was shown, is carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.connection import EstateConnection
from vsphere_ai.app.estate.references import load, require_same_references
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.estate.session_outputs import planned_outputs
from vsphere_ai.app.events import Begun, Emit, Remark, Status, ignore
from vsphere_ai.app.events.results import Proposal, RunResult
from vsphere_ai.app.runs.approval import Confirm, ConfirmedCounts, approve, no_confirmation
from vsphere_ai.app.runs.cleanup_from_vcenter import FromVCenterRequest, resume_from_vcenter
from vsphere_ai.app.runs.locking import held, require_lock
from vsphere_ai.app.runs.open_runs import announce, open_runs, pending_runs
from vsphere_ai.app.runs.out_of_service import out_runs, sweep, unknown_here
from vsphere_ai.app.runs.plan_playbook import checked, make_plan
from vsphere_ai.app.runs.resume_run import ResumeRequest, resume
from vsphere_ai.app.runs.run_plan import Origin, PlannedRun, carry_out
from vsphere_ai.app.runs.surroundings import surroundings
from vsphere_ai.errors import Conflict, Storage, UsageError
from vsphere_ai.language.playbooks.play import Playbook, from_document
from vsphere_ai.language.yaml_files.document import content_of
from vsphere_ai.planning import document
from vsphere_ai.planning.document import SavedPlan, open_saved
from vsphere_ai.planning.ssh_needs import without_ssh_problems
from vsphere_ai.resources import kinds
from vsphere_ai.runs import journal
from vsphere_ai.runs.history import look
from vsphere_ai.security.files import DOCUMENT

if TYPE_CHECKING:
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.execution.host_budget import HostBudget
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.runs.locks import Mode


@dataclass(frozen=True)
class ApplyRequest:
    """What to carry out: the file of a playbook, or of a plan (``.json``) that was saved with `plan --to`.

    A saved plan needs no confirmation; vCenter and limit are its own. Without `yes`, `confirm` is called with the plan.
    A plan that destroys VMs, also a saved one, is carried out when `confirm` agrees, or with their number in `destroy`.
    `reboot`: the number of hosts that are expected to reboot; a plan with another number is not carried out.
    `lock` None: as the inventory says. Earlier runs with pending cleanup are finished first: all with `resume_first`,
    else those for whose name `confirm_resume` returns true.
    """

    what: Path
    estate: EstateRequest = field(default_factory=EstateRequest)
    yes: bool = False
    confirm: Confirm = no_confirmation
    lock: Mode | None = None
    resume_first: bool = False
    confirm_resume: Callable[[str], bool] | None = None
    destroy: int | None = None
    reboot: int | None = None
    title: str = ""
    """What its run is called, where that is not its file."""
    document: str = ""
    """The text of a saved plan, in place of a file; `what` is its name then."""
    run: str = ""
    """The id of its run; a new one where it is empty."""
    compare_only: bool = False
    """Lock, plan again and compare with the saved plan; carry nothing out."""
    dry_run: bool = False
    """Nothing is to be carried out, whatever is confirmed."""
    budget: HostBudget | None = None
    """Hosts that may be out of service at once, together with other runs."""


def apply(request: ApplyRequest, emit: Emit = ignore) -> RunResult:
    """Carry out a playbook or a saved plan.

    `Conflict` when a saved plan was edited, or is not what would be planned now; `Refused` when the plan has problems;
    `Locked` when another run works on the vCenter.
    """
    emit(Begun())
    saved = _saved(request)
    if saved and (request.estate.variables or request.estate.vars_files):
        text = f"{request.what} is a saved plan, which has the values that its variables had"
        raise UsageError(text, "leave --var and --vars-file out, or plan again with them", rule="usage.var")
    playbook = from_document(saved.desired, kinds()) if saved else load(request.what, request.estate, emit)
    # apply may start TSM-SSH, and stops it again
    estate = request.estate if request.dry_run else replace(request.estate, start_ssh=True)
    if saved:
        _require_whole(request)
        scope = saved.scope
        estate = replace(estate, limit=scope.get("limit", ""), vcenter=estate.vcenter or scope.get("vcenter", ""))
    if request.resume_first or (request.confirm_resume and any(seen.has_pending for seen in look())):
        with open_session(estate, playbook, emit) as session:
            failed = _resume_first(session.connection, request, emit)
        if failed is not None:
            return failed
        emit(Begun())
    if saved:
        require_same_references(playbook, estate, emit)
    with open_session(estate, playbook, emit) as session:
        return _apply(session, playbook, saved, request, emit)


def apply_playbook(playbook: Playbook, request: ApplyRequest, emit: Emit = ignore) -> RunResult:
    """Carry out a playbook that another command has made of what the request names."""
    emit(Begun())
    with open_session(replace(request.estate, start_ssh=True), playbook, emit) as session:
        return _apply(session, playbook, None, request, emit)


def _apply(
    session: Session, playbook: Playbook, saved: SavedPlan | None, request: ApplyRequest, emit: Emit
) -> RunResult:
    if request.dry_run:  # as for a plan: it waits for no one, and removes nothing that another run left
        return _carried_out(session, playbook, saved, request, emit)
    _require_readable_journals()
    with held(session.scope, session.connection, request.title or f"apply {request.what}", request.lock, reads=True):
        return _carried_out(session, playbook, saved, request, emit)


def _carried_out(
    session: Session, playbook: Playbook, saved: SavedPlan | None, request: ApplyRequest, emit: Emit
) -> RunResult:
    announce(session.scope, session.connection, emit)
    if saved:
        _require_same_vcenter(
            saved, session.connection.vcenter.about.instance, session.connection.vcenter.name, request.what
        )
    plan, estate = make_plan(session, playbook)
    if not request.dry_run:
        sweep(session.connection.vcenter, estate.objects)
    emit(Status(""))
    digest = document.digest(plan)
    if saved:
        _require_same(saved, plan, digest, request.what)
    plan = checked(session.scope, session.connection, plan, estate)
    if request.compare_only and not plan.problems:
        return RunResult(plan, 0)
    if not request.dry_run:
        require_lock(plan, session.connection.locks)
    approved = saved is not None and (request.destroy is not None or not plan.impact.destroyed)
    confirmed = not request.dry_run and (request.yes or approved)
    others = () if plan.steps and confirmed else open_runs(session.connection.vcenter, estate.objects)
    outputs = planned_outputs(session, playbook, estate)
    left_out, around = session.left_out(playbook, estate), surroundings(session.scope, plan)
    variables = session.split(playbook, estate).variables
    proposal = Proposal(plan, digest, around, confirmed, left_out, others, outputs=outputs, variables=variables)
    if not approve(proposal, request.confirm, emit, ConfirmedCounts(request.destroy, request.reboot)):
        return RunResult(plan, proposal.exit_code, open_runs=others)
    what = request.title or str(request.what)
    origin = Origin(what, session.connection.locks, reports_open_runs=True, run=request.run, budget=request.budget)
    return carry_out(session, PlannedRun(playbook, plan, estate), origin, emit)


def _resume_first(connection: EstateConnection, request: ApplyRequest, emit: Emit) -> RunResult | None:
    """Bring runs with pending cleanup to their end; return the first result that is not a success, None without one."""
    for line in open_runs(connection.vcenter) if not request.resume_first else ():
        emit(Remark("run.left-open", f"! {line}"))
    for seen, command in pending_runs(connection.vcenter.about.instance):
        agreed = request.resume_first or (request.confirm_resume is not None and request.confirm_resume(seen.run))
        if not agreed:
            continue
        cleanup = command.endswith("--cleanup")
        again = ResumeRequest(
            seen.run, request.estate.inventory, request.resume_first, request.confirm, request.lock, cleanup=cleanup
        )
        result = resume(again, emit)
        if result.exit_code:
            return result
    return _put_back_first(connection, request, emit) if request.resume_first else None


def _put_back_first(connection: EstateConnection, request: ApplyRequest, emit: Emit) -> RunResult | None:
    """Put back what runs of this machine have out whose journals are lost; those of others may still work there.

    Returns the first result that is not a success, None without one.
    """
    for run in unknown_here(connection.vcenter, out_runs(connection.vcenter)):
        if run.is_over:
            asked = FromVCenterRequest(run.run, request.estate, True, request.confirm, request.lock)
            result = resume_from_vcenter(asked, emit)
            if result.exit_code:
                return result
    return None


def _require_readable_journals() -> None:
    """`Storage` where a journal cannot be read: its run may have something out of service, which no one would see."""
    troubles = journal.unreadable()
    if not troubles:
        return
    first = troubles[0]
    more = f"; so are {len(troubles) - 1} more (vsphere-ai run list)" if len(troubles) > 1 else ""
    error = Storage(f"{first.message}{more}; nothing was changed", first.remedy, rule=first.rule)
    raise error from first


def _saved(request: ApplyRequest) -> SavedPlan | None:
    what = request.what
    if request.document:
        return open_saved(request.document, str(what))
    if what.suffix != ".json":
        return None

    # a damaged byte makes it another text, whose checksum is wrong
    return open_saved(content_of(what, "plan", DOCUMENT).decode("utf-8", "replace"), str(what))


def _require_whole(request: ApplyRequest) -> None:
    """Refuse to carry out a part of a saved plan: it was shown and approved as a whole."""
    narrowed = {"--limit": request.estate.limit, "--kind": request.estate.only_kinds}
    given = [option for option, value in narrowed.items() if value]
    if given:
        text = f"{request.what} is a saved plan, which is carried out as it was shown, without {' and '.join(given)}"
        raise UsageError(text, f"give {given[0]} to plan, and save that one", rule="usage.saved-plan")


def _require_same_vcenter(saved: SavedPlan, instance: str, name: str, what: Path) -> None:
    """Refuse a plan of another vCenter before anything of this one is read: its hosts and VMs have other names."""
    if saved.vcenter.instance != instance:
        known = saved.scope.get("vcenter", "")
        made = f"vCenter {known!r}" if known else "another vCenter"
        text = f"{what} was made for {made}, whose instance is {saved.vcenter.instance}; {name} is {instance}"
        help = "give the inventory and the --vcenter that it was made with, or plan anew for this one"
        raise Conflict(text, help, rule="plan.other-vcenter")


def _require_same(saved: SavedPlan, plan: Plan, digest: str, what: Path) -> None:
    """Refuse a plan that is not what would be planned now, with the differences."""
    again = "plan again, look at the difference, and apply the new plan"
    if saved.digest == digest or saved.digest == document.digest(without_ssh_problems(plan)):
        return  # a host that refuses the SSH login now is a problem that is shown, not a difference
    text = f"{what} is stale, the environment changed since it was made:\n{document.changes_since(saved, plan)}"
    raise Conflict(text, again, rule="plan.stale")
