"""Age of the tables of public facts that come with this release, as findings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from vsphere_ai.model.dated_table import dated_tables
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.text import counted

OLD_DAYS = 365
"""A table older than this lacks a generation of GPUs or a release of vSphere: both come once a year or more often."""


def fact_ages(today: date) -> Iterator[Finding]:
    """Yield each table with its age; what is newer than it is never called wrong for that."""
    for table in dated_tables():
        days = (today - table.read).days
        message = f"{table.about}: as of {table.read.isoformat()}, {counted(max(days, 0), 'day')} old"
        old = days > OLD_DAYS
        remedy = "update vsphere-ai: what is newer is not known, and not called wrong" if old else ""
        yield Finding(Subject("area", "facts"), "doctor.facts", "info" if old else "pass", message, remedy)
