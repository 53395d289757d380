"""Rollback: what a run changed goes back to what it was before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vsphere_ai.admission.oracles import CHECK
from vsphere_ai.app.estate.connection import EstateConnection
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Begun, Emit, Remark, Status, ignore
from vsphere_ai.app.events.results import Proposal, RunResult
from vsphere_ai.app.runs import run_changes
from vsphere_ai.app.runs.approval import Confirm, ConfirmedCounts, approve, no_confirmation
from vsphere_ai.app.runs.continued_run import estate_of, held_again, plan_from
from vsphere_ai.app.runs.out_of_service import settle_record
from vsphere_ai.app.runs.recorded_playbooks import playbook_of
from vsphere_ai.app.runs.run_plan import Origin, PlannedRun, carry_out
from vsphere_ai.app.runs.surroundings import surroundings
from vsphere_ai.model.vm_sets import PREFIX, is_planned_ref
from vsphere_ai.planning.document import Approved, digest
from vsphere_ai.planning.moves.evacuation import POWER_OFF
from vsphere_ai.planning.rollback import with_not_reverted
from vsphere_ai.resources import kinds
from vsphere_ai.runs import history, journal

if TYPE_CHECKING:
    from vsphere_ai.app.runs.run_changes import RunChanges
    from vsphere_ai.language.playbooks.play import Playbook
    from vsphere_ai.planning.document import ItemDocument
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.runs.locks import Mode


@dataclass(frozen=True)
class RollbackRequest:
    """Which run to roll back, by its name or the beginning of it; the other fields are as in `ResumeRequest`."""

    run: str
    inventory: Path | None = None
    yes: bool = False
    confirm: Confirm = no_confirmation
    lock: Mode | None = None
    reboot: int | None = None
    evacuate: Literal["refuse", "power_off", "vmotion"] | None = None
    """What becomes of VMs on hosts that enter maintenance mode; None: as the run's playbook says."""
    dry_run: bool = False
    """Report the plan, as where it is declined."""


def rollback(request: RollbackRequest, emit: Emit = ignore) -> RunResult:
    """Revert a run to the state before its first change, as a run of its own.

    A hardware version cannot go back, and implied fields (reservations, MMIO) are not reverted: the plan names them.
    """
    emit(Begun())
    record = journal.open_run(request.run)
    what, playbook = f"rollback {record.id}", playbook_of(record.documents.before)
    with (
        open_session(estate_of(record, playbook, request.inventory), playbook, emit) as session,
        held_again(session.scope, session.connection, record, what, request.lock) as locks,
    ):
        among = history.look()
        mine, others = run_changes.own(record, among), run_changes.after(record, among)
        back = _evacuating(run_changes.rollback_scope(playbook, mine, others), request.evacuate)
        planned, gone = plan_from(session, record, back, emit)
        tried = [i for i in Approved.model_validate(record.documents.approved).items if mine.tried(i.target, i.kind)]
        made = {i.target.name for i in tried if is_planned_ref(i.target.ref)}
        gone = tuple(t for t in gone if t.name not in made)  # before the run they were not there either
        plan = _with_remedies(with_not_reverted(planned.plan, tried, planned.estate, kinds()), record.id, made)
        _report_vms(session.connection, tried, emit)
        _report_shared_changes(plan, mine, others, emit)
        emit(Status(""))
        proposal = Proposal(plan, digest(plan), surroundings(session.scope, plan), request.yes and not request.dry_run)
        if not approve(proposal, request.confirm, emit, ConfirmedCounts(reboot=request.reboot)):
            if not plan.steps and not request.dry_run:
                settle_record(session.connection.vcenter, plan, record, emit)
                record.update(rolled_back="")  # everything is as it was before the run
            return RunResult(plan, int(bool(gone)), gone=gone)
        origin = Origin(what, locks, takes_over=record, reverts=True, gone=gone)
        return carry_out(session, PlannedRun(planned.playbook, plan, planned.estate), origin, emit)


def _evacuating(playbook: Playbook, evacuate: str | None) -> Playbook:
    """Return a playbook whose hosts are evacuated in another way; as it is where none is chosen."""
    if evacuate is None:
        return playbook
    chosen = {"evacuate": evacuate}
    plays = (replace(p, rolling=p.rolling.model_copy(update=chosen)) for p in playbook.plays)
    return replace(playbook, plays=tuple(plays))


def _with_remedies(plan: Plan, run: str, made: Collection[str]) -> Plan:
    """Return a plan in whose problems the remedy is one that a rollback takes: there is no playbook to edit.

    `made`: the VMs that the run has made; they may need the hosts as the run has left them.
    """
    option = f"vsphere-ai rollback {run} --evacuate power_off"
    of_the_run = "this run made it: destroy it first with vsphere-ai destroy, or power it off; then roll back"
    problems = []
    for problem in plan.problems:
        remedy = problem.remedy.replace(POWER_OFF, option)
        remedy = "power it off first, then roll back" if problem.rule == "power.stranded" else remedy
        remedy = "correct what vCenter names, then roll back" if problem.rule == CHECK else remedy
        remedy = of_the_run if problem.target.kind == "vm" and problem.target.name in made else remedy
        problems.append(replace(problem, remedy=remedy))
    return replace(plan, problems=tuple(problems))


def _report_vms(connection: EstateConnection, tried: Sequence[ItemDocument], emit: Emit) -> None:
    """Name the VMs that the run made or destroyed: a rollback makes none and destroys none."""
    names = {i.target.ref: i.target.name for i in tried if is_planned_ref(i.target.ref)}
    adopted = {i.target.ref for i in tried for c in i.changes if c.field == "adopted"}
    there = connection.vcenter.read_objects(sorted(names), {"VirtualMachine": ("name",)}) if names else {}
    for ref, name in sorted(names.items(), key=lambda each: each[1]):
        if ref in there and ref in adopted:
            text = f"{name} stays a VM of its set; to take it out of it, remove its settings {PREFIX}* by hand"
        elif ref in there:
            text = f"{name} stays: a rollback destroys no VM of a set; use vsphere-ai destroy, or shorten the range"
        else:
            text = f"{name} stays destroyed: a rollback makes no VM of a set; apply its playbook to make it anew"
        emit(Remark("rollback.stays", text))


def _report_shared_changes(plan: Plan, mine: RunChanges, others: Sequence[RunChanges], emit: Emit) -> None:
    """Name what a rollback puts back though a later run has changed it, too."""
    for item in plan.changed():
        last = run_changes.touched(item.target, item.kind, mine.at(item.target, item.kind), others)
        if last is not None:
            text = f"{item.target.name}: {item.kind} was changed by the later run {last.run} ({last.what}), too"
            emit(Remark("rollback.undoes-later", f"{text}; this rollback undoes both"))
