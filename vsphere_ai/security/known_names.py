"""Names seen last: those of the targets of each vCenter, for the completion of names by a shell.

One file per vCenter, a kind and a name in each line, readable for its owner only, in the folder ``names`` of the state
folder. They are a help for typing and nothing else: no command reads a target's name from here, and one that cannot be
written is not missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from vsphere_ai.errors import Storage
from vsphere_ai.security.files import STATE, read_text, write_private
from vsphere_ai.security.state_dir import file_name, own_folder, state_dir

NameKind = Literal["datacenter", "host", "vm"]
MOST = 20_000
"""Names of a kind that are kept per vCenter: what a shell can still offer."""
FOLDER = "names"


def remember(instance: str, names: Mapping[NameKind, Iterable[str]]) -> None:
    """Keep the names of a vCenter's targets; `instance` is its instance UUID. A failure is no error."""
    lines = (f"{kind} {name}\n" for kind, own in names.items() for name in sorted(set(own))[:MOST])
    text = "".join(line for line in lines if line.count("\n") == 1)
    with suppress(OSError, Storage):
        path = own_folder(FOLDER) / f"{file_name(instance)}.txt"
        if _text(path) != text:
            write_private(path, text.encode())


def names_of(*kinds: NameKind) -> list[str]:
    """Return the names of these kinds, of all vCenters; none where none was seen."""
    found: set[str] = set()
    for path in (state_dir() / FOLDER).glob("*.txt"):
        lines = (line.partition(" ") for line in _text(path).split("\n"))
        found.update(name for kind, _, name in lines if kind in kinds)
    return sorted(found)


def run_ids() -> list[str]:
    """Return the ids of the runs on this machine, the newest first."""
    found = [path for path in (state_dir() / "runs").glob("*.db") if path.is_file()]
    return [path.stem for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]


def _text(path: Path) -> str:
    try:
        return read_text(path, STATE, "replace")
    except OSError:
        return ""
