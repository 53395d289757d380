"""Runs on this machine: listed, opened, closed without cleanup, and removed when they are old and over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from vsphere_ai.errors import Locked, Storage
from vsphere_ai.runs import history, journal
from vsphere_ai.runs.history import RunSummary
from vsphere_ai.runs.journal import Journal
from vsphere_ai.runs.journal_files import is_named, stamps
from vsphere_ai.runs.locks import forget_run, hold_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from vsphere_ai.model.records.pending import Pending

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


@dataclass(frozen=True)
class ClosedRun:
    """What became of a run that was to be closed, the state that it has now, and what it had pending.

    `result` is ``over`` where there was nothing to close.
    """

    record: Journal
    result: Literal["closed", "declined", "over"]
    state: str
    pending: tuple[Pending, ...]


def close_run(run: str, confirm: Callable[[Journal], bool]) -> ClosedRun:
    """Give a run up after `confirm`: what is pending is not put back. `Locked` while it is under way."""
    record = journal.open_run(run)
    if journal.is_alive(record):
        text = f"run {record.id} is under way in process {record.run.pid}"
        raise Locked(text, "wait for its end, or stop it", rule="run.under-way")
    with hold_run(record.id):
        among, pending = history.look(), tuple(record.pending())
        seen = next(s for s in among if s.run == record.id)
        state = history.state_of(seen, among)
        if state in history.OVER and not seen.has_pending:
            return ClosedRun(record, "over", state, pending)
        if not confirm(record):
            return ClosedRun(record, "declined", state, pending)
        history.close(record)
    return ClosedRun(record, "closed", "closed", pending)


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
