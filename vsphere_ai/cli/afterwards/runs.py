"""`vsphere-ai runs`: runs and their status; runs are closed, and old journals removed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.options import agreed, yes_option
from vsphere_ai.errors import UsageError
from vsphere_ai.model.text import counted

if TYPE_CHECKING:
    from vsphere_ai.runs.journal import Journal

HELP_ENTRY = "After a run", 10, "List runs and their status."
MOST = 3
"""Journals that cannot be read are named one by one up to here."""
UNITS = {"d": "days", "h": "hours"}


@click.group("runs", invoke_without_command=True)
@output_option(names="runs.run")
@click.pass_context
def command(context: click.Context, form: str) -> int:
    """List the runs on this machine, and how each ended. Asks no vCenter. `show RUN` shows one in full."""
    return _list(form) if context.invoked_subcommand is None else 0


def _list(form: str) -> int:
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.plans.run_record import runs_lines, summary

    found = app.list_runs()
    if form == "json":
        documents = [summary(each, found.among) for each in found.records]
        click.echo(json_text(runs=documents, unreadable=[t.message for t in found.unreadable]))
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


@command.command("close")
@click.argument("run")
@yes_option
def close(run: str, *, yes: bool) -> int:
    """Close RUN and discard its pending actions. Asks no vCenter and puts nothing back.

    Shows what is left open first. `resume RUN --cleanup` puts that back instead.
    """
    from vsphere_ai import app
    from vsphere_ai.report.plans.run_record import left_lines

    def confirm(record: Journal) -> bool:
        for line in left_lines(record):
            click.echo(line)
        return agreed("Close it and leave that as it is? Type yes to confirm", yes=yes)

    record, state = app.close_run(run, confirm)
    if state == "declined":
        click.echo("The run stays as it is.", err=True)
    elif state == "closed":
        click.echo(f"Run {record.id} is closed.")
    else:
        click.echo(f"Run {record.id} is over: {state.removeprefix('over: ')}.")
    return 0


@command.command("prune")
@click.option("--older-than", "age", default="90d", show_default=True, metavar="AGE", help="Such as 30d or 12h.")
@yes_option
def prune(age: str, *, yes: bool) -> int:
    """Remove the journals of runs that ended and have nothing pending. They cannot be shown or rolled back any more.

    A run with something pending stays, and so do the later ones on its vCenter: resuming it has to know their changes.
    """
    from vsphere_ai import app

    def confirm(found: Sequence[str]) -> bool:
        for run in found:
            click.echo(run)
        return agreed(f"Remove {counted(len(found), 'journal')}? Type yes to confirm", yes=yes)

    removed = app.prune_runs(_age(age), confirm)
    if removed is None:
        click.echo("Nothing was removed.", err=True)
    elif not removed:
        click.echo(f"no journal of a run that is over is older than {age}")
    return 0


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,5})([dh])", text)
    if found is None:
        raise UsageError(f"--older-than: {text} is not an age", "write days or hours, such as 30d or 12h")
    return timedelta(**{UNITS[found[2]]: int(found[1])})
