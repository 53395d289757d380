"""Record of a run from its journal, as a document and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vsphere_ai.model.text import duration, safe, shown
from vsphere_ai.planning.document import NOT_REVERTED, SCHEMA_VERSION, Approved
from vsphere_ai.runs.history import OVER, look, see, state_of, way_on

if TYPE_CHECKING:
    from vsphere_ai.model.recorded_steps import RecordedPending, RecordedStep
    from vsphere_ai.runs.history import Seen
    from vsphere_ai.runs.journal import Journal

PENDING = {
    "maintenance": "is in maintenance mode because of this run",
    "ssh": "has SSH running because of this run",
    "ssh-on": "had SSH running before this run rebooted it",
    "service": "has a service stopped by this run while its settings change",
    "off": "was powered off by this run",
    "reboot": "was ordered to reboot and not seen back",
    "restart": "has been changed by this run in a way that counts from its next restart on",
    "gate": "was taken out of service by this run and not seen healthy since",
    "lock": "is the lock of this run in vCenter",
}
LOCKS = {"none": "none", "local": "on this machine", "vcenter": "on this machine and in vCenter"}


def summary(record: Journal, among: Sequence[Seen] | None = None) -> dict[str, Any]:
    """Return a run in a few fields: who, where, when, and how it ended. `among` are all runs, when they are known."""
    known = look() if among is None else among  # which may close pending actions of this one
    run = record.run
    return {
        "run": record.id,
        "state": state_of(see(record), known),
        "started": run.started,
        "user": f"{run.user}@{run.machine}",
        "vcenter": run.scope.vcenter,
        "what": run.what,
        "exit_code": run.exit_code,
        "resume_command": way_on(see(record), known),
        "pending": [{"kind": p.kind, "name": p.target.name} for p in record.pending()],
        "closed": run.closed.model_dump(mode="json") if run.closed else None,
    }


def run_document(record: Journal) -> dict[str, object]:
    """Return everything that a journal holds of its run."""
    run, document, steps = record.run, record.documents.approved, record.steps()
    approved, begun = Approved.read(document), {s.id for s in steps}
    return {
        "schema_version": SCHEMA_VERSION,
        **summary(record),
        "ended": max((s.ended for s in steps), default="") if run.ended else None,
        "attempts": max((s.attempt for s in steps), default=0),
        "signal": run.signal or None,
        "open": list(run.open),
        "operation": record.id,
        "lock": run.lock,
        "process": run.pid,
        "vsphere_ai": run.vsphere_ai,
        "scope": {"inventory": run.inventory, **run.scope.model_dump()},
        "server": approved.vcenter.name if approved.vcenter else "",
        "approved": {"items": document.get("items", []), "impact": document.get("impact", {})},
        "steps": [_step(s) for s in steps],
        "not_begun": [
            {"id": s.id, "target": s.target.name, "summary": s.summary} for s in approved.steps if s.id not in begun
        ],
        "pending_actions": [_pending(each) for each in record.ever_pending()],
        "journal": str(record.path),
    }


def _step(step: RecordedStep) -> dict[str, object]:
    return {**vars(step), "ended": step.ended or None, "error": step.error or None, "task": step.task or None}


def _pending(each: RecordedPending) -> dict[str, object]:
    pending = each.pending
    return {
        "kind": pending.kind,
        "name": pending.target.name,
        "ref": pending.target.ref,
        "detail": pending.detail,
        "opened": each.opened,
        "sent": each.sent or None,
        "closed": each.closed or None,
    }


def runs_lines(documents: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line per run, of its summary."""
    for each in documents:
        pending = f"  {len(each['pending'])} pending" if each["pending"] else ""
        yield safe(f"{each['run']}  {each['state']:<11} {each['vcenter']}  {each['what']}  ({each['user']}){pending}")


def left_lines(record: Journal) -> list[str]:
    """Return what a run has left open: pending actions, and steps that were not done."""
    begun = {s.id for s in record.steps() if s.state == "done"}
    undone = sum(s.id not in begun for s in Approved.read(record.documents.approved).steps)
    lines = [f"  ! {safe(d.target.name)} {PENDING.get(d.kind, d.kind)}" for d in record.pending()]
    count = f", {undone} of its steps not done" if undone and len({s.attempt for s in record.steps()}) < 2 else ""
    run = f"Run {record.id} ({safe(record.run.what)})"
    if not lines:
        return [f"{run} has left nothing open{count}."]
    return [f"{run} has left open{count}:", *lines,
            f"To put that back instead: vsphere-ai resume {record.id} --cleanup"]  # fmt: skip


def record_text(document: dict[str, Any]) -> str:
    """Return a record as text."""
    return "\n".join([*_head(document), *_approved(document["approved"]), *_steps(document), *_end(document)])


def _head(document: dict[str, Any]) -> Iterator[str]:
    yield f"Run {document['run']}: {document['state']}"
    process = f", process {document['process']}" if document["process"] else ""
    rows = (
        ("what", document["what"]),
        ("vCenter", f"{document['vcenter']} ({document['server']})" if document["server"] else document["vcenter"]),
        ("by", f"{document['user']}{process}"),
        ("started", document["started"]),
        ("ended", _how(document)),
        ("operation", f"{document['operation']} in vCenter's tasks and logs"),
        ("lock", LOCKS.get(document["lock"] or "", document["lock"] or "")),
        ("inventory", document["scope"]["inventory"]),
        ("limit", document["scope"].get("limit")),
    )
    yield from (f"  {name:<10} {safe(str(value))}" for name, value in rows if value)


def _how(document: dict[str, object]) -> str:
    if document["ended"] is None:
        return "it was cut off, or is still under way"
    by = f" after signal {document['signal']}" if document["signal"] else ""
    return f"{document['ended']} with exit code {document['exit_code']}{by}"


def _approved(approved: dict[str, Any]) -> Iterator[str]:
    lines = [line for item in approved["items"] for line in _item(item)]
    if not lines:
        return
    yield "\nAPPROVED"
    yield from lines
    for key, words in (("reboots", "reboot"), ("power_cycles", "off and on again")):
        names = ", ".join(t["name"] for t in approved["impact"].get(key, ()))
        if names:
            yield f"  {words}: {safe(names)}"


def _item(item: dict[str, Any]) -> Iterator[str]:
    whose = f"{item['target']['name']}: {item['kind']}"
    for change in item["changes"]:
        before, after = (_shown(change[key]) for key in ("before", "after"))
        yield f"  {safe(whose)} {safe(change['field'])}  {before} → {after}"
    for note in item.get("notes", ()):
        if note.startswith(NOT_REVERTED):  # what a rollback does not put back
            yield f"  {safe(whose)} {safe(note)}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        first, *rest = (str(v) for v in value.values()) if value else ("none",)
        return safe(f"{first} ({', '.join(rest)})" if rest else first)
    return shown(tuple(_shown(v) for v in value) if isinstance(value, list) else value)


def _steps(document: dict[str, Any]) -> Iterator[str]:
    yield "\nSTEPS (UTC)"
    attempt, wide = 1, max((len(s["target"]) for s in document["steps"]), default=0)
    for step in document["steps"]:
        if step["attempt"] != attempt:
            attempt = step["attempt"]
            yield f"  resumed, attempt {attempt}"
        took = _took(step) if step["ended"] else ""
        state = "began, its end is not known" if step["state"] == "begun" else step["state"]
        yield f"  {_clock(step['began'])}  {safe(step['target']):<{wide}}  {safe(step['summary'])} — {state}{took}"
        if step["error"]:
            yield f"            {safe(step['error'])}"
    left = len(document["not_begun"])
    if left and attempt == 1:  # a resumed run plans again, with steps of its own
        yield f"  {left} step{'' if left == 1 else 's'} not begun"


def _clock(moment: str) -> str:
    return moment[11:19]


def _took(step: dict[str, Any]) -> str:
    seconds = (datetime.fromisoformat(step["ended"]) - datetime.fromisoformat(step["began"])).total_seconds()
    return f" ({duration(seconds)})" if seconds >= 1 else ""


def _end(document: dict[str, Any]) -> Iterator[str]:
    open_actions = [d for d in document["pending_actions"] if not d["closed"]]
    if open_actions or document["open"]:
        yield "\nPENDING"
    for pending in open_actions:
        words = PENDING.get(pending["kind"], pending["kind"])
        yield f"  ! {safe(pending['name'])} {words} (since {_clock(pending['opened'])})"
    if not open_actions:
        yield from (f"  ! {safe(line)}" for line in document["open"])
    if document["closed"]:
        yield f"\nCLOSED by {safe(document['closed']['by'])}, {document['closed']['at'][:19]} UTC"
        for left in document["closed"]["left"]:
            yield f"  {safe(left['name'])} {PENDING.get(left['kind'], left['kind'])}: not put back"
    yield ""
    if document["state"] not in OVER:
        yield f"Finish it: {document['resume_command']}"
    if document["steps"] and document["state"] != "rolled back":
        yield f"Go back to before it: vsphere-ai rollback {document['run']}"
