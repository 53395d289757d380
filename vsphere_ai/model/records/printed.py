"""Document that a command printed as JSON: of which command, and its values, which are from outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

COMMANDS: Mapping[str, tuple[str, Collection[str]]] = {
    "check": ("check", ("verdict", "findings")),
    "trace": ("rdma trace", ("vcenter", "traces", "pairs", "playbook")),
    "capacity": ("capacity", ("vcenter", "hosts")),
    "fleet": ("fleet plan", ("fleet_version", "shards", "totals")),
}
"""Name of a document -> the command that prints it, and the keys by which it is known."""


class PrintedDocument(NamedTuple):
    """A document: its name (a key of `COMMANDS`), its values, and the file that it was read from."""

    name: str
    values: Mapping[str, Any]
    file: str

    @property
    def command(self) -> str:
        """The command that prints such documents."""
        return COMMANDS[self.name][0]


def printed(values: object, file: str) -> PrintedDocument | None:
    """Return a document that one of `COMMANDS` printed; None where it is none of them."""
    if not isinstance(values, dict) or "schema_version" not in values:
        return None
    names = (name for name, (_, keys) in COMMANDS.items() if set(keys) <= values.keys())
    name = next(names, None)
    return PrintedDocument(name, values, file) if name else None
