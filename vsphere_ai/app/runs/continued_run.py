"""A run that is continued or rolled back: its record, its locks, and planning from the point where it stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.app.runs.locking import held
from vsphere_ai.app.runs.open_runs import announce_ssh
from vsphere_ai.app.runs.plan_playbook import plan_again
from vsphere_ai.app.runs.quiesce import quiesce, requested_shutdowns
from vsphere_ai.app.runs.run_plan import PlannedRun
from vsphere_ai.errors import Conflict, Locked
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.execution.vcenter_checks import with_answers
from vsphere_ai.model.records.pending import OUT_OF_SERVICE
from vsphere_ai.model.steps import PowerOff
from vsphere_ai.model.vm_sets import is_planned_ref
from vsphere_ai.planning.document import Approved
from vsphere_ai.planning.resume import gone
from vsphere_ai.runs import lease_record as fleet_record
from vsphere_ai.runs.history import look, successor
from vsphere_ai.runs.journal import Journal, is_alive
from vsphere_ai.runs.locks import Hold, Mode, hold_run

if TYPE_CHECKING:
    from vsphere_ai.app.estate.connection import EstateConnection
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.language.playbooks.play import Playbook
    from vsphere_ai.model.records.pending import Pending
    from vsphere_ai.model.state import Target
    from vsphere_ai.planning.planner import Plan


def estate_of(record: Journal, playbook: Playbook, inventory: Path | None) -> EstateRequest:
    """Return where a run was; `inventory` replaces the recorded one."""
    run = record.run
    # what was recorded target by target is narrowed already, and the limit may name what is gone
    limit = "" if any(play.targets is not None for play in playbook.plays) else run.scope.limit
    where = "" if inventory else f"recorded by run {record.id}"
    path = inventory or Path(run.inventory)
    return EstateRequest(path, run.scope.vcenter, limit, start_ssh=True, inventory_from=where)


@contextmanager
def held_again(
    scope: EstateScope, connection: EstateConnection, record: Journal, run: Journal | str, lock: Mode | None
) -> Iterator[Hold]:
    """Hold the locks of the vCenter, and the run itself: no lock mode permits to continue one run twice.

    `lock` None: the mode of the run, and the lock in vCenter where addresses are given, which a weaker one forbids.
    """
    if connection.vcenter.about.instance != record.run.instance:
        text = f"run {record.id} was on another vCenter than this inventory leads to now"
        raise Conflict(text, "check the inventory", rule="run.other-vcenter")
    mode = lock or (scope.lock_mode if scope.lock_mode == "vcenter" else record.run.lock)
    with held(scope, connection, run, mode) as locks, hold_run(record.id):
        yield locks


def plan_from(
    session: Session, record: Journal, playbook: Playbook, emit: Emit
) -> tuple[PlannedRun, tuple[Target, ...]]:
    """Plan from the point where a run stopped: what it began ends first, and what is pending becomes part of the plan.

    Targets that are no longer in the inventory are left out, and returned.
    """
    fleet_record.require_free(record.id)
    _require_free(record)
    # from here on vCenter is waited for as in the run itself
    session.connection.vcenter.serve(record.id, notify=lambda line: emit(Remark("vcenter.waiting", line)))
    announce_ssh(session.scope, session.connection, emit)
    starts = session.scope.inventory.start_ssh
    context = Context(
        session.connection.vcenter,
        session.connection.shell,
        lambda *_: (),
        {},
        {},
        start_ssh=starts,
        leave=session.connection.leave,
    )
    outstanding = record.pending()
    _forget_gone(context, record)
    unreachable = quiesce(context, StepExecutor(context), record, emit)
    approved = Approved.model_validate(record.documents.approved)
    hosts = {
        i.target.ref: str(c.after)
        for i in approved.items
        if is_planned_ref(i.target.ref)
        for c in reversed(i.changes)  # a NIC of that name comes later
        if c.field == "host"
    }
    looks = {f.host.ref for f in approved.impact.found if f.mig}
    plan, estate, resumed = plan_again(session, playbook, record.pending(), looks, hosts)
    kept = {*resumed.true, *resumed.unclear, *unreachable, *_still_shutting_down(record, plan)}
    # it was never made, or someone else has closed it
    record.resolve(*(d for d in record.pending() if d not in kept and d.kind != "lock"))
    # these are not as the plan takes them to be
    out = {d.target for d in record.pending() if d.kind in OUT_OF_SERVICE}
    plan = with_answers(plan, session.connection.vcenter, estate, parallel=session.scope.options.parallel, out=out)
    missing = gone(playbook, outstanding, estate, approved)
    for target in missing:
        emit(Remark("object.gone", f"{target.name} is gone from the inventory since; left out"))
    return PlannedRun(playbook, plan, estate), missing


def _require_free(record: Journal) -> None:
    """`Conflict` when another run has taken over the cleanup of this one and not finished it.

    `Locked` when the run is under way: it may go without a lock. Called under the lock, so that no other process takes
    anything over at the same time.
    """
    if is_alive(record) and record.run.pid != os.getpid():
        text = f"run {record.id} is under way in process {record.run.pid}"
        raise Locked(text, "wait for its end, or stop it", rule="run.under-way")
    found = successor(record.id, look())
    if found is not None:
        raise Conflict(
            f"run {found.run} has taken over the cleanup of run {record.id}, and has not finished it",
            f"finish that one: vsphere-ai resume {found.run} (or go back to before it: vsphere-ai rollback "
            f"{found.run})",
            rule="run.taken-over",
        )


def _forget_gone(context: Context, record: Journal) -> None:
    """Close what is pending on objects that no longer exist."""
    outstanding = [d for d in record.pending() if d.kind != "lock"]
    refs = sorted({d.target.ref for d in outstanding})
    there = context.vcenter.read_objects(refs, {r.partition(":")[0]: ("name",) for r in refs}) if refs else {}
    record.resolve(*(d for d in outstanding if d.target.ref not in there))


def _still_shutting_down(record: Journal, plan: Plan) -> Iterator[Pending]:
    """Yield the pending power-ons of VMs that the run asked to shut down, that still run, and that the plan powers off.

    Whenever such a guest powers off from now on, also before the next request, that is no external change.
    """
    offs = {p.step.target.ref for p in plan.steps if isinstance(p.step, PowerOff)}
    yield from (each.pending for each in requested_shutdowns(record) if each.pending.target.ref in offs)
