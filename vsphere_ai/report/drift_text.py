"""Drift as text: settings that are not as a playbook wants them, and what prevented comparing."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.model.text import safe, shown
from vsphere_ai.planning.planner import Item, Plan
from vsphere_ai.report.folding import names
from vsphere_ai.report.layout import grouped


def drift_text(plan: Plan) -> str:
    """Return a line per field that drifted and per problem, equal ones of several targets once, and the counts."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    drifted = plan.changed()
    for text, targets in grouped((text, item.target) for item in drifted for text in _fields(item)).items():
        yield safe(f"  ~ {names(targets)}  {text}")
    for text, targets in grouped((f"{p.message}  [{p.rule}]", p.target) for p in plan.problems).items():
        yield safe(f"  ! {names(targets)}  {text}")
    same = len(plan.items) - len(drifted)
    yield f"{same} of {len(plan.items)} settings as wanted, {len(drifted)} drifted, {len(plan.problems)} problems"


def _fields(item: Item) -> Iterator[str]:
    for field in item.fields:
        name = field.name.replace("_", " ")
        yield f"{item.kind} {name} is {shown(field.before)}, wanted {shown(field.after)}"
