"""Fields of the vSphere API that came after 7.0.2.0, the oldest supported, and which of them a connection cannot see.

A client library sees only the fields it has tables for, and leaves out the others without an error. So a vCenter newer
than the installed pyVmomi has to be distinguished from one that lacks a field. Versions: pyVmomi's own type tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from vsphere_ai.model.dated_table import dated_table
from vsphere_ai.model.facts import About
from vsphere_ai.model.names.versions import numbers

UPDATE = "pip install --upgrade pyvmomi"


@dataclass(frozen=True)
class ApiField:
    """A field or method of the API by its WSDL names, the API version it came with, and what it is used for."""

    type: str
    name: str
    since: tuple[int, ...]
    purpose: str

    def __str__(self) -> str:
        return f"{self.type}.{self.name} ({self.purpose}, since API {'.'.join(map(str, self.since))})"


@cache
def api_fields() -> tuple[ApiField, ...]:
    """Return the fields and methods of the table."""
    entries = dated_table("model/estate/api_fields.yaml").values["fields"]
    return tuple(ApiField(**{**entry, "since": numbers(entry["since"]) or ()}) for entry in entries)


def unseen(about: About) -> Iterator[ApiField]:
    """Yield what the vCenter has and the installed pyVmomi cannot see."""
    return (f for f in api_fields() if about.api_numbers < f.since <= about.offered_numbers)


def why_missing(about: About, since: tuple[int, ...]) -> tuple[str, str]:
    """Say in words why something of an API version is not there, and what would help; the help is empty for "update".

    The vCenter is older, or pyVmomi is.
    """
    if about.api_numbers < since <= about.offered_numbers:
        words = f"vCenter offers API {about.offered_api}, the installed pyVmomi knows the API up to {about.api}"
        return words, f"update pyVmomi ({UPDATE})"
    return f"vCenter has API {about.api}", ""
