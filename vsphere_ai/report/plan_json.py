"""A plan as plain JSON values, its digest, and the file a saved plan is kept in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import BaseModel

from vsphere_ai import __version__
from vsphere_ai.compat.base import Finding
from vsphere_ai.errors import Conflict
from vsphere_ai.graph import PlannedStep, waves
from vsphere_ai.plan import Plan
from vsphere_ai.playbook import Playbook, to_document
from vsphere_ai.report.values import escaped
from vsphere_ai.state import Target

SCHEMA_VERSION = 1
STAYS = "stays: "
"""What notes begin with that say what a rollback does not put back."""


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return everything a plan says; keys are only ever added within a schema version."""
    return {
        "schema_version": SCHEMA_VERSION,
        "vsphere_ai": __version__,
        "vcenter": plain(plan.about),
        "playbook": plan.playbook,
        "impact": plain(plan.impact),
        "items": [_item(i) for i in plan.items],
        "problems": [plain(p) for p in plan.problems],
        "findings": [finding_document(f) for f in plan.findings],
        "steps": [step_document(p) for p in plan.steps],
        "waves": [[p.id for p in wave] for wave in waves(plan.steps)],
        "answers": [plain(a) for a in plan.answers],
    }


def digest(plan: Plan) -> str:
    """Return the SHA-256 of what the plan would do and where; what vCenter's advice said is not part of it."""
    document = plan_document(plan)
    kept = {k: document[k] for k in ("vcenter", "items", "problems", "steps")}
    lost = [each for each in document["impact"]["lost"] if each["what"]]
    if lost:
        kept["lost"] = lost
    return _sha256(kept)


def saved_plan(plan: Plan, playbook: Playbook, scope: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of a plan file. `scope` is what narrowed it: vCenter name and limit."""
    content = {**plan_document(plan), "desired": to_document(playbook), "scope": dict(scope), "digest": digest(plan)}
    return {**content, "seal": _sha256(content)}


def open_saved(text: str, name: str) -> dict[str, Any]:
    """Read a plan file; `Conflict` when it is none, was edited, or was made by another major version."""
    again = "make it again with: vsphere-ai plan PLAYBOOK -o FILE"
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Conflict(f"{name} is not a saved plan: {error}", again) from error
    if not isinstance(document, dict) or "seal" not in document:
        raise Conflict(f"{name} is not a saved plan", again)
    seal = document.pop("seal")
    if seal != _sha256(document):
        raise Conflict(f"{name} was edited after it was made; nothing was changed", again)
    if document.get("schema_version") != SCHEMA_VERSION:
        raise Conflict(f"{name} has schema version {document.get('schema_version')}, not {SCHEMA_VERSION}", again)
    return document


def step_document(planned: PlannedStep) -> dict[str, Any]:
    """Return one step with its place."""
    step = planned.step
    place = {"id": planned.id, "after": list(planned.after), "behind": list(planned.behind)}
    return {**place, "do": type(step).__name__.lower(), **plain(step)}


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return one compatibility finding."""
    document: dict[str, Any] = plain(finding)
    document["evidence"] = [{"path": path, "value": value} for path, value in finding.evidence]
    return document


def plain(value: Any) -> Any:
    """Turn dataclasses, models, tuples and mappings into JSON values."""
    if isinstance(value, Target):
        return {"kind": value.kind, "name": value.name, "ref": value.ref}
    if isinstance(value, BaseModel):
        return {k: plain(getattr(value, k)) for k in type(value).model_fields}
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(v) for v in value]
    return value


def dumps(document: Any) -> str:
    """Return JSON text for people and machines: indented, keys in order, escapes for what is invisible only."""
    return escaped(json.dumps(document, indent=2, ensure_ascii=False))


def _item(item: Any) -> dict[str, Any]:
    changed = [
        {"field": f.name, "sign": f.sign, "before": plain(f.before), "after": plain(f.after)} for f in item.fields
    ]
    return {
        "target": plain(item.target),
        "kind": item.kind,
        "changes": changed,
        "recreate": item.recreate,
        "notes": [*item.notes, *(f"{STAYS}{text}" for text in item.stays)],
    }


def _sha256(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
