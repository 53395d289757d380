"""Tables of public facts that come with this release: what each is about, its sources, and the day it was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from vsphere_ai.model.bounded import yaml_value
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.text import counted

OLD_DAYS = 365
"""A table older than this lacks a generation of GPUs or a release of vSphere: both come once a year or more often."""


@dataclass(frozen=True)
class DatedFacts:
    """A table: `file` below the package, `about` in words, the day on which its sources were `read`."""

    file: str
    about: str
    read: date


def dated_facts() -> tuple[DatedFacts, ...]:
    """Return every table of the package that has the day on which it was read, by its file."""
    return tuple(sorted(_tables(resources.files("vsphere_ai"), ""), key=lambda table: table.file))


def fact_ages(today: date) -> Iterator[Finding]:
    """Yield each table with its age; what is newer than it is never called wrong for that."""
    for table in dated_facts():
        days = (today - table.read).days
        message = f"{table.about}: as of {table.read.isoformat()}, {counted(max(days, 0), 'day')} old"
        old = days > OLD_DAYS
        remedy = "update vsphere-ai: what is newer is not known, and not called wrong" if old else ""
        yield Finding(Subject("area", "facts"), "doctor.facts", "info" if old else "pass", message, remedy)


def _tables(folder: Traversable, path: str) -> Iterator[DatedFacts]:
    for entry in folder.iterdir():
        name = f"{path}{entry.name}"
        if entry.is_dir():
            yield from _tables(entry, f"{name}/")
        elif entry.name.endswith(".yaml"):
            table: Any = yaml_value((resources.files("vsphere_ai") / name).read_text("utf-8"))
            if isinstance(table, dict) and isinstance(table.get("read"), date):
                yield DatedFacts(name, str(table["about"]), table["read"])
