"""Differences between a saved plan and the present plan."""

from __future__ import annotations

from vsphere_ai.model.text import safe
from vsphere_ai.planning.document import PlanDocument
from vsphere_ai.planning.planner import Plan

MOST = 12


def differences(saved: PlanDocument, plan: Plan) -> str:
    """Return a line per setting, problem or step that is in one of the two only."""
    now = PlanDocument.of(plan)
    lines = []
    for word, one, two in (("planned then, not now", saved, now), ("not planned then", now, saved)):
        known = set(_lines(two))
        lines += [f"  {word}: {line}" for line in _lines(one) if line not in known]
    if not lines:
        lines = ["  details of the steps (device keys or configuration that is sent)"]
    more = [f"  and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return "\n".join(safe(line) for line in [*lines[:MOST], *more])


def _lines(document: PlanDocument) -> list[str]:
    found = [f"{i.target.name}: {i.kind} {c.field} {c.before} → {c.after}" for i in document.items for c in i.changes]
    found += [f"{problem.target.name}: {problem.message}" for problem in document.problems]
    found += [f"{each.host.name}: lost on reboot: {what}" for each in document.impact.lost for what in each.what]
    return found + [f"{step.target.name}: {step.summary}" for step in document.steps]
