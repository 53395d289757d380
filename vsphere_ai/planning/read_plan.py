"""Plan of its document: the values of a saved plan as planning made them, for what shows a plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import FieldChange, KindName, Target
from vsphere_ai.model.steps import Clone, Destroy, Migrate, Step
from vsphere_ai.model.text import shown
from vsphere_ai.planning.document import NOT_REVERTED, ChangeDocument, ItemDocument, PlanDocument, StepDocument
from vsphere_ai.planning.planner import Plan, PlanItem
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.resources import kinds


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
    return PlanItem(
        item.target, item.kind, tuple(_change(item.kind, each) for each in item.changes), item.recreate, notes, stays
    )


def _change(kind: KindName, change: ChangeDocument) -> FieldChange:
    before, after = (_value(kind, change.field, each) for each in (change.before, change.after))
    return FieldChange(change.field, before, after, change.effect)


def _value(kind: KindName, field: str, value: object) -> object:
    """Return a JSON value as the state of its kind has it: entries of lists say themselves how they are shown."""
    adapter = _adapter(kind, field) if _has_mappings(value) else None
    if adapter is not None:
        with suppress(ValidationError):  # written by another version: its keys are shown as they are
            made: object = adapter.validate_json(json.dumps(value))
            return made
    return _tuples(value)


def _has_mappings(value: object) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list | tuple) and any(map(_has_mappings, value)))


@cache
def _adapter(kind: KindName, field: str) -> TypeAdapter[object] | None:
    """Return what reads the values of a field of a kind; None for one that this version does not have.

    ``vmnic4 pause`` is the field `pause` of an entry of a mapping.
    """
    model = kinds().get(kind)
    if model is None:
        return None
    models = [model, *(each for own in model.model_fields.values() for each in _models(own.annotation))]
    leaf = field.rpartition(" ")[2]
    found: list[Any] = [m.model_fields[leaf].annotation for m in models if leaf in m.model_fields]
    return TypeAdapter(found[0]) if found else None


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models(each)


def _tuples(value: object) -> object:
    if isinstance(value, Mapping):
        return ", ".join(f"{str(key).replace('_', ' ')}: {shown(_tuples(each))}" for key, each in value.items())
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


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
