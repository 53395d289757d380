"""`vsphere-ai run`: the runs of this machine: listed, shown, reported, closed, pruned; and the locks they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.afterwards.report import write_report
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option, show_document
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import (
    agreed,
    changes_nothing,
    dry_run_option,
    full_option,
    to_option,
    vcenter_options,
    width,
    yes_option,
)
from vsphere_ai.errors import UsageError
from vsphere_ai.model.text import counted, safe

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.app.runs.lock_state import LockState
    from vsphere_ai.runs.journal import Journal

HELP_ENTRY = "After a run", 10, "List, show, report and close runs; remove locks."
MOST = 3
"""Journals that cannot be read are named one by one up to here."""
UNITS = {"d": "days", "h": "hours"}


@click.group("run")
def command() -> None:
    """List, show, report and close runs of this machine, and remove locks.

    `resume` and `rollback` carry changes out, and so are commands of their own.
    """


@command.command("list")
@output_option(names="runs.run")
@changes_nothing
@example("run list")
def list_runs(form: str) -> int:
    """List the runs of this machine, and how each ended. Asks no vCenter.

    Exits 0, also where a journal cannot be read.
    """
    from vsphere_ai import app
    from vsphere_ai.report.plans.run_list import runs_lines, summary

    found = app.list_runs()
    if form == "json":
        from vsphere_ai.documents.runs.summaries import RunsDocument
        from vsphere_ai.report.json_text import json_text

        runs = tuple(summary(each, found.among) for each in found.records)
        click.echo(json_text(RunsDocument(runs=runs, unreadable=tuple(t.message for t in found.unreadable))))
        return 0
    for line in runs_lines(found.records, found.among):
        click.echo(line)
    for trouble in found.unreadable[:MOST]:
        click.echo(f"{trouble.message}\n  {trouble.remedy}", err=True)
    if len(found.unreadable) > MOST:
        click.echo(f"... and {len(found.unreadable) - MOST} more of this kind", err=True)
    if not found.records and not found.unreadable:
        click.echo("nothing was run here yet")
    return 0


@command.command("show")
@click.argument("run")
@full_option
@output_option()
@changes_nothing
@example("run show RUN")
def show(run: str, form: str, *, full: bool) -> int:
    """Show RUN: who ran what and when, what was approved, how each step ended, and what is still pending.

    RUN is the name of a run, or its beginning. Equal steps of several targets are one line; --full shows each. Asks no
    vCenter. Exits 0 whatever it shows.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.plans.run_record import record_text, run_document

    record = app.open_record(run)
    click.echo(json_text(run_document(record)) if form == "json" else record_text(record, width(), full=full))
    return 0


@command.command("report")
@click.argument("run")
@output_option("html", "markdown", "junit", "sarif", "ctrf")
@to_option("File of the report; standard output without it.")
@changes_nothing
@example("run report RUN --to run.html")
def report(run: str, form: str, to: Path | None) -> int:
    """Write a report of RUN. Asks no vCenter.

    HTML is one file that loads nothing; Markdown fits into a comment of a merge request. Exits 0 whatever it reports.
    """
    from vsphere_ai import app

    write_report(app.open_record(run), form, to)
    return 0


@command.command("close")
@click.argument("run")
@output_option()
@yes_option
@dry_run_option
@example("run close RUN --yes")
def close(run: str, form: str, *, yes: bool) -> int:
    """Close RUN and discard its pending actions. Asks no vCenter and puts nothing back.

    Shows what is left open first. `resume RUN --cleanup` puts that back instead.

    Exits 0, also when the answer is no.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.runs.closed import ClosedRunDocument, LeftOpenDocument
    from vsphere_ai.report.plans.run_record import left_lines

    def confirm(record: Journal) -> bool:
        for line in left_lines(record):
            click.echo(line, err=form == "json")
        return agreed("Close it and leave that as it is? Type yes to confirm", yes=yes)

    closed = app.close_run(run, confirm)
    name, lines = closed.record.id, []
    if closed.result == "declined":
        click.echo("The run stays as it is.", err=True)
    elif closed.result == "closed":
        lines = [f"Run {name} is closed."]
    else:
        lines = [f"Run {name} is over: {closed.state}."]
    pending = tuple(LeftOpenDocument(kind=each.kind, name=each.target.name) for each in closed.pending)
    show_document(form, ClosedRunDocument(run=name, result=closed.result, state=closed.state, pending=pending), *lines)
    return 0


@command.command("prune")
@click.option("--older-than", "age", default="90d", show_default=True, metavar="AGE", help="Such as 30d or 12h.")
@output_option(names="runs")
@yes_option
@dry_run_option
@example("run prune --older-than 30d --dry-run")
def prune(age: str, form: str, *, yes: bool) -> int:
    """Remove the journals of runs that ended and have nothing pending. They cannot be shown or rolled back any more.

    A run with something pending stays, and so do the later ones on its vCenter: resuming it has to know their changes.

    Exits 0, also when the answer is no.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.runs.closed import PrunedRunsDocument

    runs: list[str] = []

    def confirm(found: Sequence[str]) -> bool:
        runs.extend(found)
        for run in found:
            click.echo(run, err=form == "json")
        return agreed(f"Remove {counted(len(found), 'journal')}? Type yes to confirm", yes=yes)

    removed = app.prune_runs(_age(age), confirm)
    if removed is None:
        click.echo("Nothing was removed.", err=True)
    none = [] if runs else [f"no journal of a run that is over is older than {age}"]
    show_document(form, PrunedRunsDocument(runs=tuple(runs), removed=bool(removed)), *none)
    return 0


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,5})([dh])", text)
    if found is None:
        raise UsageError(f"--older-than: {text} is not an age", "write days or hours, such as 30d or 12h")
    return timedelta(**{UNITS[found[2]]: int(found[1])})


@command.command("unlock")
@vcenter_options
@output_option()
@yes_option
@dry_run_option
@example("run unlock --dry-run")
def unlock(estate: EstateRequest, form: str, yes: bool) -> int:
    """Show who holds the locks of a vCenter, and remove the one in vCenter after asking.

    The lock on this machine ends with its process, so there is nothing to remove. A lock in vCenter whose holder runs
    on this machine is not removed. What runs have out of service is named, and stays written in vCenter.

    Exits 0 whether there was a lock or not, and 7 where its holder still works.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text

    def confirm() -> bool:
        question = "Remove the lock in vCenter? A run that still works is stopped by that. Type yes to confirm"
        answer = agreed(question, yes=yes, instead="give --yes once you know that the holder is gone")
        if not answer:
            click.echo("Nothing was changed.", err=True)
        return answer

    def shown(state: LockState) -> None:
        if form == "text":
            here, there = state.lines()
            click.echo(f"this machine  {safe(here)}\nvCenter       {safe(there)}")
            for line in state.out:
                click.echo(f"! {safe(line)}")

    request = app.UnlockRequest(confirm, estate)
    state, removed = app.unlock(request, shown, show_event)
    if form == "json":
        click.echo(json_text(state.document(removed=removed)))
    elif removed:
        click.echo("The lock in vCenter was removed.")
    return 0
