"""Compatibility findings as a table in text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from vsphere_ai.model.finding import Finding
from vsphere_ai.model.text import safe
from vsphere_ai.planning.document import FindingDocument

VERDICTS = ("fail", "unknown", "warn", "pass")


def findings_document(findings: Sequence[Finding], *, passes: bool = True) -> list[dict[str, Any]]:
    """Return findings as plain values, without those that passed where `passes` is false."""
    return [FindingDocument.of(f).as_json() for f in findings if passes or f.verdict != "pass"]


def findings_text(findings: Sequence[Finding], vcenter: str, *, passes: bool = True) -> str:
    """Return findings by target, the worst first, each with the evidence it stands on and its source."""
    lines: list[str] = []
    ordered = sorted(findings, key=_by_target)
    for name, own in groupby(ordered, key=lambda f: f.target.name if f.target else vcenter):
        shown = [f for f in own if passes or f.verdict != "pass"]
        if not shown:
            continue
        lines.append(safe(name))
        for finding in sorted(shown, key=lambda f: (VERDICTS.index(f.verdict), f.rule)):
            lines.append(f"  {finding.verdict:<8}{finding.rule:<22} {safe(finding.message)}")
            if finding.verdict != "pass":
                evidence = "; ".join(f"{path} = {value}" for path, value in finding.evidence)
                lines += [f"          evidence: {safe(evidence)}"] if evidence else []
                lines += [f"          {safe(finding.help)}"] if finding.help else []
                lines.append(f"          source: {safe(finding.source)}")
    count = {v: sum(f.verdict == v for f in findings) for v in VERDICTS}
    lines.append(", ".join(f"{n} {v}" for v, n in count.items() if n) or "nothing to check")
    return "\n".join(lines)


def _by_target(finding: Finding) -> tuple[int, str, str]:
    target = finding.target
    order = {"datacenter": 1, "host": 2, "vm": 3}
    return (0, "", "") if target is None else (order[target.kind], target.name, target.ref)
