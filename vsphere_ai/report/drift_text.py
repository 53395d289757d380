"""Drift as text: settings that are not as a playbook wants them, and what prevented comparing."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.model.text import safe, shown
from vsphere_ai.planning.planner import Plan


def drift_text(plan: Plan) -> str:
    """Return a line per field that drifted and per problem, and the counts."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    drifted = plan.changed()
    for item in drifted:
        for field in item.fields:
            name = field.name.replace("_", " ")
            words = f"is {shown(field.before)}, wanted {shown(field.after)}"
            yield f"  ~ {safe(item.target.name)}  {item.kind} {safe(name)} {words}"
    for problem in plan.problems:
        yield f"  ! {safe(problem.target.name)}  {safe(problem.message)}  [{problem.rule}]"
    same = len(plan.items) - len(drifted)
    yield f"{same} of {len(plan.items)} settings as wanted, {len(drifted)} drifted, {len(plan.problems)} problems"
