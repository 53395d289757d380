"""`vsphere-ai resume` and `vsphere-ai rollback`: bring a run to its end, or back to where it began."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.apply import approve
from vsphere_ai.cli.options import format_option, hush, open_bench
from vsphere_ai.cli.running import Way, carry_out
from vsphere_ai.errors import Conflict
from vsphere_ai.report.values import safe

if TYPE_CHECKING:
    from vsphere_ai.journal import Journal
    from vsphere_ai.plan import Plan
    from vsphere_ai.workbench import Workbench


HEARTBEAT = 8.0
NEVER_DOWN = 120.0
"""Seconds after which a host that stayed up was never told to reboot; esxcli's delay is much shorter."""


@click.command("resume")
@click.argument("run", required=False, default="")
@format_option("text", "json")
@click.option("--yes", is_flag=True, help="Do not ask, even when there is more to do than was approved.")
def command(run: str, form: str, yes: bool) -> int:
    """Bring RUN, or the latest unfinished run, to its end.

    Reads the world again, plans what is left of what was approved, and puts back what the run owes: hosts in
    maintenance mode, SSH that was started, VMs that were switched off. Asks again when there is more to do.
    """
    from vsphere_ai import journal
    from vsphere_ai.report import plan_json

    book = journal.open_run(run)
    loaded = _playbook(book, "desired")
    shared = _shared(book)
    with open_bench(shared, loaded) as bench, _held(bench, book):
        _await_reboots(bench, book)
        _start_ssh_again(bench, book)
        plan, estate, owed = bench.plan_again(loaded, book.debts())
        hush()
        for debt in (d for d in book.debts() if d not in owed.true):
            book.settle(debt)  # it was never made, or somebody has settled it
        _refuse_second_reboot(plan, book)
        if not approve(plan, plan_json.digest(plan), form, yes=yes or not _more(plan, book)):
            if not plan.steps:
                book.set(ended=True, exit_code=0)
            return 0
        return carry_out(bench, loaded, plan, estate, Way(form, book.get("what", ""), shared, book))


@click.command("rollback")
@click.argument("run")
@format_option("text", "json")
@click.option("--yes", is_flag=True, help="Do not ask.")
def rollback(run: str, form: str, yes: bool) -> int:
    """Go back to what RUN found before it changed anything; shown and approved like any plan.

    A hardware version cannot go back, and settings that only follow from others (reservations, MMIO) stay.
    """
    from vsphere_ai import journal
    from vsphere_ai.report import plan_json

    book = journal.open_run(run)
    loaded = _playbook(book, "before")
    shared = _shared(book)
    with open_bench(shared, loaded) as bench, _held(bench, book):
        plan, estate = bench.plan(loaded)
        hush()
        if not approve(plan, plan_json.digest(plan), form, yes=yes):
            return 0
        return carry_out(bench, loaded, plan, estate, Way(form, f"rollback {book.id}", shared))


def _playbook(book: Journal, key: str) -> Any:
    from vsphere_ai.playbook import from_document
    from vsphere_ai.resources import kinds

    return from_document(book.get(key), kinds())


def _shared(book: Journal) -> dict[str, Any]:
    scope = book.get("scope", {})
    return {"inventory": Path(book.get("inventory")), "vcenter": scope.get("vcenter", ""), "start_ssh": True,
            "limit": scope.get("limit", ""), "parallel": 8}  # fmt: skip


def _held(bench: Workbench, book: Journal) -> Any:
    from vsphere_ai.locks import hold

    if bench.vcenter.about.instance != book.get("instance"):
        raise Conflict(f"run {book.id} was on another vCenter than this inventory leads to now", "check the inventory")
    return hold(bench.vcenter.about.instance, book.id)


def _await_reboots(bench: Workbench, book: Journal) -> None:
    """A host that was told to reboot is waited for before anything is read of it."""
    from vsphere_ai.deeds import Deeds
    from vsphere_ai.deeds.means import Means
    from vsphere_ai.steps import Wait

    for debt in (d for d in book.debts() if d.kind == "reboot"):
        deeds = Deeds(Means(bench.vcenter, bench.shell, lambda _: (), {}, {}))
        deeds.remember_boot(debt.target, debt.detail)
        options = {"timeout": 1800, "unless_never_down": NEVER_DOWN}
        wait = Wait(target=debt.target, until="host-back", options=options, summary="wait until the host is back")
        click.echo(f"{safe(debt.target.name)}: waiting for the reboot of run {book.id}", err=True)
        deeds.do(wait, _sign_of_life(debt.target.name))
        book.settle(debt)


def _sign_of_life(name: str) -> Callable[[str], None]:
    """Return a function that passes on what is said about a host, but not more often than every few seconds."""
    said = time.monotonic()

    def say(text: str) -> None:
        nonlocal said
        if time.monotonic() - said > HEARTBEAT:
            said = time.monotonic()
            click.echo(f"{name}: {text}", err=True)

    return say


def _start_ssh_again(bench: Workbench, book: Journal) -> None:
    """SSH that was running before a reboot of this run runs again, whatever else there is to do."""
    from vsphere_ai.deeds import Deeds
    from vsphere_ai.deeds.means import Means

    deeds = Deeds(Means(bench.vcenter, bench.shell, lambda _: (), {}, {}))
    for debt in (d for d in book.debts() if d.kind == "ssh-on"):
        deeds.switch_ssh(debt.target, running=True)
        book.settle(debt)


def _more(plan: Plan, book: Journal) -> bool:
    from vsphere_ai.resume import beyond

    found = beyond(plan, book.get("approved"))
    for line in found:
        click.echo(f"not approved then: {safe(line)}", err=True)
    return bool(found)


def _refuse_second_reboot(plan: Plan, book: Journal) -> None:
    from vsphere_ai.resume import rebooted_twice

    done = [(s.target, s.summary) for s in book.steps() if s.state == "done"]
    twice = rebooted_twice(plan, done)
    if twice:
        raise Conflict(
            f"{', '.join(twice)} would reboot a second time in run {book.id}",
            "look at why the first reboot was not enough, then use apply",
        )
