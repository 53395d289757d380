"""Commands that there are: a module of the folders here with a line `HELP_ENTRY = section, place, text` is one.

The lines are read, the modules not imported: `--help` has to be quick, and a command loads what it needs and no more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vsphere_ai.security.files import SMALL, read_text

SECTIONS = (
    "Set up",
    "Change the environment",
    "After a run",
    "Look, and compare",
    "Train",
    "Look up, without a connection",
)
"""The sections of `--help`, in the order an operator needs them."""
_FOLDER = Path(__file__).parent
_NAME = re.compile(r"[a-z0-9-]+")
_ENTRY = re.compile(r"^HELP_ENTRY = (.+)$", re.MULTILINE)


class HelpEntry(NamedTuple):
    """Where `--help` lists a command (a section, the place in it, one line of text), and its module."""

    section: str
    place: int
    text: str
    module: str
    """The full name of the module whose `command` it is."""


@cache
def commands() -> Mapping[str, HelpEntry]:
    """Return every command by its name, that of its module with `-` for `_`, in the order of `--help`."""
    entries = {path.stem.replace("_", "-"): entry for path in _FOLDER.rglob("*.py") if (entry := _entry(path))}
    return dict(sorted(entries.items(), key=lambda item: (SECTIONS.index(item[1].section), item[1].place, item[0])))


@cache
def command_entry(name: str) -> HelpEntry | None:
    """Return the entry of one command, of which alone the file is read; None where there is no such command."""
    if not _NAME.fullmatch(name):
        return None
    return next((e for path in _FOLDER.rglob(f"{name.replace('-', '_')}.py") if (e := _entry(path))), None)


def _entry(path: Path) -> HelpEntry | None:
    line = _ENTRY.search(read_text(path, SMALL))
    if line is None:
        return None
    section, place, text = ast.literal_eval(line[1])
    return HelpEntry(
        section, place, text, ".".join(("vsphere_ai.cli", *path.relative_to(_FOLDER).with_suffix("").parts))
    )
