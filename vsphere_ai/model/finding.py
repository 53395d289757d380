"""Finding: what a rule, a check or a kind reports about one subject; its scale of verdicts, and its exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, Literal

from typing_extensions import TypeVar  # with a default, which Python has from 3.13 on

from vsphere_ai.errors import Mark
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.state import Target

Verdict = Literal["pass", "info", "warn", "unknown", "fail"]
VERDICTS: tuple[Verdict, ...] = ("pass", "info", "warn", "unknown", "fail")
"""From the best to the worst: what is not known ranks above a warning, because it may hide a failure."""
FailOn = Literal["warn", "unknown", "fail", "never"]
"""The least verdict that a command reports by its exit code."""


@dataclass(frozen=True, order=True)
class Subject:
    """What a finding is about besides a target of vCenter: an area of this machine, a line of a file, a part of a VM.

    `kind` is a word for people, such as ``area``, ``file`` or ``vm``. Of a VM as its guest shows it, `host` is where it
    runs and `part` the hardware or interface, with its address on the host where that is known. `mark` is the place in
    a file, None where there is none.
    """

    kind: str
    name: str
    ref: str = ""
    host: str = ""
    part: str = ""
    mark: Mark | None = None

    def __str__(self) -> str:
        return self.name


About = TypeVar("About", bound=Target | Subject | None, covariant=True, default=Target | Subject | None)


@dataclass(frozen=True)
class Finding(Generic[About]):
    """What one rule finds of one subject. A target of None is the vCenter, or all that a command is about.

    `rule` is stable and documented, `remedy` is what to do ("" for nothing). `evidence` holds pairs of a property path,
    or another name, and the value seen there. `source` is the public page that the rule stands on, or of what was
    measured the side that showed it. With `refuses` it stops a plan. `corrections` are what a playbook can do about it;
    they do not count when findings are compared.
    """

    target: About
    rule: str
    verdict: Verdict
    message: str
    remedy: str = ""
    evidence: tuple[tuple[str, str], ...] = ()
    source: str = ""
    refuses: bool = False
    corrections: tuple[Correction, ...] = field(default=(), compare=False)

    @staticmethod
    def problem(target: Target, rule: str, message: str, remedy: str = "") -> Problem:
        """Return the reason why a wanted state of a target cannot be reached: a failure that refuses a plan."""
        return Finding(target, rule, "fail", message, remedy, refuses=True)


Problem = Finding[Target]
"""A finding about a target that refuses a plan; `Finding.problem` makes it."""


def by_target(finding: Problem) -> tuple[Target, str, str, str]:
    """Return what findings about targets are sorted by: the target, then the rule and the texts."""
    return finding.target, finding.rule, finding.message, finding.remedy


def seriousness(finding: Finding) -> int:
    """Return the rank of a verdict; 0 is a pass. Sort by its negative to have the worst first."""
    return VERDICTS.index(finding.verdict)


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the worst verdict; a pass without any finding."""
    return worst_verdict(f.verdict for f in findings)


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of verdicts; a pass without any."""
    return max(verdicts, key=VERDICTS.index, default="pass")


def exit_code(findings: Iterable[Finding], fail_on: FailOn = "unknown") -> int:
    """Return the exit code of a command that reports findings: see `exit_code_of`."""
    return exit_code_of((finding.verdict for finding in findings), fail_on)


def exit_code_of(verdicts: Iterable[Verdict], fail_on: FailOn = "unknown") -> int:
    """Return the exit code of a command that reports verdicts: that of the worst one.

    0: nothing to report, or warnings only. 1: not known. 2: failed, or with `fail_on` ``warn`` a warning. Verdicts
    below `fail_on` do not count.
    """
    reported = worst_verdict(verdicts)
    if fail_on == "never" or VERDICTS.index(reported) < VERDICTS.index(fail_on):
        return 0
    return 1 if reported == "unknown" else 2
