"""`vsphere-ai runs close` and `runs prune`: a run is given up, and the journals of old ones are removed."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from vsphere_ai.errors import Locked, UsageError

if TYPE_CHECKING:
    from vsphere_ai.runs.journal import Journal

UNITS = {"d": "days", "h": "hours"}


@click.command("close")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
def close(run: str, *, yes: bool) -> int:
    """Give RUN up: it is over, whatever is left of it. Asks no vCenter and puts nothing back.

    Shows what is left open first. `resume RUN --cleanup` puts that back instead.
    """
    from vsphere_ai.runs import history, journal
    from vsphere_ai.runs.locks import hold_run

    record = journal.open_run(run)
    if journal.is_alive(record):
        raise Locked(
            f"run {record.id} is under way in process {record.run.pid}",
            "wait for its end, or stop it",
            rule="run.under-way",
        )
    with hold_run(record.id):
        among = history.look()
        seen = next(s for s in among if s.run == record.id)
        if history.state_of(seen, among) in history.OVER and not seen.has_pending:
            click.echo(f"Run {record.id} is over: {history.state_of(seen, among)}.")
            return 0
        for line in _left(record):
            click.echo(line)
        if not _agreed("Close it and leave that as it is? Only 'yes' is accepted", yes=yes):
            click.echo("The run stays as it is.", err=True)
            return 0
        history.close(record)
    click.echo(f"Run {record.id} is closed.")
    return 0


def _left(record: Journal) -> list[str]:
    from vsphere_ai.model.text import safe
    from vsphere_ai.planning.document import Approved
    from vsphere_ai.report.run_record import PENDING

    begun = {s.id for s in record.steps() if s.state == "done"}
    undone = sum(s.id not in begun for s in Approved.read(record.documents.approved).steps)
    lines = [f"  ! {safe(d.target.name)} {PENDING.get(d.kind, d.kind)}" for d in record.pending()]
    count = f", {undone} of its steps not done" if undone and len({s.attempt for s in record.steps()}) < 2 else ""
    if not lines:
        return [f"Run {record.id} ({safe(record.run.what)}) has left nothing open{count}."]
    return [f"Run {record.id} ({safe(record.run.what)}) has left open{count}:", *lines,
            f"To put that back instead: vsphere-ai resume {record.id} --cleanup"]  # fmt: skip


@click.command("prune")
@click.option("--older-than", "age", default="90d", show_default=True, metavar="AGE", help="Such as 30d or 12h.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def prune(age: str, *, yes: bool) -> int:
    """Remove the journals of runs that ended and owe nothing. They cannot be shown or rolled back any more.

    A run that owes something stays, and so do the later ones on its vCenter: resuming it has to know what they changed.
    """
    from vsphere_ai.runs import history, journal
    from vsphere_ai.runs.locks import forget_run, hold_run

    before = (datetime.now(UTC) - _age(age)).isoformat(timespec="milliseconds")
    found = [s.run for s in history.prunable(history.look(), before)]
    if not found:
        click.echo(f"no journal of a run that is over is older than {age}")
        return 0
    for run in found:
        click.echo(run)
    if not _agreed(f"Remove {len(found)} journal{'' if len(found) == 1 else 's'}? Only 'yes' is accepted", yes=yes):
        click.echo("Nothing was removed.", err=True)
        return 0
    for run in found:
        with hold_run(run):
            # another command may have continued it since
            if any(s.run == run for s in history.prunable(history.look(), before)):
                journal.remove(run)
                forget_run(run)
    return 0


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,5})([dh])", text)
    if found is None:
        raise UsageError(f"--older-than: {text} is not an age", "write days or hours, such as 30d or 12h")
    return timedelta(**{UNITS[found[2]]: int(found[1])})


def _agreed(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", "give --yes", rule="usage.no-terminal")
    answer = click.prompt(question, default="", show_default=False, err=True)
    return bool(answer.strip() == "yes")
