"""Findings of checks: a verdict about a VM, the part of its host that it concerns, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Verdict = Literal["ok", "info", "warn", "unknown", "fail"]
Witness = Literal["guest", "host"]
VERDICTS: tuple[Verdict, ...] = ("ok", "info", "warn", "unknown", "fail")
"""From the best to the worst: what could not be measured is worse than a warning, because it may hide a failure."""


@dataclass(frozen=True)
class Finding:
    """What a check found of a VM. `part` names the hardware or interface, with its address on the host where known.

    `check` is the id of the check, `witness` the side that was asked. `host` is empty where the VM has none. `step` is
    the next one on NVIDIA's ladder, empty where the check says it. `shadow`: the check is on trial, and does not count;
    `common`: so many VMs have it that it is a finding about the estate.
    """

    check: str
    verdict: Verdict
    vm: str
    host: str
    message: str
    remedy: str = ""
    part: str = ""
    witness: Witness = "guest"
    step: str = ""
    shadow: bool = False
    common: bool = False

    @property
    def text(self) -> str:
        """One sentence: where, what, and what to do."""
        where = f"{self.vm} on {self.host}" if self.host else self.vm
        part = f", {self.part}" if self.part else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{where}{part}: {self.message}{remedy}"


@dataclass(frozen=True)
class VmUse:
    """The use of the GPUs of a VM: `busy`, `idle`, `off` or `unknown`; idle at least since then."""

    vm: str
    host: str
    gpus: tuple[str, ...]
    state: str
    since: datetime | None = None


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the worst verdict, `ok` without any finding."""
    return max((f.verdict for f in findings), key=VERDICTS.index, default="ok")
