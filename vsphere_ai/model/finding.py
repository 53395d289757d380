"""Finding of a compatibility rule (verdict, evidence and source for one target), and answer of a check of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vsphere_ai.model.state import Target

Verdict = Literal["pass", "warn", "fail", "unknown"]
Health = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """The result of one rule for one target; a target of None is the vCenter. With `refuses` it stops a plan.

    `evidence` holds pairs of a property path and the value seen there. ValueError: a verdict without evidence.
    """

    target: Target | None
    rule: str
    verdict: Verdict
    message: str
    evidence: tuple[tuple[str, str], ...]
    source: str
    help: str = ""
    refuses: bool = False

    def __post_init__(self) -> None:
        if self.verdict != "unknown" and not self.evidence:
            raise ValueError(f"{self.rule}: a verdict of {self.verdict} needs evidence")


@dataclass(frozen=True)
class Check:
    """One answer of `doctor`: what was looked at, how it is, and what to do about it (empty: nothing)."""

    area: str
    verdict: Health
    message: str
    remedy: str = ""
