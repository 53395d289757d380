"""Asks vCenter's own read-only checkers about what a plan does, and compares that with the requirements."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from vsphere_ai.admission.admit import every_requirement
from vsphere_ai.admission.oracles import CLONE, CONFIG, EVACUATE, MIGRATE, POWER_ON, Oracle
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.execution.actions.context import polling
from vsphere_ai.model.deferred import is_deferred
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import by_target
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.plain import Plain, PlainObject
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Clone, Invoke, Migrate, MoveAway, PowerOn, Reconfigure
from vsphere_ai.model.vm_sets import is_new, real_ref, replaced_by
from vsphere_ai.planning.planner import CheckAnswer, Plan
from vsphere_ai.planning.second_opinion import Evacuation, Reply, VcFault, compared, evacuations
from vsphere_ai.reading.collector import calls_at_once

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter

TIMEOUT = 60
OFF_BY_THEN = "InvalidPowerState"
"""The fault of a question about a VM that is on now and off when the plan changes it; it means nothing."""
NO_SPACE = "NoDiskSpace"
ENTERS = "HostMaintenanceV1"
"""Type of the action of a recommendation that a host enters maintenance mode (ActionType, API reference)."""
MOST = 64
"""Checks, and dry runs, that are asked: each check is a task, so that a very large plan asks for its first VMs only."""


@dataclass(frozen=True, eq=False)
class _Question:
    target: Target
    oracle: Oracle
    args: Mapping[str, Plain]
    host: str = ""
    off_by_then: bool = False
    evacuation: Evacuation | None = None
    replaces: bool = False
    """Whether a VM is destroyed first, whose name and place the one in question gets."""

    @property
    def key(self) -> tuple[str, str]:
        """What is the same for questions that are equal."""
        return self.oracle.method, repr(self.args)

    def replied(self, *, faults: Sequence[VcFault] = (), warnings: Sequence[str] = (), unanswered: str = "") -> Reply:
        return Reply(self.target, self.oracle, self.host, tuple(faults), tuple(warnings), unanswered)


_Said: TypeAlias = "Plain | VsphereAiError | None"
"""What a call, or the task of it, ended with; an error; None without an end in time."""


def with_answers(
    plan: Plan, vcenter: VCenter, estate: Estate, *, parallel: int = 8, out: Collection[Target] = ()
) -> Plan:
    """Return the plan with the answers of vCenter's checks (`admission.oracles`) to what it does.

    A refusal that the requirements do not foresee is a problem of the plan, other differences are remarks; what they
    refuse is asked about as well. The checks judge by the state of now, and are asked only where it is still that when
    the plan comes to the VM: not after a hardware upgrade of the same plan or a change of the host's hardware, and
    power-on only of a VM that is off and stays as it is. Equal questions are asked once, `parallel` at a time, and all
    tasks followed together: where vCenter is far away, a request for each would take longer than the rest of planning.

    `out` are hosts and VMs that an earlier attempt has left out of service or moved, and that `estate` shows as they
    were before: what depends on one of them is not asked about.
    """
    if not plan.steps:
        return plan
    around = _Around.of(out, estate)
    questions = [around.unless_out(q) for q in (*_evacuations(plan, estate), *_questions(plan, estate))]
    every = {q.key: q for q in questions if isinstance(q, _Question)}
    runs, checks = ([k for k, q in every.items() if (q.evacuation is None) is other] for other in (False, True))
    asked = {key: every[key] for key in (*runs[:MOST], *checks[:MOST])}
    said = dict(zip(asked, _answers(vcenter, [*asked.values()], parallel), strict=True))
    known = (q for q in questions if isinstance(q, Reply) or q.key in said)
    replies = [*dict.fromkeys(r for q in known for r in _replies(q, said, estate))]
    shown = [r.shown for r in replies]
    if len(every) > len(asked):
        why = f"only the first {MOST} checks were asked"
        shown.append(CheckAnswer([*asked.values()][-1].target, "", note=why))
        replies += [q.replied(unanswered=why) for key, q in every.items() if key not in asked]
    problems, remarks = compared(plan, estate, replies)
    every_problem = tuple(sorted({*plan.problems, *problems}, key=by_target))
    return replace(plan, answers=tuple(shown), problems=every_problem, findings=(*plan.findings, *remarks))


# -- what is asked


@dataclass(frozen=True)
class _Around:
    """References of what is out of service, of the hosts with such VMs, and of the clusters with such hosts."""

    estate: Estate
    targets: frozenset[str]
    clusters: frozenset[str]

    @classmethod
    def of(cls, out: Collection[Target], estate: Estate) -> _Around:
        there = [t for t in out if t.ref in estate.objects]
        homes = [t if t.kind == "host" else estate.host_of(t.ref) for t in there]
        hosts = {h.ref for h in homes if h is not None}
        clusters = frozenset(str(estate[ref].get("parent")) for ref in hosts)
        return cls(estate, frozenset({t.ref for t in there} | hosts), clusters)

    def unless_out(self, question: _Question | Reply) -> _Question | Reply:
        """Return a question, or why it is not asked: vCenter would judge by what the run has out of service."""
        if isinstance(question, Reply):
            return question
        of = question.evacuation
        vms = {question.target.ref, str(question.args.get("vm") or "")} - {""}
        homes = {h.ref for vm in vms if vm in self.estate.objects and (h := self.estate.host_of(vm)) is not None}
        if not (of.cluster in self.clusters if of else self.targets & {*vms, *homes, question.host}):
            return question
        why = "skipped: this run has it, its host or a host of its cluster out of service"
        return Reply(question.target, question.oracle, question.host, skipped=why)


def _evacuations(plan: Plan, estate: Estate) -> Iterator[_Question]:
    for each in evacuations(plan, estate):
        args: dict[str, Plain] = {"host": tuple(h.ref for h in each.hosts)}
        yield _Question(each.hosts[0], EVACUATE, args, evacuation=each)


def _questions(plan: Plan, estate: Estate) -> Iterator[_Question | Reply]:
    """Yield what is to be asked, in the order of the steps, and in its place what cannot be."""
    refused = _refused(plan)
    own = {p.step.target for p in plan.steps}
    changed = {p.step.target for p in plan.steps if isinstance(p.step, Invoke | Reconfigure)}
    changed |= {p.step.target for p in plan.steps if p.step.target.kind == "host"}
    earlier: set[Target] = set()
    for step in (p.step for p in plan.steps):
        target, host = step.target, estate.host_of(step.target.ref) if step.target.kind == "vm" else None
        if target in refused:
            continue
        if isinstance(step, Clone):
            yield _of_clone(step, own, host, estate)
        elif host is None or is_new(estate, target.ref):
            pass
        elif isinstance(step, Reconfigure):
            yield from _of_change(step, host, plan, estate)
        elif isinstance(step, Migrate | MoveAway):
            yield _of_move(step, host, earlier, estate)
        elif isinstance(step, PowerOn) and not {target, host} & changed and _is_off(target, estate):
            args: dict[str, Plain] = {"vm": real_ref(estate, target.ref), "host": host.ref}
            yield _Question(target, POWER_ON, args, host.ref)
        earlier.add(target)


def _is_off(vm: Target, estate: Estate) -> bool:
    return bool(estate[vm.ref].get("runtime.powerState") == "poweredOff")


def _refused(plan: Plan) -> frozenset[Target]:
    """Return the targets that are refused for anything but a requirement, of which vCenter is asked, too."""
    required = {r.id for r in every_requirement()}
    return frozenset(p.target for p in plan.problems if p.rule not in required)


def _of_change(step: Reconfigure, host: Target, plan: Plan, estate: Estate) -> Iterator[_Question | Reply]:
    """Ask whether a VM can be changed, unless this plan changes first what vCenter judges it by, or refuses it."""
    from vsphere_ai.execution.actions.configure import config_spec

    target, own = step.target, {p.step.target for p in plan.steps}
    if any(p.target == target for p in plan.problems):
        return
    why = ""
    if is_deferred((step.spec, step.device_changes)):
        why = "skipped: it needs what this plan makes first"
    elif any(p.step.target == target for p in plan.steps if isinstance(p.step, Invoke)):
        why = "skipped: this plan upgrades the virtual hardware first"
    elif host in own:
        why = "skipped: this plan changes its host first"
    elif estate.datacenter_of(target.ref) in own:
        why = "skipped: this plan changes switches or port groups of its datacenter first"
    if why:
        yield Reply(target, CONFIG, host.ref, skipped=why)
        return
    args: dict[str, Plain] = {"spec": config_spec(step, None), "vm": real_ref(estate, target.ref), "host": host.ref}
    yield _Question(target, CONFIG, args, host.ref, target in plan.impact.power_cycles)


def _of_clone(step: Clone, own: Collection[Target], host: Target | None, estate: Estate) -> _Question | Reply:
    """Ask whether a VM can be cloned, unless this plan changes the host of the clone or of its source first."""
    to = host.ref if host is not None else ""
    if {host, estate.host_of(step.source)} & {*own}:
        return Reply(step.target, CLONE, to, skipped="skipped: this plan changes its host first")
    if is_deferred(step.spec):
        return Reply(step.target, CLONE, to, skipped="skipped: it needs what this plan makes first")
    # a VM that is destroyed first has the name still, which would be all that vCenter says
    replaces = replaced_by(estate, step.target.ref) is not None
    name = f"{step.name}-new" if replaces else step.name
    args: dict[str, Plain] = {"vm": step.source, "folder": step.folder, "name": name, "spec": step.spec}
    return _Question(step.target, CLONE, args, to, replaces=replaces)


def _of_move(step: Migrate | MoveAway, host: Target, earlier: Collection[Target], estate: Estate) -> _Question | Reply:
    """Ask whether a running VM can be moved, unless an earlier step is about it or one of the hosts."""
    if {step.target.ref, host.ref, step.to} & {t.ref for t in earlier}:
        return Reply(step.target, MIGRATE, step.to, skipped="skipped: this plan changes it or one of the hosts first")
    args: dict[str, Plain] = {"vm": real_ref(estate, step.target.ref), "host": step.to, "state": "poweredOn"}
    return _Question(step.target, MIGRATE, args, step.to)


# -- what is answered


def _answers(vcenter: VCenter, questions: Sequence[_Question], parallel: int) -> Iterator[_Said]:
    """Yield what each question ended with: the result of its task, or of the call where that makes none."""

    def submit(question: _Question) -> Plain | VsphereAiError:
        oracle, evacuation = question.oracle, question.evacuation
        on = evacuation.cluster if evacuation else vcenter.service(oracle.service)
        if on is None:
            return VsphereAiError(f"this vCenter has no {oracle.service}", "update vCenter to a release that has it")
        try:
            return vcenter.call(on, oracle.method, question.args)
        except VsphereAiError as error:
            return error

    with ThreadPoolExecutor(max_workers=calls_at_once(parallel, len(questions))) as pool:
        begun = list(pool.map(submit, questions))
    ended = _ended(vcenter, [t for t in begun if isinstance(t, str)])
    for said in begun:
        yield _result(ended.get(said)) if isinstance(said, str) else said


def _result(task: Facts | VsphereAiError | None) -> _Said:
    if not isinstance(task, Facts):
        return task
    if task.get("info.state") == "error":
        return VsphereAiError(
            _as_fault(task.get("info.error") or "it failed").text, "look at the task in the vSphere Client"
        )
    return {"results": task.get("info.result") or ()}


def _replies(question: _Question | Reply, said: Mapping[tuple[str, str], _Said], estate: Estate) -> Iterator[Reply]:
    if isinstance(question, Reply):
        yield question
        return
    answer = said[question.key]
    if answer is None:
        yield question.replied(unanswered=f"no answer within {TIMEOUT} s")
    elif isinstance(answer, VsphereAiError):
        yield question.replied(unanswered=answer.message)
    elif not isinstance(answer, Mapping):
        yield question.replied(unanswered="it answered nothing")
    elif question.evacuation is not None:
        yield from _of_evacuation(question.evacuation, answer, estate)
    else:
        yield _of_results(question, answer["results"])


def _of_results(question: _Question, results: Plain) -> Reply:
    read: Any = results
    found = (_as_fault(e) for r in read for e in r.get("error", ()))
    # the VM that goes first has its disks still, and planning has counted with what it leaves (`vm_set.no-space`)
    known = {OFF_BY_THEN} if question.off_by_then else {NO_SPACE} if question.replaces else set()
    warnings = [_as_fault(w).text for r in read for w in r.get("warning", ())]
    return question.replied(faults=[f for f in found if f.type not in known], warnings=warnings)


def _of_evacuation(asked: Evacuation, said: PlainObject, estate: Estate) -> Iterator[Reply]:
    """Read a dry run: hosts that a recommendation empties, and the faults of VMs that keep the others.

    Faults that may come of VMs which have gone by then do not decide; nor does a host that is neither emptied nor kept
    by a VM that is named.
    """
    answer: Any = said
    recommended = (a for r in answer.get("recommendations") or () for a in r.get("action") or ())
    emptied = {a.get("target") for a in recommended if a.get("type") == ENTERS}
    faults: dict[str, list[VcFault]] = {}
    for each in (answer.get("fault") or {}).get("faultsByVm") or ():
        faults.setdefault(str(each.get("vm") or ""), []).extend(map(_as_fault, each.get("fault") or ()))
    for vm in asked.leaving:
        home = estate.host_of(vm.ref)
        own = tuple(dict.fromkeys((*faults.pop(real_ref(estate, vm.ref), ()), *faults.get("", ()))))
        reply = Reply(vm, EVACUATE, home.ref if home else "", is_now=asked.is_next and not asked.before)
        if home is None or home.ref in emptied:
            yield reply
        elif own and asked.before:
            gone = listed(sorted(t.name for t in asked.before))
            yield replace(reply, unanswered=f"{own[0]}; it counts {gone} as now, and the plan changes that first")
        elif own:
            yield replace(reply, faults=own)
        elif not answer.get("fault"):
            yield replace(reply, unanswered="it neither empties the host nor says why not")
    for host in asked.hosts:
        for vm in (*estate.vms_on(host.ref), *estate.managed_on(host.ref)):
            others = faults.get(real_ref(estate, vm.ref))
            if others and vm not in asked.before:
                yield Reply(vm, EVACUATE, host.ref, tuple(others))


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


def _as_fault(fault: object) -> VcFault:
    if not isinstance(fault, dict):
        return VcFault("", str(fault))
    inner = fault.get("fault")  # a LocalizedMethodFault holds the fault itself
    kind = str((inner if isinstance(inner, dict) else fault).get("_typeName") or "")
    text = fault.get("msg") or fault.get("localizedMessage") or fault.get("reason") or kind
    return VcFault(kind, str(text))
