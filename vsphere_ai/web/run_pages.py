"""Pages on the runs of this machine, from their journals; no vCenter is asked for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai import app
from vsphere_ai.report.pages.html import Link
from vsphere_ai.report.pages.run_page import run_report
from vsphere_ai.report.pages.values import Report, Section
from vsphere_ai.report.run_record import run_document, runs_rows

if TYPE_CHECKING:
    from vsphere_ai.app.run_list import RunList

NEWEST = 10
"""Runs that the first page shows."""
MOST = 500
"""Runs that the list shows, the newest of all."""
_HEADS = ("run", "state", "vCenter", "what", "by", "started (UTC)", "pending")


def runs_section(found: RunList, most: int) -> Section:
    """Return the newest runs as a table."""
    rows = runs_rows(found.records[::-1][:most], found.among)
    more = len(found.records) - len(rows)
    notes = [f"{more} earlier ones are not shown."] if more > 0 else []
    notes += [f"{len(found.unreadable)} cannot be read: vsphere-ai runs names them."] if found.unreadable else []
    return Section("Runs on this machine", _HEADS, tuple(rows), " ".join(notes) or ("" if rows else "None yet."))


def runs_report() -> Report:
    """Return the list of runs."""
    section = runs_section(app.list_runs(), MOST)
    waiting = sum(row[1] in ("unfinished", "stopped", "failed") for row in section.rows)
    words = f"{len(section.rows)} runs, {waiting} not over" if section.rows else "nothing was run here yet"
    return Report("Runs", words, "warn" if waiting else "pass", (), (section,))


def run_links() -> tuple[Link, ...]:
    """Return a link to each run of the list, in its order."""
    return tuple(Link(each.id, f"/runs/{each.id}") for each in app.list_runs().records[::-1][:MOST])


def run_page(name: str) -> tuple[Report, bool]:
    """Return the report of a run, and whether it is under way in a process of this machine."""
    record = app.open_record(name)
    try:
        report = run_report(run_document(record))
        alive = app.is_alive(record)
    finally:
        record.close()
    if alive:
        report = replace(report, verdict=f"under way: {report.verdict.partition(': ')[2]}", status="unknown")
    return report, alive
