"""Carrying a confirmed plan out, with its record: the common end of apply, resume and rollback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, Remark, RunEnded, RunRecorded, RunStarted, StepEvent
from vsphere_ai.app.events.results import RunResult
from vsphere_ai.app.runs.account_privileges import require_privileges
from vsphere_ai.app.runs.address_programs import release_at_programs
from vsphere_ai.app.runs.guest_passwords import guest_passwords
from vsphere_ai.app.runs.locking import require_lock
from vsphere_ai.app.runs.open_runs import open_runs
from vsphere_ai.app.runs.out_of_service import drop_record, shared_record
from vsphere_ai.app.runs.read_back import ReadBack
from vsphere_ai.app.runs.recorded_playbooks import before, pinned
from vsphere_ai.app.runs.surroundings import surroundings, times_of, world_of
from vsphere_ai.errors import Storage
from vsphere_ai.execution.actions.context import Context, Say
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.execution.run_budget import RunBudget
from vsphere_ai.execution.runner import Runner
from vsphere_ai.gpu.devices import nvidia_gpus
from vsphere_ai.language.playbooks.play import Playbook, to_document
from vsphere_ai.model.records.run_record import RunDocuments, RunRecord, Scope
from vsphere_ai.planning.document import Approved, PlanDocument
from vsphere_ai.runs import history, journal, ssh_markers

if TYPE_CHECKING:
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.execution.host_budget import HostBudget
    from vsphere_ai.model.facts import Estate
    from vsphere_ai.model.state import Target
    from vsphere_ai.planning.outcome import RunOutcome
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.planning.scheduling.schedule import Impact
    from vsphere_ai.runs.journal import Journal
    from vsphere_ai.runs.locks import Hold
    from vsphere_ai.security.secret_ref import Secret


@dataclass(frozen=True)
class PlannedRun:
    """A playbook, its plan, and the estate that the plan was made on."""

    playbook: Playbook
    plan: Plan
    estate: Estate


@dataclass(frozen=True)
class Origin:
    """Where a plan comes from. `what` the operator named; `resumes` is the record of the run that goes on with it.

    What the run `takes_over` has pending becomes the new run's; with `reverts` the new run rolls that one back. `gone`
    targets were approved and are no longer in the inventory.
    """

    what: str
    locks: Hold | None = None
    resumes: Journal | None = None
    takes_over: Journal | None = None
    reverts: bool = False
    gone: tuple[Target, ...] = ()
    problem_code: int = 0
    """Exit code when all went well, but the plan of the whole run has problems."""
    omitted: int = 0
    """How many steps of the whole run are not part of the plan."""
    measure: Callable[[Say], None] | None = None
    """Runs the benchmark that a step of the plan waits for."""
    reports_open_runs: bool = False
    """The end reports, also by its exit code, what earlier runs have left to put back."""
    run: str = ""
    """The id of its run, where that was chosen before."""
    budget: HostBudget | None = None
    """Hosts that may be out of service at once, together with other runs."""


def carry_out(session: Session, planned: PlannedRun, origin: Origin, emit: Emit) -> RunResult:
    """Run a confirmed plan to its end, and record it."""
    plan = planned.plan
    require_lock(plan, session.connection.locks)
    require_privileges(session.scope, session.connection, plan, planned.estate)
    passwords = guest_passwords(plan, session.scope.inventory.base)
    record = origin.resumes or _new_record(session, planned, origin)
    if origin.resumes is not None:
        history.mark_resumed(record)
    if origin.locks is not None:
        origin.locks.serve(record)

    shared = shared_record(session.connection.vcenter, plan, record, planned.estate)
    context = replace(_context(session, planned, record, _waiting(emit, "run.notice"), passwords), note=shared)
    if origin.measure is not None:
        context = replace(context, measure=origin.measure)
    runner = Runner(plan, StepExecutor(context), emit, parallel=session.scope.options.parallel, record=shared)
    if origin.budget is not None:
        runner.share(RunBudget(origin.budget, record.id))
    session.connection.stop.attach(runner)
    emit(RunStarted(record.id, plan, session.connection.stop, times_of(session.scope, plan), world_of(session.scope)))
    session.connection.vcenter.serve(
        record.id, notify=_waiting(emit, "vcenter.waiting"), submitted=task_recorder(record)
    )
    shared.take_up(kept=origin.resumes is not None)
    if origin.takes_over is not None:  # what it had is in this run's record now
        drop_record(session.connection.vcenter, origin.takes_over)
    run = runner.run()
    if why := shared.finish():
        emit(Remark("out-record.not-removed", f"What this run had out of service still stands in vCenter: {why}"))
    others = origin.reports_open_runs and not run.signal
    result = _result(
        run, record.id, origin, open_runs(session.connection.vcenter, planned.estate.objects) if others else ()
    )
    emit(RunEnded(result))
    counts = {"exit_code": run.exit_code or origin.problem_code, "skipped": run.unstarted + origin.omitted}
    record.update(ended=True, signal=run.signal, stopped=session.connection.stop.why, open=list(run.open), **counts)
    history.rolled_back(record)
    emit(RunRecorded(result))
    return result


def _waiting(emit: Emit, rule: str) -> Callable[[str], None]:
    """Return a function that emits a line about what the run waits for."""
    return lambda line: emit(StepEvent("waiting", text=line, rule=rule))


def _result(run: RunOutcome, record: str, origin: Origin, others: tuple[str, ...]) -> RunResult:
    code = (128 + run.signal if run.signal else run.exit_code) or origin.problem_code or int(bool(origin.gone))
    return RunResult(run.plan, code or int(bool(others or run.open)), record, run, origin.gone, others)


def _context(
    session: Session,
    planned: PlannedRun,
    record: Journal,
    notice: Callable[[str], None],
    passwords: Mapping[str, Secret],
) -> Context:
    playbook, plan, estate = planned.playbook, planned.plan, planned.estate
    # an earlier attempt of this run has seen the hosts as they were: a GPU that is gone since is missed
    found = {f.host.ref: f for f in Approved.model_validate(record.documents.approved).impact.found}
    # what hosts and VMs share stays as it was read for the plan, unless the plan itself changes some of it
    shared = any(item.target.kind not in ("host", "vm") for item in plan.changed())
    back, instance = ReadBack(session, playbook, estate, shared), session.connection.vcenter.about.instance
    return Context(
        vcenter=session.connection.vcenter,
        shell=session.connection.shell,
        leave=session.connection.leave,
        left=back.left,
        again=back.again,
        gpus={h.ref: len(nvidia_gpus(estate[h.ref])) for h in estate.hosts} | {r: f.gpus for r, f in found.items()},
        found=found,
        hosts={v.ref: str(estate[v.ref].get("runtime.host", "")) for v in estate.vms},
        stop=session.connection.stop.event,
        note=record,
        planned=estate.objects,
        notice=notice,
        start_ssh=session.scope.inventory.start_ssh,
        ssh_user=session.scope.inventory.ssh.username if session.scope.inventory.ssh else "",
        is_being_read=lambda host: ssh_markers.is_held(instance, host.ref),
        within=session.connection.vcenter.doing,
        passwords=passwords,
        lock=lambda: session.connection.locks.lock if session.connection.locks else None,
        give_back=partial(release_at_programs, session.scope, session.connection),
    )


def task_recorder(record: Journal) -> Callable[[str, str], None]:
    """Return what notes tasks. One that cannot be noted is still waited for: the next step cannot begin, though."""

    def note(step: str, task: str) -> None:
        with suppress(Storage):
            record.submitted(step, task)

    return note


def _new_record(session: Session, planned: PlannedRun, origin: Origin) -> Journal:
    playbook, plan, estate = planned.playbook, planned.plan, planned.estate
    around = surroundings(session.scope, plan)
    approved = PlanDocument.of(plan, around.estimate, around.world).approved()
    if playbook.variables:
        approved = approved.model_copy(update={"variables": playbook.variables})
    earlier = origin.takes_over
    if earlier and not origin.reverts:
        approved = approved.model_copy(update={"impact": _as_measured_first(plan.impact, earlier)})
    # the lock is taken over with the lock itself
    taken = [o for o in earlier.ever_pending() if not o.closed and o.pending.kind != "lock"] if earlier else []
    record = journal.create(
        RunRecord(
            what=origin.what,
            inventory=str(session.scope.inventory.path.absolute()),
            scope=Scope(
                vcenter=session.scope.settings.name,
                address=session.connection.vcenter.name,
                limit=session.scope.options.limit,
            ),
            instance=plan.about.instance,
            rolls_back=earlier.id if earlier and origin.reverts else "",
            takes_over=earlier.id if earlier else "",
            lock=origin.locks.mode if origin.locks else None,
        ),
        RunDocuments(
            approved=approved.as_json(),
            desired=to_document(pinned(session, playbook, estate)),
            before=to_document(before(session, playbook, plan, estate)),
        ),
        taken,
        origin.run,
    )
    if earlier and taken:  # a process that dies before this leaves nothing pending twice: `history.look` sees to it
        earlier.resolve(*(o.pending for o in taken))
    return record


def _as_measured_first(impact: Impact, earlier: Journal) -> Impact:
    """Let hosts be measured by what they were like before the earlier run: a GPU that is gone since is missed."""
    known = {f.host.ref: f for f in Approved.model_validate(earlier.documents.approved).impact.found}
    return replace(impact, found=tuple(known.get(f.host.ref, f) for f in impact.found))
