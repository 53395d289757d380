"""SARIF 2.1.0 of a report: its problems, for code scanning in merge requests.

Format: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import json
from pathlib import PurePath
from urllib.parse import quote

from vsphere_ai import __version__
from vsphere_ai.model.text import escaped, safe
from vsphere_ai.report.pages.values import Report, SarifResult

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST = 5_000
"""Results that GitHub keeps of a run; the worst come first."""
MOST_BYTES = 10_000_000
"""Bytes that GitHub takes."""
_INDENT = 10
"""Characters that a line of a result is indented by at most, and its end."""
LEVELS = {"fail": "error", "warn": "warning", "unknown": "note", "pass": "none"}
_ORDER = tuple(LEVELS)


def sarif(report: Report) -> str:
    """Return the problems of a report as SARIF; at most `MOST` results and `MOST_BYTES`, and it says so."""
    results = sorted(report.results, key=lambda r: _ORDER.index(r.status))
    rules = {rule: n for n, rule in enumerate(sorted({r.rule for r in results}))}
    driver = {"name": "vsphere-ai", "version": __version__, "rules": [{"id": safe(rule)} for rule in rules]}
    kept, room = [], MOST_BYTES - len(json.dumps(driver, indent=2).encode()) * 2 - 2_000
    for result in results[:MOST]:
        made = _result(result, rules[result.rule])
        text = json.dumps(made, indent=2, ensure_ascii=False)
        room -= len(text.encode()) + _INDENT * (text.count("\n") + 1)
        if room < 0:
            break
        kept.append(made)
    left = len(results) - len(kept)
    more = [{"level": "warning", "message": {"text": f"{left} more results are left out"}}] if left > 0 else []
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": more}],
        "results": kept,
    }
    return escaped(json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False))


def _result(result: SarifResult, rule: int) -> dict[str, object]:
    location: dict[str, object] = {}
    if result.file:
        place: dict[str, object] = {"artifactLocation": {"uri": quote(PurePath(result.file).as_posix())}}
        if result.line:
            column = {"startColumn": result.column} if result.column else {}
            place["region"] = {"startLine": result.line, **column}
        location["physicalLocation"] = place
    if result.targets:
        location["logicalLocations"] = [{"fullyQualifiedName": safe(name)} for name in result.targets]
    made = {"ruleId": safe(result.rule), "ruleIndex": rule, "level": LEVELS[result.status]}
    text = {"message": {"text": safe(result.message)}}
    return {**made, **text, **({"locations": [location]} if location else {})}
