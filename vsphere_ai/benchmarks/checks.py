"""Findings about a measurement: what could not be measured is worse than a warning, and has not passed."""

from __future__ import annotations

from collections.abc import Iterable

from vsphere_ai.model.finding import Finding, Verdict


def of_run(rule: str, verdict: Verdict, message: str, remedy: str = "") -> Finding:
    """Return what was noticed about a run or its result as a whole."""
    return Finding(None, rule, verdict, message, remedy)


def is_passed(findings: Iterable[Finding]) -> bool:
    """Return whether nothing failed and nothing that had to be measured is missing."""
    return not any(f.verdict in ("fail", "unknown") for f in findings)
