"""Runs on this machine: listed, opened, closed without cleanup, and removed when they are old and over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from vsphere_ai.errors import Locked, Storage
from vsphere_ai.runs import history, journal
from vsphere_ai.runs.history import RunSummary
from vsphere_ai.runs.journal import Journal
from vsphere_ai.runs.journal_files import is_named, stamps
from vsphere_ai.runs.locks import forget_run, hold_run

if TYPE_CHECKING:
    from collections.abc import Callable

is_alive = journal.is_alive
is_recorded = is_named
open_record = journal.open_run
run_stamps = stamps


@dataclass(frozen=True)
class RunList:
    """The records of this machine, how each stands among the others, and what cannot be read."""

    records: tuple[Journal, ...]
    among: tuple[RunSummary, ...]
    unreadable: tuple[Storage, ...]


def list_runs() -> RunList:
    """Return every run of this machine, the oldest first. Asks no vCenter."""
    among = history.look()
    return RunList(tuple(journal.every()), among, journal.unreadable())


def close_run(run: str, confirm: Callable[[Journal], bool]) -> tuple[Journal, str]:
    """Give a run up after `confirm`: what is pending is not put back.

    Returns its record and what became of it: ``closed``, ``declined``, or ``over:`` and the state it had before.
    `Locked` while it is under way.
    """
    record = journal.open_run(run)
    if journal.is_alive(record):
        text = f"run {record.id} is under way in process {record.run.pid}"
        raise Locked(text, "wait for its end, or stop it", rule="run.under-way")
    with hold_run(record.id):
        among = history.look()
        seen = next(s for s in among if s.run == record.id)
        if history.state_of(seen, among) in history.OVER and not seen.has_pending:
            return record, f"over: {history.state_of(seen, among)}"
        if not confirm(record):
            return record, "declined"
        history.close(record)
    return record, "closed"


def prune_runs(age: timedelta, confirm: Callable[[Sequence[str]], bool]) -> tuple[str, ...] | None:
    """Remove the records of runs that ended that long ago and have nothing pending, after `confirm`.

    Returns the names that were found; None when `confirm` declined.
    """
    before = (datetime.now(UTC) - age).isoformat(timespec="milliseconds")
    found = tuple(s.run for s in history.prunable(history.look(), before))
    if found and not confirm(found):
        return None
    for run in found:
        with hold_run(run):
            # another command may have continued it since
            if any(s.run == run for s in history.prunable(history.look(), before)):
                journal.remove(run)
                forget_run(run)
    return found
