"""`vsphere-ai resume` and `vsphere-ai rollback`: bring a run to its end, or back to where it began."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vsphere_ai.cli import at_rest, json_stream
from vsphere_ai.cli.apply import approve
from vsphere_ai.cli.options import format_option, held, hush, lock_option, open_bench
from vsphere_ai.cli.running import LEFT_OUT, Way, announce_ssh, carry_out
from vsphere_ai.errors import Conflict, Locked
from vsphere_ai.report.values import safe

if TYPE_CHECKING:
    from vsphere_ai.debts import Debt
    from vsphere_ai.deeds.means import Means
    from vsphere_ai.facts import Estate
    from vsphere_ai.journal import Journal
    from vsphere_ai.plan import Plan
    from vsphere_ai.playbook import Playbook
    from vsphere_ai.state import Target
    from vsphere_ai.workbench import Workbench

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
def command(run: str, inventory: Path | None, form: str, yes: bool, **more: Any) -> int:
    """Bring RUN, or the latest unfinished run, to its end.

    Reads the world again, plans what is left of what was approved, and puts back what the run owes: hosts in
    maintenance mode, SSH that was started, VMs that were switched off. Asks again when there is more to do, when
    something that was done has to be done again, and when the run was rolled back or another one worked on the same
    vCenter since. Reboots no host a second time, unless --reboot-again allows it.
    """
    from vsphere_ai import journal, past
    from vsphere_ai.report import plan_json

    json_stream.expect(form)
    book = journal.open_run(run) if run else past.latest()
    loaded = _playbook(book, "desired")
    shared = _shared(book, loaded, inventory)
    with open_bench(shared, loaded) as bench, _held(bench, book, book, more["lock"]) as locks:
        plan, estate, missing = _plan_on(bench, book, loaded)
        hush()
        anew = _reboots_again(plan, book, allowed=more["twice"])
        asked = _more(plan, book) or anew
        if not approve(plan, plan_json.digest(plan), form, yes=yes or not asked):
            if not plan.steps:
                book.set(ended=True, exit_code=0, signal=0, skipped=0, open=[])
            return _code_of(missing)
        way = Way(form, book.get("what", ""), shared, book, missing=missing)
        if anew:
            way = replace(way, journal=None, locks=locks, settles=book)
        return carry_out(bench, loaded, plan, estate, way)


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
    from vsphere_ai import journal
    from vsphere_ai.going_back import with_stays
    from vsphere_ai.report import plan_json
    from vsphere_ai.resources import kinds

    json_stream.expect(form)
    book = journal.open_run(run)
    loaded = _playbook(book, "before")
    shared = _shared(book, loaded, inventory)
    with open_bench(shared, loaded) as bench, _held(bench, book, f"rollback {book.id}", lock) as locks:
        plan, estate, missing = _plan_on(bench, book, loaded)
        plan = with_stays(plan, book.get("approved", {}).get("items", ()), estate, kinds())
        for item in plan.items if form == "json" else ():  # the text of the plan says it otherwise
            for text in item.stays:
                click.echo(safe(f"{item.target.name}: {item.kind} stays: {text}"), err=True)
        hush()
        if not approve(plan, plan_json.digest(plan), form, yes=yes):
            if not plan.steps:
                book.set(rolled_back="")  # everything is as it was before the run
            return _code_of(missing)
        what = f"rollback {book.id}"
        way = Way(form, what, shared, locks=locks, settles=book, missing=missing, back=True)
        return carry_out(bench, loaded, plan, estate, way)


def _playbook(book: Journal, key: str) -> Playbook:
    from vsphere_ai.playbook import from_document
    from vsphere_ai.resources import kinds

    return from_document(book.get(key), kinds())


def _shared(book: Journal, loaded: Playbook, inventory: Path | None) -> dict[str, Any]:
    scope, file = book.get("scope", {}), inventory or Path(book.get("inventory"))
    # what was recorded target by target is narrowed already, and the limit may name what is gone
    limit = "" if any(play.targets is not None for play in loaded.plays) else scope.get("limit", "")
    return {"inventory": file, "vcenter": scope.get("vcenter", ""), "start_ssh": True, "limit": limit, "parallel": 8}


def _held(bench: Workbench, book: Journal, run: Journal | str, lock: str | None) -> Any:
    if bench.vcenter.about.instance != book.get("instance"):
        raise Conflict(f"run {book.id} was on another vCenter than this inventory leads to now", "check the inventory")
    return held(bench, run, lock or book.get("lock"))


def _plan_on(bench: Workbench, book: Journal, loaded: Playbook) -> tuple[Plan, Estate, tuple[Target, ...]]:
    """Plan from where a run stands: what it began comes to rest first, and what it owes becomes part of the plan.

    What is gone from the inventory is left out, and returned.
    """
    from vsphere_ai.deeds import Deeds
    from vsphere_ai.deeds.means import Means
    from vsphere_ai.resume import gone

    _is_free(book)
    # from here on vCenter is waited for as in the run itself
    bench.vcenter.serve(book.id, tell=lambda line: click.echo(safe(line), err=True))
    announce_ssh(bench)
    means = Means(bench.vcenter, bench.shell, lambda *_: (), {}, {})
    owing = book.debts()
    _forget_gone(means, book)
    stopped = at_rest.come_to_rest(means, Deeds(means), book)
    seen = book.get("approved", {}).get("impact", {}).get("found", ())
    looks = {f["host"]["ref"] for f in seen if f.get("mig")}
    plan, estate, owed = bench.plan_again(loaded, book.debts(), looks)
    kept = {*owed.true, *owed.unclear, *stopped, *_still_going_down(book, plan)}
    for debt in (d for d in book.debts() if d not in kept and d.kind != "lock"):
        book.settle(debt)  # it was never made, or somebody has settled it
    missing = gone(loaded, owing, estate)
    for target in missing:
        click.echo(f"{safe(target.name)} is gone from the inventory since; left out", err=True)
    return plan, estate, missing


def _is_free(book: Journal) -> None:
    """`Conflict` when another run took over what this one owed and has not put it back: hosts would stay as they are.

    `Locked` when the run is under way: it may go without a lock. Called under the lock, so that nobody takes anything
    over meanwhile.
    """
    from vsphere_ai.journal import is_alive
    from vsphere_ai.past import heir, look

    if is_alive(book) and book.get("pid") != os.getpid():
        raise Locked(f"run {book.id} is under way in process {book.get('pid')}", "wait for its end, or stop it")
    found = heir(book.id, look())
    if found is not None:
        raise Conflict(
            f"run {found.run} took over what run {book.id} owed, and has not put all of it back",
            f"finish that one: vsphere-ai resume {found.run} (or go back to before it: vsphere-ai rollback "
            f"{found.run})",
        )


def _forget_gone(means: Means, book: Journal) -> None:
    """Nothing can be put back on what is not there any more."""
    owing = [d for d in book.debts() if d.kind != "lock"]
    refs = sorted({d.target.ref for d in owing})
    there = means.vcenter.read_objects(refs, {r.partition(":")[0]: ("name",) for r in refs}) if refs else {}
    for debt in (d for d in owing if d.target.ref not in there):
        book.settle(debt)


def _code_of(missing: tuple[Target, ...]) -> int:
    return LEFT_OUT if missing else 0


def _still_going_down(book: Journal, plan: Plan) -> Iterator[Debt]:
    """Yield the debts of VMs that run, though the run told their guests to shut down, and that the plan switches off.

    Whenever such a guest goes off from now on, even before it is told again, that is not somebody else's doing.
    """
    from vsphere_ai.steps import Lifecycle

    steps = (p.step for p in plan.steps)
    offs = {s.target.ref for s in steps if isinstance(s, Lifecycle) and s.action == "power-off"}
    for owed in at_rest.told_to_shut_down(book):
        if owed.debt.target.ref in offs:
            yield owed.debt


def _more(plan: Plan, book: Journal) -> bool:
    from vsphere_ai.past import doubts
    from vsphere_ai.resume import beyond, done_again

    found = beyond(plan, book.get("approved"))
    for line in found:
        click.echo(f"not approved then: {safe(line)}", err=True)
    undoing = doubts(book) if plan.steps else ()
    for line in undoing:
        click.echo(safe(line), err=True)
    verified = {s.target for s in book.done() if s.what == "as-planned"}
    again = done_again(plan, {(s.target, s.summary) for s in book.done() if s.target in verified})
    for line in again:
        click.echo(f"done by this run, and undone since: {safe(line)}", err=True)
    return bool(found or undoing or again)


def _reboots_again(plan: Plan, book: Journal, *, allowed: bool) -> bool:
    """Tell whether the plan reboots hosts that the run has rebooted already; `Conflict` when that is not allowed."""
    from vsphere_ai.resume import rebooted_twice

    rebooted = {s.target for s in book.done() if s.what == "reboot"}
    names = ", ".join(map(safe, rebooted_twice(plan, rebooted)))
    if names and not allowed:
        raise Conflict(
            f"{names} would reboot a second time in run {book.id}",
            "look at why the first reboot was not enough; then allow a second one with: "
            f"vsphere-ai resume {book.id} --reboot-again (or go back to before the run: vsphere-ai rollback {book.id})",
        )
    if names:
        click.echo(f"{names}: rebooted by run {book.id} already; a new run goes on from there", err=True)
    return bool(names)
