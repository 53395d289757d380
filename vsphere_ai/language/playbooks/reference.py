"""References ``${ref:PLAYBOOK.NAME}`` to outputs of other playbooks: their grammar, and the file that each names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vsphere_ai.errors import Mark
from vsphere_ai.model.variables import Value
from vsphere_ai.security.files import is_below

PREFIX = "ref:"
_NAMED = re.compile(r"([^\0]+)\.([a-z][a-z0-9_]{0,39})")
SUFFIXES = ("", ".yml", ".yaml")


@dataclass(frozen=True)
class Reference:
    """A reference as it is written, and its place; `file` is the other playbook, `name` its output."""

    text: str
    file: Path
    name: str
    mark: Mark


class Unresolved(ValueError):
    """A reference that has no value; `help` is what would work."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message, self.help = message, help


Resolve = Callable[[Reference], Value]


def unresolved(reference: Reference) -> Value:
    """Raise `Unresolved`: no vCenter is asked."""
    raise Unresolved(f"{reference.text} has no value where no vCenter is asked")


def reference(text: str, mark: Mark) -> Reference:
    """Return the reference that a text such as ``${ref:network.lan}`` is; `Unresolved` where it is none."""
    named = _NAMED.fullmatch(text[len("${" + PREFIX) : -1].strip())
    help = "write e.g. ${ref:network.rdma_port_group}: a playbook beside this one, and one of its outputs"
    if named is None:
        raise Unresolved(f"'{text}' does not name a playbook and an output", help)
    folder = Path(mark.file).parent
    beside = [folder / f"{named[1]}{suffix}" for suffix in SUFFIXES]
    try:
        file = next((f for f in beside if f.is_file()), None)
    except (OSError, ValueError):
        file = None
    if file is None:
        raise Unresolved(f"there is no playbook {beside[1]}", help)
    if not is_below(folder, file):
        raise Unresolved(f"{file} is not below the folder of {mark.file}", "put it beside this playbook")
    return Reference(text, file, named[2], mark)
