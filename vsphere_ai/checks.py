"""Asks vCenter's own read-only checkers what they think of the planned changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from vsphere_ai.collect import calls_at_once
from vsphere_ai.deeds.changes import config_spec
from vsphere_ai.deeds.means import polling
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.facts import Estate, Facts
from vsphere_ai.late import is_late
from vsphere_ai.plan import Answer, Plan
from vsphere_ai.state import Target
from vsphere_ai.steps import Lifecycle, Reconfigure

Paths = Mapping[str, tuple[str, ...]]

TIMEOUT = 60
MOST = 64  # each check is a task; a very large plan asks for its first VMs only, and says so


class Checker(Protocol):
    """What is needed of a vCenter (see `connect.vcenter.VCenter`)."""

    def service(self, name: str) -> str | None: ...  # noqa: D102
    def call(self, ref: str, method: str, args: Any = None) -> Any: ...  # noqa: D102
    def read_objects(self, refs: Sequence[str], paths: Paths) -> Mapping[str, Facts]: ...  # noqa: D102


@dataclass(frozen=True)
class _Question:
    target: Target
    method: str
    args: Mapping[str, Any]

    def answered(self, *, faults: Sequence[str] = (), warnings: Sequence[str] = (), note: str = "") -> Answer:
        return Answer(self.target, self.method.removesuffix("_Task"), tuple(faults), tuple(warnings), note)


def with_answers(plan: Plan, vcenter: Checker, estate: Estate, *, parallel: int = 8) -> Plan:
    """Return the plan with the answers of CheckVmConfig_Task and CheckPowerOn_Task (API 6.7 and later).

    They judge by the state of now: for a VM whose host this plan changes, power-on is not asked, because the answer
    would be about hardware that is not there yet. `parallel` questions are asked at a time, and all tasks followed
    together: where vCenter is far away, a request for each would take longer than the rest of planning.
    """
    checker = vcenter.service("vmCompatibilityChecker")
    if checker is None or not plan.steps:
        return plan
    found = list(islice(_questions(plan, estate), MOST + 1))
    asked = found[:MOST]
    answers = _answers(vcenter, checker, [q for q in asked if isinstance(q, _Question)], parallel)
    shown = [next(answers) if isinstance(each, _Question) else each for each in asked]
    if len(found) > MOST:
        shown.append(Answer(asked[-1].target, "", note=f"only the first {MOST} checks were asked"))
    return replace(plan, answers=tuple(shown))


def _questions(plan: Plan, estate: Estate) -> Iterator[_Question | Answer]:
    """Yield what is to be asked, in the order of the steps, and in its place what cannot be."""
    touched = {p.step.target.ref for p in plan.steps if p.step.target.kind == "host"}
    for planned in plan.steps:
        step, target = planned.step, planned.step.target
        host = estate.host_of(target.ref) if target.kind == "vm" else None
        if host is None:
            continue
        if isinstance(step, Reconfigure) and is_late((step.spec, step.device_changes)):
            yield Answer(target, "CheckVmConfig", note="not asked: it needs what this plan makes first")
        elif isinstance(step, Reconfigure):
            args = {"spec": config_spec(step, None), "vm": target.ref, "host": host.ref}
            yield _Question(target, "CheckVmConfig_Task", args)
        elif isinstance(step, Lifecycle) and step.action == "power-on" and host.ref not in touched:
            yield _Question(target, "CheckPowerOn_Task", {"vm": target.ref, "host": host.ref})


def _answers(vcenter: Checker, checker: str, questions: Sequence[_Question], parallel: int) -> Iterator[Answer]:
    def submit(question: _Question) -> str | VsphereAiError:
        try:
            return str(vcenter.call(checker, question.method, question.args))
        except VsphereAiError as error:
            return error

    with ThreadPoolExecutor(max_workers=calls_at_once(parallel, len(questions))) as pool:
        tasks = list(pool.map(submit, questions))
    ended = _ended(vcenter, [t for t in tasks if isinstance(t, str)])
    for question, task in zip(questions, tasks, strict=True):
        said = task if isinstance(task, VsphereAiError) else ended.get(task)
        yield _answer(question, said)


def _ended(vcenter: Checker, tasks: Sequence[str]) -> dict[str, Facts | VsphereAiError]:
    """Follow tasks to their ends; those without one within `TIMEOUT` are left out."""
    ended: dict[str, Facts | VsphereAiError] = {}
    for _ in polling(TIMEOUT, fastest=0.1, slowest=2.0):
        waiting = [t for t in tasks if t not in ended]
        if not waiting:
            break
        try:
            seen = vcenter.read_objects(waiting, {"Task": ("info.error", "info.result", "info.state")})
        except VsphereAiError as error:
            return {**dict.fromkeys(waiting, error), **ended}
        gone = VsphereAiError("vCenter no longer knows the task")
        states = {t: seen[t].get("info.state") if t in seen else "gone" for t in waiting}
        ended |= {t: seen.get(t, gone) for t, state in states.items() if state in ("success", "error", "gone")}
    return ended


def _answer(question: _Question, said: Facts | VsphereAiError | None) -> Answer:
    if said is None:
        return question.answered(note=f"could not be asked: no answer within {TIMEOUT} s")
    if isinstance(said, VsphereAiError):
        return question.answered(note=f"could not be asked: {said.message}")
    if said.get("info.state") == "error":
        return question.answered(note=f"could not be asked: {_text(said.get('info.error') or 'it failed')}")
    results = said.get("info.result") or ()
    faults = (_text(e) for r in results for e in r.get("error", ()))
    return question.answered(faults=tuple(faults), warnings=[_text(w) for r in results for w in r.get("warning", ())])


def _text(fault: Any) -> str:
    if not isinstance(fault, dict):
        return str(fault)
    return str(fault.get("msg") or fault.get("localizedMessage") or fault.get("reason") or fault.get("_typeName"))
