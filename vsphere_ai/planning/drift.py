"""Drift of an estate from a playbook: its single differences, comparable between two readings. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import FieldChange, Target
from vsphere_ai.planning.planner import Plan


@dataclass(frozen=True)
class Difference:
    """A field of a target that is not in the desired state, or a problem that keeps a target from being compared."""

    target: Target
    kind: str = ""
    change: FieldChange | None = None
    problem: Problem | None = None


def differences(plan: Plan) -> dict[str, Difference]:
    """Return the differences that a plan removes, and its problems, by a key that changes when anything of one does."""
    found: dict[str, Difference] = {}
    for item in plan.changed():
        for change in item.fields or (None,):
            found[repr((item.target.ref, item.kind, change))] = Difference(item.target, item.kind, change)
    for problem in plan.problems:
        key = repr((problem.target.ref, problem.rule, problem.message))
        found[key] = Difference(problem.target, problem=problem)
    return found
