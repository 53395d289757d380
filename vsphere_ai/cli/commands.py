"""Commands that there are: a module of this folder with a line `HELP_ENTRY = section, place, text` is one.

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
    "Change the estate",
    "After a run",
    "Look, and compare",
    "Train",
    "Look up, without a connection",
)
"""The sections of `--help`, in the order an operator needs them."""
_ENTRY = re.compile(r"^HELP_ENTRY = (.+)$", re.MULTILINE)


class HelpEntry(NamedTuple):
    """Where `--help` lists a command: a section, the place in it, and one line of text."""

    section: str
    place: int
    text: str


@cache
def commands() -> Mapping[str, HelpEntry]:
    """Return every command by its name, that of its module with `-` for `_`, in the order of `--help`."""
    found: dict[str, HelpEntry] = {}
    for path in Path(__file__).parent.glob("*.py"):
        entry = _ENTRY.search(read_text(path, SMALL))
        if entry:
            found[path.stem.replace("_", "-")] = HelpEntry(*ast.literal_eval(entry[1]))
    return dict(sorted(found.items(), key=lambda item: (SECTIONS.index(item[1].section), item[1].place, item[0])))
