"""Link of the path that RDMA traffic takes: the finding about it, and its fix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding, Subject, Verdict

VM_PART, PATH_PART, HOST_PART = "vm", "path", "host"


@dataclass(frozen=True)
class Link:
    """One link, and the finding about it, whose subject bears its name and the host where that is not the VM's.

    A link that fails is broken. `part` is what it belongs to: the VM, the path to the physical NIC, or the host.
    """

    finding: Finding[Subject]
    part: str = PATH_PART
    fix: Correction | None = None

    @property
    def name(self) -> str:
        """The name of the link, such as ``MTU``."""
        return self.finding.target.name

    @property
    def at(self) -> str:
        """The host that it is on, where that is not the one that the VM is on."""
        return self.finding.target.host

    @property
    def verdict(self) -> Verdict:
        """The verdict of its finding."""
        return self.finding.verdict

    @property
    def seen(self) -> str:
        """What was read there."""
        return self.finding.message

    @property
    def is_faulty(self) -> bool:
        """Whether it is broken, or may be."""
        return self.verdict in ("fail", "unknown")

    def with_fix(self, fix: Correction | None, remedy: str = "") -> Self:
        """Return the link with another fix, and what to do beside it."""
        return replace(self, finding=replace(self.finding, remedy=remedy), fix=fix)

    def on(self, host: str) -> Self:
        """Return the link as one of another host than that of the VM, which its text names then."""
        subject = replace(self.finding.target, host=host)
        return replace(self, finding=replace(self.finding, target=subject, message=f"{host}: {self.seen}"))


@dataclass(frozen=True)
class LinkPlace:
    """Where a link is: its name, the part it belongs to, and the rule that `check` reports it under."""

    name: str
    part: str
    rule: str

    def link(self, verdict: Verdict, seen: str, remedy: str = "", fix: Correction | None = None) -> Link:
        """Return the link with what was seen there."""
        return Link(Finding(Subject("link", self.name), self.rule, verdict, seen, remedy), self.part, fix)


def why(facts: Facts, path: str) -> str:
    """Return why a property has no value."""
    return facts.unreadable.get(path, "vCenter shows no value")
