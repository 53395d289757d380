"""Matrix of compatibility: the verdict of every rule on every target; targets that are alike share a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from vsphere_ai.model.state import Target
from vsphere_ai.report.folding import names
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.pages.tables import Entry, few, target
from vsphere_ai.report.pages.values import Matrix, Status

STATUS: Mapping[str, Status] = {"pass": "pass", "info": "pass", "warn": "warn", "unknown": "unknown", "fail": "fail"}
"""Verdict of a finding -> the status by which a page colours it."""
ORDER: tuple[Status, ...] = ("pass", "warn", "unknown", "fail")
"""Verdicts, the most serious last: where a rule says several of one target, that one counts."""
MOST_ROWS = 60
MOST_CELLS = 2_500
_NONE: Literal[""] = ""
ESTATE = "the whole environment"


def matrix(findings: Sequence[Entry]) -> Matrix | None:
    """Return the verdicts of findings by rule and target; None without any."""
    rules = tuple(sorted({each["rule"] for each in findings}))
    if not rules:
        return None
    found: dict[Target | None, dict[str, Status]] = {}
    for each in findings:
        own = found.setdefault(target(each["target"]), {})
        own[each["rule"]] = max(own.get(each["rule"], "pass"), STATUS[each["verdict"]], key=ORDER.index)
    alike = grouped((tuple(own.get(rule, _NONE) for rule in rules), on) for on, own in found.items())
    worst = sorted(alike.items(), key=lambda each: -_weight(each[0]))
    most = min(MOST_ROWS, MOST_CELLS // len(rules))
    rows = tuple((few(names(t for t in own if t), len(own), "target") or ESTATE, cells) for cells, own in worst[:most])
    return Matrix(rules, rows, max(len(worst) - most, 0))


def _weight(cells: Iterable[Status | Literal[""]]) -> int:
    """Return how serious a row is."""
    return sum(1000 ** ORDER.index(cell) if cell else 0 for cell in cells)
