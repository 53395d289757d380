"""Findings about a measurement: what could not be measured is worse than a warning, and has not passed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vsphere_ai.model.finding import Finding, Subject, Verdict
from vsphere_ai.model.nodes import Node


def of_run(rule: str, verdict: Verdict, message: str, remedy: str = "") -> Finding:
    """Return what was noticed about a run or its result as a whole."""
    return Finding(None, rule, verdict, message, remedy)


def of_node(node: Node, part: str = "") -> Subject:
    """Return a VM on its host, or a part of it, as what a finding is about."""
    return Subject("vm", node.vm, node.ref, node.host, part)


def about(subject: Subject, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with this subject."""
    return tuple(replace(each, target=subject) for each in findings)


def is_passed(findings: Iterable[Finding]) -> bool:
    """Return whether nothing failed and nothing that had to be measured is missing."""
    return not any(f.verdict in ("fail", "unknown") for f in findings)


def or_passed(findings: Iterable[Finding], message: str, subject: Subject | None = None) -> tuple[Finding, ...]:
    """Return findings, and where nothing of a warning or worse is among them that the benchmark passed."""
    every = tuple(findings)
    if any(f.verdict in ("warn", "unknown", "fail") for f in every):
        return every
    return (*every, Finding(subject, "bench.passed", "pass", message))
