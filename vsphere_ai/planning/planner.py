"""Wanted states + facts -> a plan: what changes, what it disrupts, what blocks it, and in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vsphere_ai.admission.situation import Situation
from vsphere_ai.compat.base import Use
from vsphere_ai.compat.gate import examine, touched, unread, worsened
from vsphere_ai.language.playbooks.play import Kinds, TargetPlans, stated_of
from vsphere_ai.model.facts import About, Estate, grouped
from vsphere_ai.model.finding import Finding, Problem, by_target
from vsphere_ai.model.state import Change, FieldChange, KindName, Target, differences
from vsphere_ai.model.steps import Step
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import member_of, members_of
from vsphere_ai.planning.capacity import problems_of
from vsphere_ai.planning.moves import vsan
from vsphere_ai.planning.moves.admitted import answers, concerned, final_situation, of_adopted, refusals, undecided
from vsphere_ai.planning.moves.managed_vms import with_matched
from vsphere_ai.planning.moves.moved_view import view_after
from vsphere_ai.planning.moves.outlook import Outlook
from vsphere_ai.planning.moves.power_on_order import order_notes, power_ons
from vsphere_ai.planning.needed_facts import missing_facts
from vsphere_ai.planning.observing import evaluate_with, observe, sort_kinds
from vsphere_ai.planning.scheduling.placed import PlacedHost, RequestedAt, asked_of, placed_on
from vsphere_ai.planning.scheduling.rebooted_gpus import kept_modes, loss_of, silent
from vsphere_ai.planning.scheduling.schedule import Impact, arrange
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.planning.scheduling.windows import needs_maintenance
from vsphere_ai.resources import kinds
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.host_settings import DividesGpus
from vsphere_ai.resources.makes_vms import MakesVms
from vsphere_ai.resources.mixins import AsksMore, VmDevices, giving, offered

NOT_CONNECTED = "host.connected"
"""The rule that vCenter has a connection to a host."""
QUESTION = "vm.question"
PASSES = 5
"""Planning is repeated until the set of rebooting hosts is stable; it only grows, kinds are few, two passes do."""


@dataclass(frozen=True)
class PlanItem:
    """What a plan says of one kind on one target: its changed fields (none = in the desired state) and remarks."""

    target: Target
    kind: KindName
    fields: tuple[FieldChange, ...]
    recreate: bool = False
    notes: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    """What a rollback does not put back."""

    @property
    def changes(self) -> bool:
        """Return whether anything has to be done."""
        return bool(self.fields) or self.recreate


@dataclass(frozen=True)
class CheckAnswer:
    """What vCenter's own read-only check said of a planned change."""

    target: Target
    check: str
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Login:
    """A host on which the plan needs SSH, and why the login was not tried while planning."""

    host: Target
    why: str


@dataclass(frozen=True)
class Plan:
    """A value: the same playbook on the same estate gives the same plan."""

    about: About
    playbook: str
    items: tuple[PlanItem, ...]
    problems: tuple[Problem, ...]
    findings: tuple[Finding, ...]
    steps: tuple[PlannedStep, ...]
    impact: Impact
    answers: tuple[CheckAnswer, ...] = ()
    logins: tuple[Login, ...] = ()
    """SSH logins that were not tried; every other one that the plan needs was, or is a problem of it."""
    ssh_stays_stopped: tuple[Target, ...] = ()
    """Hosts whose SSH runs, stops at their reboot, and must not be started again."""
    asked: tuple[RequestedAt, ...] = ()
    placed: tuple[PlacedHost, ...] = ()
    stopped_ssh: tuple[str, ...] = ()
    """Why hosts could not be read over SSH that `apply` starts, and planning must not."""

    @property
    def awaits_ssh(self) -> bool:
        """Whether nothing blocks it but what SSH hides that is stopped; `apply` starts it and plans again."""
        unread = (any(why in problem.message for why in self.stopped_ssh) for problem in self.problems)
        return bool(self.problems and self.stopped_ssh) and all(unread)

    def changed(self) -> tuple[PlanItem, ...]:
        """Return the items with something to do."""
        return tuple(i for i in self.items if i.changes)


@dataclass(frozen=True)
class PlanContext:
    """What a plan has to know beside what is wanted and what was read."""

    extra: Mapping[Target, Sequence[Step]] = field(default_factory=dict)
    """Steps that are planned besides: the pending actions of an unfinished run."""
    left_out: frozenset[str] = frozenset()
    """References of the playbook's targets that `--limit` leaves out."""
    agents: frozenset[Target] = frozenset()
    """VMs that the playbook's patterns mean and that are not the user's to change."""


NOTHING = PlanContext()


def make_plan(
    desired: TargetPlans, estate: Estate, kinds: Kinds, playbook: str = "", besides: PlanContext = NOTHING
) -> Plan:
    """Plan the way from what was read to what is wanted. Pure: the same inputs give an equal plan."""
    return planned(desired, estate, kinds, playbook, besides)[0]


def planned(
    desired: TargetPlans, estate: Estate, kinds: Kinds, playbook: str = "", besides: PlanContext = NOTHING
) -> tuple[Plan, Estate]:
    """Plan, and return beside the plan what it was made on: the estate without values that cannot be read."""
    plan, estate = evaluate_with(kinds, estate, lambda e: _made(desired, e, kinds, playbook, besides))
    missing = missing_facts(desired, estate, kinds, {p.step.target for p in plan.steps}, _plan_once)
    if not missing.problems:
        return plan, estate
    items = tuple(i for i in plan.items if (i.target, i.kind) not in missing.unknown)
    return replace(plan, items=items, problems=_telling({*plan.problems, *missing.problems})), estate


def _made(desired: TargetPlans, estate: Estate, kinds: Kinds, playbook: str, besides: PlanContext) -> Plan:
    done = _final_pass(desired, estate, kinds, besides.left_out)
    steps: dict[Target, list[Step]] = defaultdict(list)
    for step in (*done.steps, *(s for pending in besides.extra.values() for s in pending)):
        steps[step.target].append(step)
    probing = reading_back(desired)
    # what stays as it is needs no gate: a target that is in the desired state never refuses a plan
    changing: dict[Target, set[KindName]] = defaultdict(set)
    for item in done.items:
        if item.changes:
            changing[item.target].add(item.kind)
    running = _to_run(estate, desired)
    done.view = done.view.emptying(_emptied(s for own in steps.values() for s in own))
    power_on = power_ons(done.before, done.view, changing, running)
    outlook = Outlook(View(estate, done.before.states), done.view, running, power_on)
    ordered, in_the_way, impact, moments = arrange(estate, desired, steps, probing, outlook=outlook)
    impact = _with_losses(impact, done.before)
    impact = replace(impact, agents=with_matched(impact.agents, besides.agents, estate))
    found = (*_findings(done, changing), *_touched(done.view, changing, impact)) if changing else ()
    every = [p.step for p in ordered]
    asked = concerned(every, done.before)
    final = final_situation(view_after(done.view, impact.migrations), every)
    at = {vm: moment.of(vm, final) for vm, moment in moments.items()}
    admitted = tuple(answers(final, asked, at))
    findings = (*(found or unread(done.view)), *undecided(admitted, asked), *of_adopted(final, impact.adopted))
    findings = (*findings, *vsan.of_windows(estate, every))
    against = {
        *done.problems,
        *in_the_way,
        *_stranded(done, impact.power_cycles),
        *_no_room(final, desired, changing),
        *refusals(admitted, asked, {p.target for p in done.problems}),
        *_as_problems(findings, estate),
        *silent(impact, done.before),
    }
    items = tuple(_noted(done, order_notes(power_on.orders)))
    made = Plan(estate.about, playbook, items, _telling(against), findings, ordered, impact)
    return replace(made, asked=asked_of(desired), placed=placed_on(done.before, done.view, changing, impact))


def _emptied(steps: Iterable[Step]) -> frozenset[str]:
    """Return the hosts that enter maintenance; a window without a reboot switches VMs off or moves them as well."""
    return frozenset(s.target.ref for s in steps if s.target.kind == "host" and needs_maintenance([s]))


def reading_back(desired: TargetPlans) -> frozenset[Target]:
    """Return the targets whose wanted states are read back with commands on the host."""
    by_ssh = ((t, s) for t, p in desired.items() for s in p.states if isinstance(s, AsksMore))
    return frozenset(t for t, s in by_ssh if s.needs_commands)


def _telling(problems: Collection[Problem]) -> tuple[Problem, ...]:
    """Leave out what only follows: of a host that vCenter has no connection to, nothing else can be known."""
    gone = {p.target for p in problems if p.rule == NOT_CONNECTED}
    return tuple(sorted((p for p in problems if p.target not in gone or p.rule == NOT_CONNECTED), key=by_target))


def _with_losses(impact: Impact, before: View) -> Impact:
    """Add what the reboots take from GPUs, and what a host's GPUs are measured by after its reboot."""
    again = set(impact.reboots)
    found = tuple(replace(f, mig=kept_modes(f.host, before)) if f.host in again else f for f in impact.found)
    lost = (loss_of(host, before) for host in impact.reboots)
    return replace(impact, found=found, lost=tuple(each for each in lost if each is not None))


def _findings(done: _Pass, changing: Mapping[Target, Collection[KindName]]) -> tuple[Finding, ...]:
    found = examine(done.view, {t: frozenset(k) for t, k in changing.items()})
    return (*found, *worsened(done.before, done.view, {k for names in changing.values() for k in names}, found))


def _touched(view: View, changing: Collection[Target], impact: Impact) -> tuple[Finding, ...]:
    """Check the states of VMs that this plan powers off and on, or moves, only because of their host."""
    moving = {*impact.moves, *(m.vm for m in impact.migrations)}
    uses: dict[Target, Use] = {vm: "move" for vm in sorted(moving) if vm not in changing}
    uses.update({vm: "power" for vm in impact.power_cycles if vm not in changing})
    found = touched(view, uses)
    said = tuple(f for f in found if f.verdict in ("warn", "fail"))
    return tuple(f for f in said if f.rule != QUESTION or f.target in moving)  # else the shutdown says it


def view_as_planned(desired: TargetPlans, estate: Estate, kinds: Kinds) -> View:
    """Return the estate as it will be once a playbook is carried out."""
    done = _final_pass(desired, estate, kinds)
    return done.view.emptying(_emptied(done.steps))


def check(desired: TargetPlans, estate: Estate, kinds: Kinds) -> tuple[Finding, ...]:
    """Return what the compatibility rules say of everything a playbook is about, changing or not."""
    done = _final_pass(desired, estate, kinds)
    return examine(done.view, {t: frozenset(s.kind for s in p.states) for t, p in desired.items()})


def _final_pass(desired: TargetPlans, estate: Estate, kinds: Kinds, left_out: frozenset[str] = frozenset()) -> _Pass:
    """Plan until the set of rebooting hosts is stable: what a reboot destroys has to be planned again."""
    before = view = View(estate, observe(estate, kinds), stated=stated_of(desired), left_out=left_out)
    done = _Pass(before, view)
    for _ in range(PASSES):
        done = _plan_once(desired, kinds, before, view)
        if done.rebooting == view.rebooting:
            break
        view = _after_reboots(before, done.rebooting | view.rebooting)
    return done


def remaining(
    desired: TargetPlans, estate: Estate, kinds: Kinds, target: Target, *, but_last: bool = False
) -> tuple[PlanItem, ...]:
    """Return what is left to change on one target: reading back means this is empty.

    With `but_last`, a kind that only has to do what comes last is where it should be.
    """
    done = _alone(desired, estate, kinds, target, says=False)
    waiting = {k for s in done.steps if s.comes_last for k in s.kinds} if but_last else set()
    waiting -= {k for s in done.steps if not s.comes_last for k in s.kinds}
    return tuple(i for i in done.items if i.changes and i.kind not in waiting)


def again(desired: TargetPlans, estate: Estate, kinds: Kinds, target: Target) -> tuple[Step, ...] | None:
    """Return the steps that are left on one target, as its kinds give them; None when that is not known."""
    done = _alone(desired, estate, kinds, target, says=True)
    return None if done.problems else tuple(done.steps)


def steps_alone(view: View, target: Target) -> tuple[Step, ...]:
    """Return the steps of what the playbook states of one target, on a view; of what has problems there are none."""
    states = tuple(s for (ref, _), s in view.stated.items() if ref == target.ref and isinstance(s, Resource))
    done = _Pass(view, view)
    ordered = sort_kinds(kinds())
    for state in sorted(states, key=lambda s: ordered.index(s.kind)):
        _plan_state(done, target, state, says=False)
    return tuple(done.steps)


def _alone(desired: TargetPlans, estate: Estate, kinds: Kinds, target: Target, *, says: bool) -> _Pass:
    view = View(estate, observe(estate, kinds), stated=stated_of(desired))
    return _plan_once({target: desired[target]}, kinds, view, view, says=says)


@dataclass
class _Pass:
    before: View
    """Everything as it was read."""
    view: View
    items: list[PlanItem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def rebooting(self) -> frozenset[str]:
        return frozenset(s.target.ref for s in self.steps if s.needs_reboot)


def _plan_once(desired: TargetPlans, kinds: Kinds, before: View, view: View, *, says: bool = True) -> _Pass:
    """Plan every state once; with `says`, also what kinds say about those that are as they should be."""
    result = _Pass(before, view)
    wanted = grouped(((t, s) for t in sorted(desired) for s in desired[t].states), lambda each: each[1].kind)
    for kind in sort_kinds(kinds):
        for target, state in wanted.get(kind, ()):
            _plan_state(result, target, state, says)
    return result


def _plan_state(result: _Pass, target: Target, state: Resource, says: bool) -> None:
    view, now = result.view, result.before.state(target.ref, state.kind)
    settled = state.settle(target, view)
    left = view.state(target.ref, state.kind)  # what there is, or what a reboot will leave of it
    visible, needed = differences(now, settled), differences(left, settled)
    recreate = bool(needed) and not visible
    if not (needed or says):
        result.items.append(PlanItem(target, state.kind, ()))
        return
    planned = view.with_planned(target.ref, settled) if needed else view
    problems = list(settled.problems(target, planned))
    if needed and not problems:
        result.steps += settled.steps(Change(target, left, settled, recreate), planned)
    result.view = planned.with_facts(settled.project(target, planned, "plan").facts) if needed else planned
    result.problems += problems
    shown_now = now.export(target, view, "shown").state if now else None
    shown = settled.export(target, view, "shown").state
    fields = differences(shown_now, shown) if needed else ()
    if now is not None and isinstance(settled, MakesVms):
        fields = tuple(replace(f, effect=settled.effect(f, target, view)) for f in fields)
    result.items.append(PlanItem(target, state.kind, fields, recreate, tuple(settled.remarks(target, planned))))


def _after_reboots(before: View, rebooting: frozenset[str]) -> View:
    view = replace(before, rebooting=rebooting)
    hosts = (h for h in view.estate.hosts if h.ref in rebooting)
    found = ((h, kind, view.state(h.ref, kind)) for h in hosts for kind in before.kinds)
    left = {(h.ref, kind): state.project(h, view, "reboot").state for h, kind, state in found if state is not None}
    return before.after_reboots(rebooting, left)


def _stranded(done: _Pass, cycled: Iterable[Target]) -> Iterator[Problem]:
    """Refuse to switch a VM off that could not be powered on again where it is, after what this plan does there."""
    refused = {p.target for p in done.problems}
    for vm in cycled:
        host = done.view.estate.host_of(vm.ref)
        if host is None or vm in refused:
            continue
        for state in offered(done.view, vm.ref, VmDevices):
            if missing := state.no_power_on(vm, done.view):
                message = f"it has to be switched off, and could not power on again: {missing}"
                yield Finding.problem(vm, "power.stranded", message, "make room for it first, or power it off first")
            if not state.runs_on(host, done.view):
                place = f"on {host.name} as this plan leaves that host"
                message = f"it has to be switched off, and with its {state.kind} it could not power on again {place}"
                help = f"change its {state.kind} in a vms play of the same playbook, or power it off first"
                yield Finding.problem(vm, "power.stranded", message, help)


def _no_room(final: Situation, desired: TargetPlans, changing: Iterable[Target]) -> Iterator[Problem]:
    """Refuse a plan whose VMs do not all find a GPU where they are; what it does not touch is not its business."""
    estate, touched = final.view.estate, set(changing)
    concerned = {t.ref for t in touched} | {h.ref for t in touched if t.kind == "vm" and (h := estate.host_of(t.ref))}
    if not concerned:
        return
    spare = max((p.spare_hosts for p in desired.values()), default=0)
    problems = problems_of(final.view, _to_run(estate, desired), spare, final)
    yield from (p for p in problems if p.target.ref in concerned)


def _noted(done: _Pass, notes: Mapping[Target, str]) -> Iterator[PlanItem]:
    """Add to what changes where the order in which VMs power on decides whether they do."""
    for item in done.items:
        state = done.view.state(item.target.ref, item.kind)
        has_vgpus = isinstance(state, VmDevices) and bool(state.vgpus(item.target, done.view))
        concerned = item.changes and item.target in notes and (has_vgpus or isinstance(state, DividesGpus))
        yield replace(item, notes=(*item.notes, notes[item.target])) if concerned else item


def will_run(estate: Estate, desired: Iterable[Target]) -> frozenset[str]:
    """Return the VMs that are on once a plan is carried out: those that are, and those of the playbook."""
    on = {v.ref for v in estate.vms if estate.is_on(v.ref)}
    gone = {m.ref for m in members_of(estate) if m.leaving or (m.faults and not m.exists)}
    return frozenset((on | {t.ref for t in desired if t.kind == "vm"}) - gone)


def _to_run(estate: Estate, desired: TargetPlans) -> frozenset[str]:
    """Return the VMs that need a GPU then: not those that are off, and stay so, and that the plan gives no devices."""
    gives = {*giving("vgpus"), *giving("whole_devices")}
    off = (t for t in desired if t.kind == "vm" and not estate.is_on(t.ref) and member_of(estate, t.ref) is None)
    return will_run(estate, desired) - {t.ref for t in off if not any(s.kind in gives for s in desired[t].states)}


def _as_problems(findings: Iterable[Finding], estate: Estate) -> Iterator[Problem]:
    """A failed rule refuses the plan; so does an unknown one that has to be known."""
    for finding in findings:
        if finding.refuses:
            on, vcenter = finding.target, Target("host", estate.about.name, "")
            target = on if isinstance(on, Target) else vcenter
            yield Finding.problem(target, finding.rule, finding.message, finding.remedy)
