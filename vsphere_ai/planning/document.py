"""A plan as plain JSON values, its digest, and the file a saved plan is kept in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import BaseModel

from vsphere_ai import __version__
from vsphere_ai.errors import Conflict
from vsphere_ai.language.playbook import Playbook, to_document
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Lifecycle, Step, Wait
from vsphere_ai.model.text import escaped
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.schedule import PlannedStep, waves

SCHEMA_VERSION = 1
_SHAPE = {
    "desired": dict,
    "digest": str,
    "scope": dict,
    "vcenter.instance": str,
    "vcenter.name": str,
    "items": list,
    "problems": list,
    "steps": list,
}
"""What a saved plan is read for, and of which kind each of it is."""
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
        "logins": [plain(each) for each in plan.logins],
        "ssh_stays_stopped": plain(plan.ssh_stays_stopped),
    }


def digest(plan: Plan) -> str:
    """Return the SHA-256 of what the plan would do and where; what vCenter's advice said is not part of it."""
    document = plan_document(plan)
    kept = {k: document[k] for k in ("vcenter", "items", "problems", "steps")}
    # what the server could speak besides is no part of what the plan does
    kept["vcenter"] = {k: v for k, v in document["vcenter"].items() if k != "offered_api"}
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
        checksum = document.pop("seal") if isinstance(document, dict) and "seal" in document else None
        own = _sha256(document)
    except RecursionError:
        raise Conflict(f"{name} is not a saved plan: it is nested too deeply", again, rule="plan.unreadable") from None
    except ValueError as error:
        raise Conflict(f"{name} is not a saved plan: {error}", again, rule="plan.unreadable") from error
    if not isinstance(document, dict) or checksum is None:
        raise Conflict(f"{name} is not a saved plan", again, rule="plan.unreadable")
    if checksum != own:
        raise Conflict(f"{name} was edited after it was made; nothing was changed", again, rule="plan.edited")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise Conflict(
            f"{name} has schema version {document.get('schema_version')}, not {SCHEMA_VERSION}",
            again,
            rule="plan.schema",
        )
    wrong = next((key for key, kind in _SHAPE.items() if not isinstance(_at(document, key), kind)), None)
    if wrong is None and not all(isinstance(value, str) for value in document["scope"].values()):
        wrong = "scope"
    if wrong is not None:  # the seal is no signature: whoever edits a plan can make another one
        raise Conflict(
            f"{name} is not a saved plan: its {wrong} is missing or of another kind", again, rule="plan.unreadable"
        )
    return document


def _at(document: Any, key: str) -> Any:
    for part in key.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def is_saved(text: str) -> bool:
    """Tell whether a text is a saved plan, of any version and also one that was edited since."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and {"schema_version", "desired", "digest", "seal"} <= document.keys()


def step_document(planned: PlannedStep) -> dict[str, Any]:
    """Return one step with its place."""
    step = planned.step
    place = {"id": planned.id, "after": list(planned.after), "behind": list(planned.behind)}
    return {**place, **_type(step), **plain(step)}


def _type(step: Step) -> dict[str, str]:
    match step:
        case Lifecycle():
            return {"do": "lifecycle", "action": step.action}
        case Wait():
            return {"do": "wait", "until": step.until}
        case _:
            return {"do": type(step).__name__.lower()}


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
