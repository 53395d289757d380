"""`vsphere-ai resume` and `vsphere-ai rollback`: bring a run to its end, or back to where it began."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vsphere_ai.app import quiesce
from vsphere_ai.cli import json_stream, streams
from vsphere_ai.cli.approval import approve
from vsphere_ai.cli.events import show_event
from vsphere_ai.cli.options import code_of, format_option, held, lock_option, open_session, pause_status
from vsphere_ai.cli.running import LEFT_OUT, Request, announce_ssh, carry_out
from vsphere_ai.errors import Conflict, Locked
from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.app.run_changes import Changes
    from vsphere_ai.app.session import Session
    from vsphere_ai.execution.actions.context import Context
    from vsphere_ai.language.playbook import Playbook
    from vsphere_ai.model.facts import Estate
    from vsphere_ai.model.pending import Pending
    from vsphere_ai.model.run_record import JsonObject
    from vsphere_ai.model.state import Target
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.runs.journal import Journal
    from vsphere_ai.runs.locks import Hold

_F = TypeVar("_F", bound=Callable[..., Any])


def _inventory_option(function: _F) -> _F:
    words = "Inventory file, where the run's own has moved; it has to lead to the same vCenter."
    file = click.Path(path_type=Path, dir_okay=False)
    return click.option("-i", "--inventory", type=file, help=words)(function)


@click.command("resume")
@click.argument("run", required=False, default="")
@_inventory_option
@format_option("text", "json")
@lock_option
@click.option("--yes", is_flag=True, help="Do not ask, even when there is more to do than was approved.")
@click.option(
    "--reboot-again", "twice", is_flag=True, help="Let hosts reboot once more; makes a new run of what is left."
)
@click.option("--cleanup", is_flag=True, help="Only put back what the run has switched; change nothing more.")
def command(run: str, inventory: Path | None, form: str, yes: bool, **more: Any) -> int:
    """Bring RUN, or the latest unfinished run, to its end.

    Reads the world again, plans what is left of what was approved, and puts back what the run owes: hosts in
    maintenance mode, SSH that was started, VMs that were switched off. Asks again when there is more to do, when
    something that was done has to be done again, and when the run was rolled back or another one worked on the same
    vCenter since; what that one changed stays. Reboots no host a second time, unless --reboot-again allows it. Where
    the plan has problems, hosts and VMs are put back all the same, and nothing more is changed.
    """
    return bring_to_end(run, inventory, form, yes=yes, **more)


def bring_to_end(run: str, inventory: Path | None, form: str, *, yes: bool, **more: Any) -> int:
    """Carry out `resume` (see there) and return its exit code. `more` are its options `lock`, `twice` and `cleanup`."""
    from vsphere_ai.app import run_changes
    from vsphere_ai.planning import document
    from vsphere_ai.runs import history, journal

    json_stream.expect(form)
    record = journal.open_run(run) if run else history.latest()
    loaded = _playbook(record.documents.desired)
    shared = _shared(record, loaded, inventory)
    with open_session(shared, loaded) as session, _held(session, record, record, more["lock"]) as locks:
        among = history.look()
        loaded, left = run_changes.to_finish(loaded, run_changes.own(record, among), run_changes.after(record, among))
        plan, estate, missing = _plan_on(session, record, loaded)
        pause_status()
        for line in left:
            streams.say(safe(line), "run.changed-later")
        request = Request(form, record.run.what, shared, record, missing=missing)
        less = _cleanup_of(session, record, loaded, plan) if more.get("cleanup") or plan.problems else None
        if less is not None:
            # what is left of a run that a later one has outdone is nobody's wish any more
            outdone = history.is_outdone(next(s for s in among if s.run == record.id), among)
            refused = bool(plan.problems and plan.changed()) and not outdone
            partly = code_of(plan.problems) if refused else 0
            request = replace(request, partly=partly, rest=0 if outdone else _rest(plan, less[1], refused=refused))
            loaded, plan, estate = less
        anew = _reboots_again(plan, record, allowed=bool(more.get("twice")))
        asked = _more(plan, record) or anew
        if not approve(plan, document.digest(plan), form, yes=yes or not asked):
            if not plan.steps:
                record.update(ended=True, exit_code=request.partly, signal=0, skipped=request.rest, open=[])
            return request.partly or _code_of(missing)
        if anew:
            request = replace(request, journal=None, locks=locks, takes_over=record)
        return carry_out(session, loaded, plan, estate, request)


def _cleanup_of(
    session: Session, record: Journal, loaded: Playbook, whole: Plan
) -> tuple[Playbook, Plan, Estate] | None:
    """Plan only what puts hosts and VMs back; None where a plan is refused and there is nothing to put back.

    Problems of what changes nothing refuse nothing. What counts only after a restart of its host stays owed.
    """
    from vsphere_ai.app.run_changes import narrowed

    all_pending = [d for d in record.pending() if d.kind not in ("lock", "restart")]
    refused = whole.problems if whole.changed() else ()
    if refused and not all_pending:
        return None
    bare = narrowed(loaded, lambda *_: False)
    only, estate, _ = session.plan_again(bare, all_pending)
    for problem in refused:
        streams.say(safe(f"problem: {problem.target.name}: {problem.message}"), "plan.refused")
    if refused:
        click.echo("The rest of the run cannot be carried out now; only its cleanup is", err=True)
    return bare, only, estate


def _rest(whole: Plan, only: Plan, *, refused: bool) -> int:
    """Return how many steps are left out; a plan that is refused has none, but something is left out of it."""
    return max(len(whole.steps) - len(only.steps), int(refused))


@click.command("rollback")
@click.argument("run")
@_inventory_option
@format_option("text", "json")
@lock_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def rollback(run: str, inventory: Path | None, form: str, lock: str | None, yes: bool) -> int:
    """Go back to what RUN found before it changed anything; shown and approved like any plan.

    A hardware version cannot go back, and settings that only follow from others (reservations, MMIO) stay. The plan
    names all that stays.
    """
    from vsphere_ai.app import run_changes
    from vsphere_ai.planning import document
    from vsphere_ai.planning.rollback import with_not_reverted
    from vsphere_ai.resources import kinds
    from vsphere_ai.runs import history, journal

    json_stream.expect(form)
    record = journal.open_run(run)
    loaded = _playbook(record.documents.before)
    shared = _shared(record, loaded, inventory)
    with open_session(shared, loaded) as session, _held(session, record, f"rollback {record.id}", lock) as locks:
        among = history.look()
        mine, others = run_changes.own(record, among), run_changes.after(record, among)
        loaded = run_changes.to_put_back(loaded, mine, others)
        plan, estate, missing = _plan_on(session, record, loaded)
        approved = document.Approved.read(record.documents.approved).items
        plan = with_not_reverted(plan, [i for i in approved if mine.tried(i.target, i.kind)], estate, kinds())
        _say_who_else(plan, mine, others)
        for item in plan.items if form == "json" else ():  # the text of the plan says it otherwise
            for text in item.stays:
                streams.say(safe(f"{item.target.name}: {item.kind} stays: {text}"), "rollback.stays")
        pause_status()
        if not approve(plan, document.digest(plan), form, yes=yes):
            if not plan.steps:
                record.update(rolled_back="")  # everything is as it was before the run
            return _code_of(missing)
        what = f"rollback {record.id}"
        request = Request(form, what, shared, locks=locks, takes_over=record, missing=missing, back=True)
        return carry_out(session, loaded, plan, estate, request)


def _say_who_else(plan: Plan, mine: Changes, others: Sequence[Changes]) -> None:
    """Name what a rollback puts back though a later run has changed it, too."""
    from vsphere_ai.app.run_changes import touched

    for item in plan.changed():
        last = touched(item.target, item.kind, mine.at(item.target, item.kind), others)
        if last is not None:
            said = f"{item.target.name}: {item.kind} was changed by the later run {last.run} ({last.what}), too"
            streams.say(safe(f"{said}; this rollback undoes both"), "rollback.undoes-later")


def _playbook(document: JsonObject) -> Playbook:
    from vsphere_ai.language.playbook import from_document
    from vsphere_ai.resources import kinds

    return from_document(document, kinds())


def _shared(record: Journal, loaded: Playbook, inventory: Path | None) -> dict[str, Any]:
    run = record.run
    file = inventory or Path(run.inventory)
    # what was recorded target by target is narrowed already, and the limit may name what is gone
    limit = "" if any(play.targets is not None for play in loaded.plays) else run.scope.limit
    return {"inventory": file, "vcenter": run.scope.vcenter, "start_ssh": True, "limit": limit, "parallel": 8}


@contextmanager
def _held(session: Session, record: Journal, run: Journal | str, lock: str | None) -> Iterator[Hold]:
    """Hold the locks of the vCenter, and the run itself: `--lock none` is no leave to go on with one run twice."""
    from vsphere_ai.runs.locks import hold_run

    if session.vcenter.about.instance != record.run.instance:
        raise Conflict(
            f"run {record.id} was on another vCenter than this inventory leads to now",
            "check the inventory",
            rule="run.other-vcenter",
        )
    with held(session, run, lock or record.run.lock) as locks, hold_run(record.id):
        yield locks


def _plan_on(session: Session, record: Journal, loaded: Playbook) -> tuple[Plan, Estate, tuple[Target, ...]]:
    """Plan from where a run stands: what it began comes to rest first, and what it owes becomes part of the plan.

    What is gone from the inventory is left out, and returned.
    """
    from vsphere_ai.execution.actions.context import Context
    from vsphere_ai.execution.actions.executor import Executor
    from vsphere_ai.planning.document import Approved
    from vsphere_ai.planning.resume import gone

    _is_free(record)
    # from here on vCenter is waited for as in the run itself
    session.vcenter.serve(record.id, notify=lambda line: streams.say(safe(line), "vcenter.waiting"))
    announce_ssh(session)
    context = Context(session.vcenter, session.shell, lambda *_: (), {}, {}, start_ssh=session.inventory.start_ssh)
    outstanding = record.pending()
    _forget_gone(context, record)
    stopped = quiesce.quiesce(context, Executor(context), record, show_event)
    looks = {f.host.ref for f in Approved.read(record.documents.approved).impact.found if f.mig}
    plan, estate, owed = session.plan_again(loaded, record.pending(), looks)
    kept = {*owed.true, *owed.unclear, *stopped, *_still_going_down(record, plan)}
    for pending in (d for d in record.pending() if d not in kept and d.kind != "lock"):
        record.resolve(pending)  # it was never made, or somebody has settled it
    missing = gone(loaded, outstanding, estate)
    for target in missing:
        streams.say(f"{safe(target.name)} is gone from the inventory since; left out", "object.gone")
    return plan, estate, missing


def _is_free(record: Journal) -> None:
    """`Conflict` when another run took over what this one owed and has not put it back: hosts would stay as they are.

    `Locked` when the run is under way: it may go without a lock. Called under the lock, so that nobody takes anything
    over meanwhile.
    """
    from vsphere_ai.runs.history import look, successor
    from vsphere_ai.runs.journal import is_alive

    if is_alive(record) and record.run.pid != os.getpid():
        raise Locked(
            f"run {record.id} is under way in process {record.run.pid}",
            "wait for its end, or stop it",
            rule="run.under-way",
        )
    found = successor(record.id, look())
    if found is not None:
        raise Conflict(
            f"run {found.run} took over what run {record.id} owed, and has not put all of it back",
            f"finish that one: vsphere-ai resume {found.run} (or go back to before it: vsphere-ai rollback "
            f"{found.run})",
            rule="run.taken-over",
        )


def _forget_gone(context: Context, record: Journal) -> None:
    """Nothing can be put back on what is not there any more."""
    outstanding = [d for d in record.pending() if d.kind != "lock"]
    refs = sorted({d.target.ref for d in outstanding})
    there = context.vcenter.read_objects(refs, {r.partition(":")[0]: ("name",) for r in refs}) if refs else {}
    for pending in (d for d in outstanding if d.target.ref not in there):
        record.resolve(pending)


def _code_of(missing: tuple[Target, ...]) -> int:
    return LEFT_OUT if missing else 0


def _still_going_down(record: Journal, plan: Plan) -> Iterator[Pending]:
    """Yield the debts of VMs that run, though the run told their guests to shut down, and that the plan switches off.

    Whenever such a guest goes off from now on, even before it is told again, that is not somebody else's doing.
    """
    from vsphere_ai.model.steps import PowerOff

    steps = (p.step for p in plan.steps)
    offs = {s.target.ref for s in steps if isinstance(s, PowerOff)}
    for owed in quiesce.requested_shutdowns(record):
        if owed.pending.target.ref in offs:
            yield owed.pending


def _more(plan: Plan, record: Journal) -> bool:
    from vsphere_ai.planning.document import Approved
    from vsphere_ai.planning.resume import beyond, done_again
    from vsphere_ai.runs.history import reasons_to_ask

    found = beyond(plan, Approved.read(record.documents.approved))
    for line in found:
        streams.say(f"not approved then: {safe(line)}", "run.not-approved")
    undoing = reasons_to_ask(record) if plan.steps else ()
    for line in undoing:
        streams.say(safe(line), "run.not-latest")
    again = done_again(plan, record.done())
    for line in again:
        streams.say(f"done by this run, and undone since: {safe(line)}", "run.undone")
    return bool(found or undoing or again)


def _reboots_again(plan: Plan, record: Journal, *, allowed: bool) -> bool:
    """Tell whether the plan reboots hosts that the run has rebooted already; `Conflict` when that is not allowed."""
    from vsphere_ai.planning.resume import rebooted_twice

    names = ", ".join(map(safe, rebooted_twice(plan, record.done())))
    if names and not allowed:
        raise Conflict(
            f"{names} would reboot a second time in run {record.id}",
            "look at why the first reboot was not enough; then allow a second one with: "
            f"vsphere-ai resume {record.id} --reboot-again (or return to the state before the run: "
            f"vsphere-ai rollback {record.id})",
            rule="run.reboots-again",
        )
    if names:
        streams.say(f"{names}: rebooted by run {record.id} already; a new run goes on from there", "run.reboots-again")
    return bool(names)
