"""Asks vCenter's own read-only checkers what they think of the planned changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from vsphere_ai.errors import VsphereAiError
from vsphere_ai.execution.actions.configure import config_spec
from vsphere_ai.execution.actions.context import polling
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.plain import Plain
from vsphere_ai.model.state import Problem, Target
from vsphere_ai.model.steps import Clone, Invoke, Lifecycle, Reconfigure
from vsphere_ai.model.vm_sets import is_new, real_ref, replaced_by
from vsphere_ai.planning.planner import Answer, Plan
from vsphere_ai.reading.collector import calls_at_once

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter

TIMEOUT = 60
RULE = "vcenter.check"
CONFIG, POWER_ON = "CheckVmConfig_Task", "CheckPowerOn_Task"
CLONE = "CheckClone_Task"
ASKED = {CONFIG: "to change its configuration", POWER_ON: "to power it on", CLONE: "to clone it"}
OFF_BY_THEN = "InvalidPowerState"
"""The fault of a question about a VM that is on now and off when the plan changes it; it means nothing."""
MOST = 64  # each check is a task; a very large plan asks for its first VMs only, and says so


@dataclass(frozen=True, eq=False)
class _Question:
    target: Target
    method: str
    args: Mapping[str, Plain]
    off_by_then: bool = False
    checker: str = "vmCompatibilityChecker"
    """The service that is asked."""

    def answered(self, *, faults: Sequence[str] = (), warnings: Sequence[str] = (), note: str = "") -> Answer:
        return Answer(self.target, self.method.removesuffix("_Task"), tuple(faults), tuple(warnings), note)


def with_answers(plan: Plan, vcenter: VCenter, estate: Estate, *, parallel: int = 8) -> Plan:
    """Return the plan with the answers of CheckVmConfig_Task, CheckPowerOn_Task and CheckClone_Task (API 6.7 on).

    A refusal is a problem of the plan. They judge by the state of now, and are asked only where it is still that when
    the plan comes to the VM: not after a hardware upgrade of the same plan or a change of the host's hardware, and
    power-on only of a VM that is off and stays as it is. `parallel` questions are asked at a time, and all tasks
    followed together: where vCenter is far away, a request for each would take longer than the rest of planning.
    """
    if not plan.steps:
        return plan
    found = [q for q in _questions(plan, estate) if isinstance(q, Answer) or vcenter.service(q.checker)]
    asked = [q for q in found if isinstance(q, _Question)]
    answers = dict(zip(asked[:MOST], _answers(vcenter, asked[:MOST], parallel), strict=True))
    shown = [
        answers[q] if isinstance(q, _Question) else q for q in found if not isinstance(q, _Question) or q in answers
    ]
    if len(asked) > MOST:
        shown.append(Answer(asked[MOST - 1].target, "", note=f"only the first {MOST} checks were asked"))
    return replace(plan, answers=tuple(shown), problems=tuple(sorted({*plan.problems, *_refusals(shown)})))


def _refusals(answers: Sequence[Answer]) -> Iterator[Problem]:
    for answer in answers:
        for fault in answer.faults:
            message = f"vCenter refuses {ASKED[f'{answer.check}_Task']}: {fault}"
            yield Problem(answer.target, RULE, message, "correct what vCenter names, or leave the VM out of the play")


def _questions(plan: Plan, estate: Estate) -> Iterator[_Question | Answer]:
    """Yield what is to be asked, in the order of the steps, and in its place what cannot be."""
    refused = {p.target for p in plan.problems}
    own = {p.step.target for p in plan.steps}
    upgraded = {p.step.target for p in plan.steps if isinstance(p.step, Invoke)}
    changed = upgraded | {p.step.target for p in plan.steps if isinstance(p.step, Reconfigure)}
    changed |= {p.step.target for p in plan.steps if p.step.target.kind == "host"}
    for planned in plan.steps:
        step, target = planned.step, planned.step.target
        host = estate.host_of(target.ref) if target.kind == "vm" else None
        if isinstance(step, Clone) and target not in refused:
            yield _of_clone(step, own, host, estate)
        if host is None or target in refused or is_new(estate, target.ref):
            continue
        if isinstance(step, Reconfigure):
            if is_deferred((step.spec, step.device_changes)):
                yield Answer(target, "CheckVmConfig", note="not asked: it needs what this plan makes first")
            elif target in upgraded:
                yield Answer(target, "CheckVmConfig", note="not asked: this plan upgrades the virtual hardware first")
            elif host in own:
                yield Answer(target, "CheckVmConfig", note="not asked: this plan changes its host first")
            elif estate.datacenter_of(target.ref) in own:
                note = "not asked: this plan changes switches or port groups of its datacenter first"
                yield Answer(target, "CheckVmConfig", note=note)
            else:
                vm = real_ref(estate, target.ref)
                args: dict[str, Plain] = {"spec": config_spec(step, None), "vm": vm, "host": host.ref}
                yield _Question(target, CONFIG, args, target in plan.impact.power_cycles)
        elif isinstance(step, Lifecycle) and step.action == "power-on" and not {target, host} & changed:
            off = estate[target.ref].get("runtime.powerState") == "poweredOff"
            if off:
                yield _Question(target, POWER_ON, {"vm": real_ref(estate, target.ref), "host": host.ref})


def _of_clone(step: Clone, own: Collection[Target], host: Target | None, estate: Estate) -> _Question | Answer:
    """Ask whether a VM can be cloned, unless this plan changes the host of the clone or of its source first."""
    if {host, estate.host_of(step.source)} & {*own}:
        return Answer(step.target, "CheckClone", note="not asked: this plan changes its host first")
    if is_deferred(step.spec):
        return Answer(step.target, "CheckClone", note="not asked: it needs what this plan makes first")
    # a VM that is destroyed first has the name still, which would be all that vCenter says
    name = f"{step.name}-new" if replaced_by(estate, step.target.ref) else step.name
    args: dict[str, Plain] = {"vm": step.source, "folder": step.folder, "name": name, "spec": step.spec}
    return _Question(step.target, CLONE, args, checker="vmProvisioningChecker")


def _answers(vcenter: VCenter, questions: Sequence[_Question], parallel: int) -> Iterator[Answer]:
    def submit(question: _Question) -> str | VsphereAiError:
        try:
            return str(vcenter.call(str(vcenter.service(question.checker)), question.method, question.args))
        except VsphereAiError as error:
            return error

    with ThreadPoolExecutor(max_workers=calls_at_once(parallel, len(questions))) as pool:
        tasks = list(pool.map(submit, questions))
    ended = _ended(vcenter, [t for t in tasks if isinstance(t, str)])
    for question, task in zip(questions, tasks, strict=True):
        said = task if isinstance(task, VsphereAiError) else ended.get(task)
        yield _answer(question, said)


def _ended(vcenter: VCenter, tasks: Sequence[str]) -> dict[str, Facts | VsphereAiError]:
    """Follow tasks to their ends; those without one within `TIMEOUT` are left out."""
    ended: dict[str, Facts | VsphereAiError] = {}
    for _ in islice(polling(TIMEOUT, fastest=0.1, slowest=2.0, late=1.0), 1, None):  # none ends at once
        waiting = [t for t in tasks if t not in ended]
        if not waiting:
            break
        try:
            seen = vcenter.read_objects(waiting, {"Task": ("info.error", "info.result", "info.state")})
        except VsphereAiError as error:
            return {**dict.fromkeys(waiting, error), **ended}
        gone = VsphereAiError("vCenter no longer knows the task", "plan again")
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
    found = (e for r in results for e in r.get("error", ()))
    known = {OFF_BY_THEN} if question.off_by_then else set()
    faults = (_text(e) for e in found if not (isinstance(e, dict) and e.get("_typeName") in known))
    return question.answered(faults=tuple(faults), warnings=[_text(w) for r in results for w in r.get("warning", ())])


def _text(fault: object) -> str:
    if not isinstance(fault, dict):
        return str(fault)
    return str(fault.get("msg") or fault.get("localizedMessage") or fault.get("reason") or fault.get("_typeName"))
