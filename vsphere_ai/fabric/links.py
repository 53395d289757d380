"""One link of the way RDMA takes, as it was found, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target

Verdict = Literal["ok", "note", "broken", "unknown"]
VM_PART, PATH_PART, HOST_PART = "vm", "path", "host"


@dataclass(frozen=True)
class Fix:
    """What a play has to say of a target to mend a link: kind, and its value as plain values."""

    target: Target
    kind: str
    value: Any


@dataclass(frozen=True)
class Link:
    """One link as it was found. `part` says whose it is: the VM's, the path's to the wire, or the host's."""

    name: str
    verdict: Verdict
    seen: str
    part: str = PATH_PART
    rule: str = ""
    help: str = ""
    fix: Fix | None = None


def why(facts: Facts, path: str) -> str:
    """Say why a property has no value."""
    return facts.unreadable.get(path, "vCenter shows no value")
