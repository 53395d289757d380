"""Tables of dated facts: YAML files of the package, each with what it is about and the day its sources were read.

What is newer than a table is unknown to it, and is never called wrong for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from vsphere_ai.model.tables import packaged_table


@dataclass(frozen=True)
class DatedTable:
    """A table: its `file` below the package, what it is `about` in words, and the day its sources were `read`."""

    file: str
    about: str
    read: date
    values: Mapping[str, Any]


@cache
def dated_table(file: str) -> DatedTable:
    """Return a table of the package, such as ``gpu/boards.yaml``; ValueError where it has no `about` or no `read`."""
    table = _table(file)
    if table is None:
        raise ValueError(f"{file}: a table of facts has 'about', and 'read', a date")
    return table


def dated_tables() -> tuple[DatedTable, ...]:
    """Return every table of the package that is dated, by its file."""
    tables = map(_table, _files(resources.files("vsphere_ai"), ""))
    return tuple(sorted((table for table in tables if table is not None), key=lambda table: table.file))


def _table(file: str) -> DatedTable | None:
    values: Any = packaged_table("vsphere_ai", file)
    is_dated = isinstance(values, dict) and isinstance(values.get("read"), date) and "about" in values
    return DatedTable(file, str(values["about"]), values["read"], values) if is_dated else None


def _files(folder: Traversable, path: str) -> Iterator[str]:
    for entry in folder.iterdir():
        name = f"{path}{entry.name}"
        if entry.is_dir():
            yield from _files(entry, f"{name}/")
        elif entry.name.endswith(".yaml"):
            yield name
