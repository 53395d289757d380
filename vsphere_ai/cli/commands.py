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
    here = Path(__file__).parent
    found: dict[str, HelpEntry] = {}
    for path in here.rglob("*.py"):
        entry = _ENTRY.search(read_text(path, SMALL))
        if entry:
            module = ".".join(("vsphere_ai.cli", *path.relative_to(here).with_suffix("").parts))
            section, place, text = ast.literal_eval(entry[1])
            found[path.stem.replace("_", "-")] = HelpEntry(section, place, text, module)
    return dict(sorted(found.items(), key=lambda item: (SECTIONS.index(item[1].section), item[1].place, item[0])))
