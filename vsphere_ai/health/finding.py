"""Findings about VMs: the subject is a VM on its host, with the part that is meant; and how its GPUs are used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from vsphere_ai.documents.health import UseState
from vsphere_ai.model.finding import Finding, Subject, Verdict
from vsphere_ai.model.nodes import Node

Witness = Literal["guest", "host"]
VmFinding = Finding[Subject]
"""A finding about a VM. Its rule is the id of the check, its source the side that showed it."""
STEP, ON_TRIAL, COMMON = "step", "on trial", "common cause"
"""Names of evidence: the next step on NVIDIA's ladder; the verdict that a check on trial would have; of how many VMs a
check fails that fails on so many that none of them can be accused."""


@dataclass(frozen=True)
class VmJudge:
    """Makes the findings about one VM. `part` is hardware or an interface of it, with its address on the host.

    `side` is the one that showed what is wrong.
    """

    node: Node
    part: str = ""
    side: Witness = "guest"

    def __call__(self, check: str, verdict: Verdict, message: str, remedy: str = "", step: str = "") -> VmFinding:
        """Return what a check finds; `step` is the next one on NVIDIA's ladder, "" where that of the check holds."""
        on = Subject("vm", self.node.vm, host=self.node.host, part=self.part)
        return Finding(on, check, verdict, message, remedy, ((STEP, step),) if step else (), self.side)


def evidence_of(finding: Finding, name: str) -> str:
    """Return the value of a piece of evidence; "" where a finding has none of that name."""
    return next((value for path, value in finding.evidence if path == name), "")


def sentence(finding: VmFinding) -> str:
    """Return a finding in one sentence: which VM and part, what is wrong, and what to do."""
    vm = finding.target
    where = f"{vm.name} on {vm.host}" if vm.host else vm.name
    part = f", {vm.part}" if vm.part else ""
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return f"{where}{part}: {finding.message}{remedy}"


def names_of(findings: Iterable[VmFinding]) -> set[str]:
    """Return the names of the VMs that findings are about."""
    return {finding.target.name for finding in findings}


@dataclass(frozen=True)
class VmUse:
    """The use of the GPUs of a VM: `busy`, `idle`, `off` or `unknown`; idle at least since then."""

    vm: str
    host: str
    gpus: tuple[str, ...]
    state: UseState
    since: datetime | None = None
