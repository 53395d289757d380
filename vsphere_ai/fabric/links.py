"""Link of the path that RDMA traffic takes: its verdict, what was seen, and its fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.state import Target

Verdict = Literal["ok", "note", "broken", "unknown"]
VM_PART, PATH_PART, HOST_PART = "vm", "path", "host"


@dataclass(frozen=True)
class Fix:
    """The fix of a link: a target, a kind of the playbook, and its value as plain values."""

    target: Target
    kind: str
    value: Plain


@dataclass(frozen=True)
class Link:
    """One link. `part` is what it belongs to: the VM, the path to the physical NIC, or the host."""

    name: str
    verdict: Verdict
    seen: str
    part: str = PATH_PART
    rule: str = ""
    help: str = ""
    fix: Fix | None = None
    at: str = ""
    """The host that it is on, where that is not the one that the VM is on."""


@dataclass(frozen=True)
class LinkPlace:
    """Where a link is: its name, the part it belongs to, and the rule that `check` reports it under."""

    name: str
    part: str
    rule: str

    def link(self, verdict: Verdict, seen: str, help: str = "", fix: Fix | None = None) -> Link:
        """Return the link with what was seen there; one that is ok stands under no rule."""
        return Link(self.name, verdict, seen, self.part, "" if verdict == "ok" else self.rule, help, fix)


def why(facts: Facts, path: str) -> str:
    """Return why a property has no value."""
    return facts.unreadable.get(path, "vCenter shows no value")
