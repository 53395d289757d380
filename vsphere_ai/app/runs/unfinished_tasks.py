"""Tasks of a run that was cut off: those that vCenter still works on are waited for, also where none was noted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, Remark, Waiting
from vsphere_ai.errors import OutcomeUnknown, VsphereAiError
from vsphere_ai.execution.actions.context import Context, polling
from vsphere_ai.execution.actions.vm_life import LOST_CLONE
from vsphere_ai.planning.document import Approved, StepDocument

if TYPE_CHECKING:
    from vsphere_ai.model.records.recorded_steps import RecordedStep
    from vsphere_ai.runs.journal import Journal

HEARTBEAT = 8.0
EVENTS_LAG = 10.0
"""Seconds after which vCenter's tasks and events show a call that it has accepted, also one that was on its way."""
LONGEST_TASK = 600.0
"""Seconds that a task of the run, or another one on what it was working on, is waited for."""


def await_tasks(context: Context, record: Journal, emit: Emit) -> None:
    """Wait for the tasks of steps with an unknown end: what they change after reading would look like external changes.

    A host's reboot is recognised by its boot time instead.
    """
    steps = [
        s for s in record.steps() if s.state in ("begun", "unknown") and s.what not in ("reboot", "enter-maintenance")
    ]
    if not steps:
        return
    documents = [(s, d) for s in steps for d in _documents(record, s)]
    clones = [s for s, d in documents if d.do == "clone" and not s.task]
    on = sorted({s.ref for s in steps} | {ref for _, d in documents for ref in _sent_to(context, d)})
    of = {s.task: s.target for s in steps if s.task}
    say, reported, busy = heartbeat(emit, ", ".join(sorted({s.target for s in steps}))), False, ""
    longest = LOST_CLONE if clones else LONGEST_TASK
    for waited in polling(longest, fastest=0.1, slowest=2.0):
        busy = _busy(context, on, of) or (_on_its_way(context, clones) if waited < EVENTS_LAG else "")
        if not busy:
            return
        if not reported:
            emit(Remark("wait.task", f"{busy}; waiting for its end"))
        reported = True
        say(f"{busy}, {waited:.0f} s")
    raise OutcomeUnknown(
        f"{busy}, {longest:.0f} s after run {record.id} was taken up",
        "look at it in the vSphere Client; once it has ended, resume the run",
    )


def _documents(record: Journal, step: RecordedStep) -> Sequence[StepDocument]:
    """Return what was approved of a step: by its words, which a later attempt may have chosen anew, else its target."""
    found = Approved.model_validate(record.documents.approved).steps_of(step.ref)
    return [d for d in found if d.summary == step.summary] or found


def _sent_to(context: Context, document: StepDocument) -> Iterator[str]:
    """Yield the objects, beside its target, that the task of a step is listed at: a VM that is to be made has none."""
    more = document.model_extra or {}
    names = {"clone": "source", "clusterrules": "cluster", "invoke": "on"}
    ref = more.get(names.get(document.do, ""))
    if isinstance(ref, str) and ":" in ref:
        yield ref
    if document.do == "invoke" and not ref and str(more.get("method")).endswith("_Task") and more.get("path"):
        with suppress(VsphereAiError):
            yield context.vcenter.resolve_path(document.target.ref, str(more["path"]))


def _busy(context: Context, refs: list[str], noted: dict[str, str]) -> str:
    """Return in words which task still runs: of those in the journal, and of the latest ones of these objects."""
    objects = (
        context.vcenter.read_objects(refs, {r.partition(":")[0]: ("name", "recentTask") for r in refs}) if refs else {}
    )
    of = {str(task): str(facts.name) for facts in objects.values() for task in facts.get("recentTask") or ()} | noted
    tasks = context.vcenter.read_objects(sorted(of), {"Task": ("info.descriptionId", "info.state")}) if of else {}
    for ref, task in tasks.items():
        if task.get("info.state") in ("queued", "running"):
            what = str(task.get("info.descriptionId") or "").rpartition(".")[2]
            return f"{of[ref]}: the task {ref.partition(':')[2]}{f' ({what})' if what else ''} is still under way"
    return ""


def _on_its_way(context: Context, clones: Sequence[RecordedStep]) -> str:
    """Return in words which VM may still come of a request that vCenter has not taken up; empty where all are there.

    Only of clones: any other call that arrives late is refused, or does what is there already.
    """
    refs = [s.ref for s in clones]
    there = context.vcenter.read_objects(refs, {"VirtualMachine": ("name",)}) if refs else {}
    late = [s.target for s in clones if s.ref not in there]
    return f"{late[0]}: a request for its clone may be on its way" if late else ""


def heartbeat(emit: Emit, name: str) -> Callable[[str], None]:
    """Return a function that passes on words about a target, but not more often than every few seconds."""
    said = time.monotonic()

    def say(text: str) -> None:
        nonlocal said
        if time.monotonic() - said > HEARTBEAT:
            said = time.monotonic()
            emit(Waiting(f"{name}: {text}"))

    return say
