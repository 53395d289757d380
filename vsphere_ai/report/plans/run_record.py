"""Record of a run from its journal, as a document and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.records.pending import PENDING
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.model.text import counted, duration, safe, shown
from vsphere_ai.planning.document import NOT_REVERTED, Approved, ItemDocument
from vsphere_ai.planning.run_document import (
    ApprovedPart,
    BegunStepDocument,
    PendingActionDocument,
    RunDocument,
    RunScopeDocument,
    StepNameDocument,
)
from vsphere_ai.report.folding import fitted, how_many, nameless, names, shape
from vsphere_ai.report.layout import grouped
from vsphere_ai.report.plans.plan_order import number_ranges
from vsphere_ai.report.plans.run_list import summary
from vsphere_ai.report.plans.world_text import world_place
from vsphere_ai.runs.history import OVER, look, see, state_of, way_on

if TYPE_CHECKING:
    from vsphere_ai.model.records.recorded_steps import RecordedPending, RecordedStep
    from vsphere_ai.model.world import World
    from vsphere_ai.runs.journal import Journal

KINDS: Mapping[str, TargetKind] = {"HostSystem": "host", "Datacenter": "datacenter"}
LOCKS = {"none": "none", "local": "on this machine", "vcenter": "on this machine and in vCenter"}


def run_document(record: Journal) -> RunDocument:
    """Return everything that a journal holds of its run."""
    run, document, steps = record.run, record.documents.approved, record.steps()
    approved, begun = Approved.model_validate(document), {s.id for s in steps}
    shown = {key: getattr(approved, key) for key in ("placed", "expected", "variables") if document.get(key)}
    more: dict[str, Any] = {"world": approved.world} if approved.world else {}
    more |= {"stopped": run.stopped} if run.signal and run.stopped else {}
    return RunDocument(
        **vars(summary(record)),
        **more,
        ended=_ended(record),
        attempts=max((s.attempt for s in steps), default=0),
        signal=run.signal or None,
        open=run.open,
        operation=record.id,
        lock=run.lock,
        process=run.pid,
        vsphere_ai=run.vsphere_ai,
        scope=RunScopeDocument(inventory=run.inventory, **vars(run.scope)),
        approved=ApprovedPart(items=approved.items, impact=approved.impact, **shown),
        steps=tuple(map(_step, steps)),
        not_begun=tuple(
            StepNameDocument(id=s.id, target=s.target.name, summary=s.summary)
            for s in approved.steps
            if s.id not in begun
        ),
        pending_actions=tuple(map(_pending, record.ever_pending())),
        journal=str(record.path),
    )


def _step(step: RecordedStep) -> BegunStepDocument:
    none = {"ended": step.ended or None, "error": step.error or None, "task": step.task or None}
    return BegunStepDocument(**{**vars(step), **none})


def _pending(each: RecordedPending) -> PendingActionDocument:
    pending = each.pending
    return PendingActionDocument(
        kind=pending.kind,
        name=pending.target.name,
        ref=pending.target.ref,
        detail=pending.detail,
        opened=each.opened,
        sent=each.sent or None,
        closed=each.closed or None,
    )


def left_lines(record: Journal) -> list[str]:
    """Return what a run has left open: pending actions, and steps that were not done."""
    begun = {s.id for s in record.steps() if s.state == "done"}
    undone = sum(s.id not in begun for s in Approved.model_validate(record.documents.approved).steps)
    lines = [f"  ! {safe(_so(d.target.name, d.kind))}" for d in record.pending()]
    count = f", {undone} of its steps not done" if undone and len({s.attempt for s in record.steps()}) < 2 else ""
    run = f"Run {record.id} ({safe(record.run.what)})"
    if not lines:
        return [f"{run} has left nothing open{count}."]
    instead = f"To put that back instead: vsphere-ai resume {record.id} --cleanup"
    return [f"{run} has left open{count}:", *lines, instead]


def record_text(record: Journal, width: int = 100, *, full: bool = False) -> str:
    """Return what a journal holds of its run as text; with `full` each step by itself, else equal ones once."""
    known, approved = look(), Approved.model_validate(record.documents.approved)
    seen = see(record)
    state, way = state_of(seen, known), way_on(seen, known)
    done = "\n".join([*_approved(approved), *_steps(record, approved, full=full)])
    return "\n".join([*_head(record, approved.world, state), fitted(done, width), *_end(record, state, way)])


def _ended(record: Journal) -> str | None:
    return max((s.ended for s in record.steps()), default="") if record.run.ended else None


def _head(record: Journal, world: World | None, state: str) -> Iterator[str]:
    run = record.run
    yield f"Run {record.id}: {state}"
    process = f", process {run.pid}" if run.pid else ""
    by = f", {run.stopped or f'after signal {run.signal}'}" if run.signal else ""
    ended = _ended(record)
    how = "it was cut off, or is still under way" if ended is None else f"{ended} with exit code {run.exit_code}{by}"
    where = f"{run.scope.vcenter} ({run.scope.address})" if run.scope.address else run.scope.vcenter
    rows = (
        ("what", run.what),
        ("vCenter", world_place(world) if world else where),
        ("by", f"{run.user}@{run.machine}{process}"),
        ("started", run.started),
        ("ended", how),
        ("operation", f"{record.id} in vCenter's tasks and logs"),
        ("lock", LOCKS[run.lock] if run.lock else ""),
        ("inventory", f"{run.inventory} ({world.found})" if world and world.found else run.inventory),
        ("limit", run.scope.limit),
    )
    yield from (f"  {name:<10} {safe(value)}" for name, value in rows if value)


def _approved(approved: Approved) -> Iterator[str]:
    same = grouped((text, item.target) for item in approved.items for text in _item(item))
    if not same:
        return
    yield "\nAPPROVED"
    yield from (safe(f"  {names(targets)}: {text}") for text, targets in same.items())
    for targets, words in ((approved.impact.reboots, "reboot"), (approved.impact.power_cycles, "off and on again")):
        if targets:
            yield safe(f"  {words}: {names(targets)}")


def _item(item: ItemDocument) -> Iterator[str]:
    for change in item.changes:
        yield f"{item.kind} {change.field}  {_shown(change.before)} → {_shown(change.after)}"
    # what a rollback does not put back
    yield from (f"{item.kind} {note}" for note in item.notes if note.startswith(NOT_REVERTED))


def _shown(value: JsonValue) -> str:
    if isinstance(value, dict):
        first, *rest = (str(v) for v in value.values()) if value else ("none",)
        return safe(f"{first} ({', '.join(rest)})" if rest else first)
    return shown(tuple(_shown(v) for v in value) if isinstance(value, list) else value)


def _steps(record: Journal, approved: Approved, *, full: bool) -> Iterator[str]:
    """Yield the steps with their numbers, as in plan and log; equal ones of several targets once, unless `full`."""
    yield "\nSTEPS (UTC)"
    steps = record.steps()
    for attempt, own in grouped((s.attempt, s) for s in steps).items():
        if attempt > 1:
            yield f"  resumed, attempt {attempt}"
        kind_of = {s.ref: s.kind for s in map(_target, own)}
        known = frozenset(s.target for s in own)
        same = grouped(
            ((s.state, kind_of[s.ref], nameless(shape(f"{s.summary} {s.error}", _target(s)), known)), s) for s in own
        )
        for alike in [[s] for s in own] if full else same.values():
            yield from _alike(alike)
    left = len({s.id for s in approved.steps} - {s.id for s in steps})
    if left and max((s.attempt for s in steps), default=1) == 1:  # a resumed run plans again, with steps of its own
        yield f"  {counted(left, 'step')} not begun"


def _alike(steps: Sequence[RecordedStep]) -> Iterator[str]:
    first = steps[0]
    state = "began, its end is not known" if first.state == "begun" else first.state
    targets = list(dict.fromkeys(map(_target, steps)))
    differ = len({s.summary for s in steps}) > 1 or len({s.error for s in steps}) > 1
    more = f"; for example {quoted(first.target)}" if differ else ""
    many = f"{how_many(targets)}: " if len(targets) > 1 else ""
    head = f"{number_ranges(int(s.id.lstrip('s')) for s in steps)}  {many}{names(targets)}{more}"
    took = [
        (datetime.fromisoformat(s.ended) - datetime.fromisoformat(s.began)).total_seconds() for s in steps if s.ended
    ]
    words = f"{duration(median(took))}" if took else ""
    if len(took) > 1 and max(took) - min(took) >= 1:
        words += f", at most {duration(max(took))}"
    time = f" ({words})" if took and max(took) >= 1 else ""
    yield f"  {_clock(first.began)}  {safe(head)}  {safe(first.summary)} — {state}{time}"
    if first.error:
        yield f"            {safe(first.error)}"


def _target(step: RecordedStep) -> Target:
    """Return the target of a step; its kind is known by its reference."""
    kind = KINDS.get(step.ref.partition(":")[0], "vm")
    return Target(kind, step.target, step.ref)


def _clock(moment: str) -> str:
    return moment[11:19]


def _end(record: Journal, state: str, way: str) -> Iterator[str]:
    left = [each for each in record.ever_pending() if not each.closed]
    lines = [f"{_so(d.pending.target.name, d.pending.kind)} (since {_clock(d.opened)})" for d in left]
    lines = lines or list(record.run.open)
    if lines:
        yield "\nPENDING"
    yield from (f"  ! {safe(line)}" for line in lines)
    closed = record.run.closed
    if closed:
        yield f"\nCLOSED by {safe(closed.by)}, {closed.at[:19]} UTC"
        yield from (f"  {safe(_so(each.name, each.kind))}: not put back" for each in closed.left)
    yield ""
    if state not in OVER:
        yield f"Finish it: {way}"
    if record.steps() and state != "rolled back":
        yield f"Go back to before it: vsphere-ai rollback {record.id}"


def _so(name: str, kind: str) -> str:
    return f"{name} {PENDING.get(kind, kind)}"
