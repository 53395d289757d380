"""Pages on the runs of this machine, from their journals; no vCenter is asked for them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from vsphere_ai import app
from vsphere_ai.model.text import counted
from vsphere_ai.report.pages.values import Report, ReportSection
from vsphere_ai.report.plans.run_list import runs_rows
from vsphere_ai.report.report_in import report_of

NEWEST = 8
"""Runs that the first page shows."""
MOST = 300
"""Runs that the list shows."""
FRESH = 5.0
"""Seconds for which the list is used again while no journal was written: a process may end without a last word."""
_HEADS = ("run", "state", "vCenter", "what", "by", "started (UTC)", "pending")


class Runs:
    """The list of the runs, read again only where a journal has changed: all of them are opened for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stamps: dict[str, tuple[int, ...]] | None = None
        self._read = 0.0
        self._rows: tuple[tuple[str, ...], ...] = ()
        self._unreadable = 0

    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Return a row per run, the newest first."""
        with self._lock:
            stamps = app.run_stamps()
            if stamps != self._stamps or time.monotonic() - self._read > FRESH:
                found = app.list_runs()
                self._rows = tuple(runs_rows(found.records[::-1], found.among))
                self._unreadable = len(found.unreadable)
                for record in found.records:
                    record.close()
                self._stamps, self._read = stamps, time.monotonic()
            return self._rows

    def section(self, most: int) -> ReportSection:
        """Return the newest runs as a table, each with a link to its page."""
        rows = self.rows()
        notes = [f"{len(rows) - most} earlier ones are not shown."] if len(rows) > most else []
        notes += [f"{self._unreadable} cannot be read: vsphere-ai run list names them."] if self._unreadable else []
        notes += [] if rows else ["None yet."]
        links = {row[0]: f"/runs/{row[0]}" for row in rows[:most]}
        return ReportSection("Runs on this machine", _HEADS, rows[:most], " ".join(notes), links=links)


def runs_report(runs: Runs) -> Report:
    """Return the list of runs."""
    rows, section = runs.rows(), runs.section(MOST)
    states = [row[1] for row in rows]
    alive, waiting = states.count("under way"), sum(s in ("unfinished", "stopped", "failed") for s in states)
    words = f"{counted(len(rows), 'run')}, {alive} under way, {waiting} to be finished"
    words = words if rows else "nothing was run here yet"
    return Report("Runs", words, "warn" if waiting else "pass", (), (section,))


def run_page(name: str) -> tuple[Report, bool]:
    """Return the report of a run, and whether it is under way in a process of this machine."""
    record = app.open_record(name)
    try:
        report, alive = report_of(record), app.is_alive(record)
    finally:
        record.close()
    if alive:
        report = replace(report, verdict=f"under way: {report.verdict.partition(': ')[2]}", status="unknown")
    return report, alive
