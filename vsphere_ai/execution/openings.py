"""Openings of a plan: what each window will put out of service, known before its first step is sent."""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.execution.rollout import rollout_of
from vsphere_ai.model.records.out_of_service import AHEAD, KINDS
from vsphere_ai.model.records.pending import Pending, opened_by
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import StopSsh
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.scheduling.step_order import PlannedStep


def openings(plan: Plan) -> Mapping[str, tuple[Pending, ...]]:
    """Return for each step what the window of its host will put out of service; of a step without one, its own."""
    stops = {p.step.target for p in plan.steps if isinstance(p.step, StopSsh)}
    parts = rollout_of(plan).parts
    windows: dict[Target, list[Pending]] = {}
    for planned in plan.steps:
        if planned.id in parts:
            windows.setdefault(parts[planned.id], []).extend(_ahead(planned, stops))
    whole = {host: tuple(found) for host, found in windows.items()}
    return {p.id: whole[parts[p.id]] if p.id in parts else _ahead(p, stops) for p in plan.steps}


def puts_out(plan: Plan) -> bool:
    """Return whether anything of a plan puts something out of service, so that it is written in vCenter."""
    stops = {p.step.target for p in plan.steps if isinstance(p.step, StopSsh)}
    return any(o.kind in KINDS for p in plan.steps for o in opened_by(p.step, own_ssh=p.step.target in stops))


def _ahead(planned: PlannedStep, stops: set[Target]) -> tuple[Pending, ...]:
    opens = opened_by(planned.step, own_ssh=planned.step.target in stops)
    return tuple(p for p in opens if p.kind in AHEAD)
