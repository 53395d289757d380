"""Documents of a plan: its JSON form, written and read by the same classes, its digest, and the saved plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from vsphere_ai import __version__
from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.documents.part import DocumentPart
from vsphere_ai.documents.printed import SCHEMA_VERSION, PrintedDocument
from vsphere_ai.errors import Conflict
from vsphere_ai.language.playbooks.play import Playbook, to_document
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.facts import About
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Effect, FieldChange, KindName, Target
from vsphere_ai.model.steps import Lifecycle, Step, Wait
from vsphere_ai.model.text import escaped, safe, shown
from vsphere_ai.model.variables import VariableValue
from vsphere_ai.model.world import World
from vsphere_ai.planning.planner import CheckAnswer, Login, Plan, PlanItem
from vsphere_ai.planning.scheduling.expected_time import Estimate
from vsphere_ai.planning.scheduling.placed import PlacedHost, RequestedAt
from vsphere_ai.planning.scheduling.schedule import Impact
from vsphere_ai.planning.scheduling.step_order import PlannedStep, waves

MOST_CHANGES = 12
"""Differences between a saved plan and the present one that are listed."""
LONG = 100
"""Entries of a list from which each is written on one line."""
_SCALAR = frozenset({type(None), str, int, float, bool})
_one_line = json.JSONEncoder(ensure_ascii=False).encode
NOT_REVERTED = "stays: "
"""What notes begin with that say what a rollback does not put back."""


class ChangeDocument(DocumentPart):
    """A field that changes: its values before and after, and ``+``, ``-`` or ``~``."""

    field: str
    sign: str = ""
    before: JsonValue = None
    after: JsonValue = None
    effect: Effect = ""
    """What the change takes: ``in place``, ``power cycle`` or ``rebuild``; only for VMs of a set."""

    @classmethod
    def of(cls, change: FieldChange) -> Self:
        """Return a changed field as JSON."""
        effect: dict[str, Any] = {"effect": change.effect} if change.effect else {}
        before, after = plain(change.before), plain(change.after)
        return cls.model_construct(field=change.name, sign=change.sign, before=before, after=after, **effect)


class ItemDocument(DocumentPart):
    """The changes of one kind on one target."""

    target: Target
    kind: KindName
    changes: tuple[ChangeDocument, ...] = ()
    recreate: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, item: PlanItem) -> Self:
        """Return an item of a plan as JSON."""
        notes = (*item.notes, *(f"{NOT_REVERTED}{text}" for text in item.stays))
        changes = tuple(map(ChangeDocument.of, item.fields))
        return cls.model_construct(
            target=item.target, kind=item.kind, changes=changes, recreate=item.recreate, notes=notes
        )


class StepDocument(DocumentPart):
    """A step with its place. Beside these keys it has those of its own type, such as `method` and `args`."""

    model_config = ConfigDict(extra="allow")

    id: str = ""
    after: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    do: str = ""
    """``reconfigure``, ``invoke``, ``shell``, ``lifecycle``, ``wait`` or ``step``."""
    action: str = ""
    """What a ``lifecycle`` step does, such as ``power-off``."""
    until: str = ""
    """What a ``wait`` waits for, such as ``host-back``."""
    target: Target
    summary: str = ""
    via: str = ""
    """How a ``reboot`` is ordered: ``ssh`` or ``api``."""
    timeout: int | float | None = None
    """Seconds."""
    shutdown_timeout: int | float | None = None
    """Seconds that a ``power-off`` gives the guest."""

    @classmethod
    def of(cls, planned: PlannedStep) -> Self:
        """Return a planned step as JSON."""
        place = {"id": planned.id, "after": planned.after, "behind": planned.behind}
        return cls.model_validate({**place, **_type(planned.step), **plain(planned.step)})


class Approved(DocumentPart):
    """The approved part of a plan, as the journal of its run keeps it."""

    vcenter: About | None = None
    world: World | None = None
    """The vCenter as the inventory has it, and how that was found; what an earlier version wrote has none."""
    items: tuple[ItemDocument, ...] = ()
    impact: Impact = Impact()
    steps: tuple[StepDocument, ...] = ()
    placed: tuple[PlacedHost, ...] = ()
    """Hosts of the plan with the VMs that are on them."""
    expected: Estimate | None = None
    """How long it is expected to take; what an earlier version wrote has none."""
    variables: tuple[VariableValue, ...] = ()
    """Values of the playbook's variables, each with what gives it."""

    def steps_of(self, ref: str) -> tuple[StepDocument, ...]:
        """Return the steps of one target, in order."""
        return tuple(step for step in self.steps if step.target.ref == ref)


class PlanDocument(Approved, PrintedDocument):
    """Everything a plan says."""

    vsphere_ai: str
    vcenter: About
    playbook: str
    impact: Impact
    items: tuple[ItemDocument, ...]
    problems: tuple[FindingDocument, ...]
    findings: tuple[FindingDocument, ...] = ()
    """Those that did not pass; `check` shows all of them."""
    passed: int = 0
    """How many rules passed."""
    steps: tuple[StepDocument, ...]
    waves: tuple[tuple[str, ...], ...] = ()
    answers: tuple[CheckAnswer, ...] = ()
    logins: tuple[Login, ...] = ()
    ssh_stays_stopped: tuple[Target, ...] = ()
    asked: tuple[RequestedAt, ...] = ()
    """Where the playbook asks for each kind on each target."""
    awaits_ssh: bool = False
    """The problems are only of SSH that is stopped: `apply` starts it, and plans again."""

    @classmethod
    def of(cls, plan: Plan, expected: Estimate | None = None, world: World | None = None) -> Self:
        """Return a plan as JSON, with its expected time and its vCenter in the inventory where these are known."""
        more: dict[str, Any] = {
            n: v for n, v in (("expected", expected), ("world", world), ("awaits_ssh", plan.awaits_ssh)) if v
        }
        return cls(
            vsphere_ai=__version__,
            vcenter=plan.about,
            playbook=plan.playbook,
            impact=plan.impact,
            items=tuple(map(ItemDocument.of, plan.items)),
            problems=tuple(map(FindingDocument.of, plan.problems)),
            findings=tuple(FindingDocument.of(f) for f in plan.findings if f.verdict != "pass"),
            passed=sum(f.verdict == "pass" for f in plan.findings),
            steps=tuple(map(StepDocument.of, plan.steps)),
            waves=tuple(tuple(p.id for p in wave) for wave in waves(plan.steps)),
            answers=plan.answers,
            logins=plan.logins,
            ssh_stays_stopped=plan.ssh_stays_stopped,
            asked=plan.asked,
            placed=plan.placed,
            **more,
        )

    def approved(self) -> Approved:
        """Return what a journal keeps of it."""
        return Approved.model_validate(
            {n: getattr(self, n) for n in Approved.model_fields if n in self.model_fields_set}
        )


Digest = Annotated[str, Field(description="SHA-256 of what the plan would do and where.")]


class SavedPlan(PlanDocument):
    """A plan as `plan --to FILE` saves it, with the playbook it was made of.

    `scope` is what narrowed it: vCenter name and limit.
    """

    printed_by: ClassVar = ("plan --to",)

    desired: dict[str, JsonValue]
    scope: dict[str, str]
    digest: Digest
    seal: Annotated[str, Field(description="SHA-256 of a saved plan: one that was edited is refused.")]


def plan_document(plan: Plan, expected: Estimate | None = None, world: World | None = None) -> dict[str, JsonValue]:
    """Return everything a plan says as JSON values."""
    return PlanDocument.of(plan, expected, world).as_json()


def digest(plan: Plan, said: Mapping[str, JsonValue] | None = None) -> str:
    """Return the SHA-256 of what the plan would do and where; what vCenter's advice said is not part of it."""
    document = said or plan_document(plan)  # where it is known already
    # what the server could speak besides is no part of what the plan does
    server = {k: v for k, v in plain(plan.about).items() if k != "offered_api"}
    kept = {name: document[name] for name in ("items", "problems", "steps")}
    lost = [plain(each) for each in plan.impact.lost if each.what]
    return checksum({**kept, "vcenter": server, **({"lost": lost} if lost else {})})


def saved_plan(
    said: Mapping[str, JsonValue], digest: str, playbook: Playbook, scope: Mapping[str, str]
) -> dict[str, JsonValue]:
    """Return the content of a plan file, of a plan as JSON. `scope` is what narrowed it: vCenter name and limit."""
    own: dict[str, JsonValue] = {"desired": to_document(playbook), "scope": {**scope}, "digest": digest}
    if playbook.variables:
        own["variables"] = plain(playbook.variables)
    content = {**said, **own}
    return {**content, "seal": checksum(content)}


def open_saved(text: str, name: str) -> SavedPlan:
    """Read a plan file; `Conflict` when it is none, was edited, or was made by another major version."""

    def refused(why: str, rule: str = "plan.unreadable") -> Conflict:
        return Conflict(f"{name} {why}", "make it again with: vsphere-ai plan PLAYBOOK --to FILE", rule=rule)

    try:
        document = json_value(text)
        given = document.pop("seal") if isinstance(document, dict) and "seal" in document else None
        own = checksum(document)
    except ValueError as error:
        raise refused(f"is not a saved plan: {error}") from error
    if not isinstance(document, dict) or given is None:
        raise refused("is not a saved plan")
    if given != own:
        raise refused("was edited after it was made; nothing was changed", "plan.edited")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise refused(f"has schema version {document.get('schema_version')}, not {SCHEMA_VERSION}", "plan.schema")
    try:
        return SavedPlan.model_validate({**document, "seal": given})
    except (ValidationError, RecursionError) as error:  # the checksum is no signature: anyone can make another one
        where = ".".join(map(str, error.errors()[0]["loc"])) if isinstance(error, ValidationError) else "content"
        raise refused(f"is not a saved plan: its {where} is missing or of another kind") from None


def is_saved(text: str) -> bool:
    """Return whether a text is a saved plan, of any version and also one that was edited since."""
    try:
        document = json_value(text)
    except ValueError:
        return False
    return isinstance(document, dict) and {"schema_version", "desired", "digest", "seal"} <= document.keys()


def changes_since(saved: PlanDocument, plan: Plan) -> str:
    """Return a line per setting, problem or step that is in a saved plan or in the present one only."""
    now = PlanDocument.of(plan)
    lines = []
    for word, one, two in (("only in the saved plan", saved, now), ("only in the new plan", now, saved)):
        known = set(_lines(two))
        lines += [f"  {word}: {line}" for line in _lines(one) if line not in known]
    if not lines:
        lines = ["  details of the steps (device keys or configuration that is sent)"]
    more = [f"  and {len(lines) - MOST_CHANGES} more"] if len(lines) > MOST_CHANGES else []
    return "\n".join(safe(line) for line in [*lines[:MOST_CHANGES], *more])


def _lines(document: PlanDocument) -> list[str]:
    lines = [
        f"{i.target.name}: {i.kind} {c.field.replace('_', ' ')} {_words(c.before)} → {_words(c.after)}"
        for i in document.items
        for c in i.changes
    ]
    lines += [f"{p.target.name if p.target else document.vcenter.name}: {p.message}" for p in document.problems]
    lines += [f"{each.host.name}: lost on reboot: {what}" for each in document.impact.lost for what in each.what]
    return lines + [f"{step.target.name}: {step.summary}" for step in document.steps]


def _words(value: object) -> str:
    """Return a value of a plan as its screen has it."""
    if isinstance(value, list | tuple):
        return shown(tuple(_words(each) for each in value))
    if isinstance(value, Mapping):
        return shown(tuple(f"{str(key).replace('_', ' ')}: {_words(each)}" for key, each in value.items()))
    return shown(value)


def _type(step: Step) -> dict[str, str]:
    if isinstance(step, Lifecycle):
        return {"do": "lifecycle", "action": step.action}
    return {"do": "wait", "until": step.until} if isinstance(step, Wait) else {"do": type(step).__name__.lower()}


def plain(value: Any) -> Any:
    """Turn dataclasses, models, tuples and mappings into JSON values."""
    kind = type(value)
    if kind in _SCALAR or isinstance(value, (str, int, float)):
        return value
    if kind is Target:
        return {"kind": value.kind, "name": value.name, "ref": value.ref}
    if isinstance(value, Finding):
        return FindingDocument.of(value).as_json()
    if isinstance(value, BaseModel):
        return {k: plain(getattr(value, k)) for k in kind.model_fields}
    if hasattr(value, "__dataclass_fields__"):
        each = ((name, if_set, getattr(value, name)) for name, if_set in _written(kind))  # type: ignore[arg-type]
        return {name: v if type(v) in _SCALAR else plain(v) for name, if_set, v in each if v or not if_set}
    if isinstance(value, Mapping):
        return {str(k): v if type(v) in _SCALAR else plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [v if type(v) in _SCALAR else plain(v) for v in value]
    return value


@cache
def _written(kind: type) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a dataclass, and which are written only if they are set."""
    return tuple((f.name, bool(f.metadata.get("written_if_set"))) for f in fields(kind))


def plain_said(value: object, without: Collection[str] = ()) -> object:
    """Turn models, tuples and mappings into JSON values, less what is None and less some keys."""
    if isinstance(value, BaseModel):
        value = {n: getattr(value, n) for n in type(value).model_fields}
    if isinstance(value, Mapping):
        said = ((str(k), v) for k, v in value.items() if v is not None)
        return {k: plain_said(v, without) for k, v in said if k not in without}
    return [plain_said(v, without) for v in value] if isinstance(value, tuple | list) else value


def dumps(document: object) -> str:
    """Return JSON text for people and machines: indented, keys in order, escapes for what is invisible only.

    An entry of a long list takes one line: it is read by programs, and by `grep`.
    """
    return escaped(_text(document, "\n"))


def _text(value: object, line: str) -> str:
    """Return a value whose own lines begin with `line`."""
    inner, parts = f"{line}  ", []
    if isinstance(value, Mapping):
        parts = [f"{_one_line(str(key))}: {_text(each, inner)}" for key, each in value.items()]
    elif isinstance(value, list | tuple):
        parts = [_text(each, inner) if len(value) <= LONG else _one_line(each) for each in value]
    if not parts:
        return _one_line(value)
    first, last = "{}" if isinstance(value, Mapping) else "[]"
    return f"{first}{inner}{f',{inner}'.join(parts)}{line}{last}"


def checksum(document: object) -> str:
    """Return the SHA-256 of JSON values, in whatever order their keys are."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
