"""Plan of its document: the values of a saved plan as planning made them, for what shows a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import FieldChange, Target
from vsphere_ai.model.steps import Clone, Destroy, Migrate, Step
from vsphere_ai.planning.document import NOT_REVERTED, ChangeDocument, ItemDocument, PlanDocument, StepDocument
from vsphere_ai.planning.planner import Plan, PlanItem
from vsphere_ai.planning.scheduling.step_order import PlannedStep


def plan_of(document: PlanDocument) -> Plan:
    """Return the plan that a document is of, as far as a plan is shown: its steps are not to be carried out.

    Of the steps only those of VMs that are made, moved or destroyed have more than a target and a summary.
    """
    return Plan(
        about=document.vcenter,
        playbook=document.playbook,
        items=tuple(map(_item, document.items)),
        problems=tuple(_problem(each, document.vcenter.name) for each in document.problems),
        findings=tuple(each.finding for each in document.findings),
        steps=tuple(PlannedStep(each.id, _step(each), each.after, each.behind) for each in document.steps),
        impact=document.impact,
        answers=document.answers,
        logins=document.logins,
        ssh_stays_stopped=document.ssh_stays_stopped,
        asked=document.asked,
        placed=document.placed,
        stopped_ssh=tuple(each.message for each in document.problems) if document.awaits_ssh else (),
    )


def _problem(problem: FindingDocument, vcenter: str) -> Problem:
    """Return a problem; one that names no target, as no plan of this version does, is one of the whole vCenter."""
    on = problem.finding.target
    target = on if isinstance(on, Target) else Target("datacenter", vcenter, "")
    return Finding.problem(target, problem.rule, problem.message, problem.remedy)


def _item(item: ItemDocument) -> PlanItem:
    notes = tuple(note for note in item.notes if not note.startswith(NOT_REVERTED))
    stays = tuple(note.removeprefix(NOT_REVERTED) for note in item.notes if note.startswith(NOT_REVERTED))
    return PlanItem(item.target, item.kind, tuple(map(_change, item.changes)), item.recreate, notes, stays)


def _change(change: ChangeDocument) -> FieldChange:
    return FieldChange(change.field, _value(change.before), _value(change.after), change.effect)


def _value(value: object) -> Any:
    """Return a JSON value with tuples for its lists, as states have them."""
    if isinstance(value, Mapping):
        return {key: _value(each) for key, each in value.items()}
    return tuple(map(_value, value)) if isinstance(value, list | tuple) else value


def _step(step: StepDocument) -> Step:
    more: Mapping[str, Any] = step.model_extra or {}
    if step.do == "clone":
        source, folder, name = (str(more.get(key, "")) for key in ("source", "folder", "name"))
        return Clone(target=step.target, summary=step.summary, spec={}, source=source, folder=folder, name=name)
    if step.do == "destroy":
        disks, detached = (tuple(map(str, more.get(key, ()))) for key in ("disks", "detached"))
        of_set, index = str(more.get("set", "")), int(more.get("index", 0))
        return Destroy(
            target=step.target, summary=step.summary, set=of_set, index=index, disks=disks, detached=detached
        )
    if step.action == "migrate":
        source, to, timeout = str(more.get("source", "")), str(more.get("to", "")), int(step.timeout or 0)
        return Migrate(target=step.target, summary=step.summary, source=source, to=to, timeout=timeout)
    return Step(target=step.target, summary=step.summary)
