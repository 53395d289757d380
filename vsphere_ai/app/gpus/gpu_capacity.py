"""Capacity: what runs on the GPUs of hosts, what still fits, and whether a playbook's VMs all find room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from vsphere_ai.admission.gpus import listed_vgpus, question_of
from vsphere_ai.admission.situation import Situation
from vsphere_ai.app.estate.read_estate import read_for, read_with, report_malformed
from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.scope import EstateRequest, EstateScope
from vsphere_ai.app.estate.session import Session, open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.runs.plan_playbook import plan_of
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit
from vsphere_ai.gpu.vgpus.slot import GpuSlot
from vsphere_ai.language.playbooks.play import Playbook, TargetPlan
from vsphere_ai.model.estate.malformed import evaluate
from vsphere_ai.model.facts import About, Estate
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import members_of
from vsphere_ai.planning.capacity import NO_SPARE
from vsphere_ai.planning.capacity_report import FitVerdict, GpuUse, UsedVgpu
from vsphere_ai.planning.moves.admitted import final_situation
from vsphere_ai.planning.moves.elsewhere import Elsewhere, with_admission
from vsphere_ai.planning.observing import observe, readable
from vsphere_ai.planning.planner import Plan, view_as_planned, will_run
from vsphere_ai.reading.collector import Depth
from vsphere_ai.reading.host_calls import DEVICES, asked_by, may_accelerate
from vsphere_ai.resources import kinds
from vsphere_ai.sets.host_choice import NO_ROOM

Uses = dict[str, tuple[GpuUse, ...]]
"""Host name -> its GPUs."""


@dataclass(frozen=True)
class CapacityRequest:
    """Whether the VMs of a playbook fit once its changes are made; without one, what runs now.

    `spare_hosts`: all must still fit after the loss of any so many hosts; None: as many as the playbook says.
    """

    playbook: Path | None = None
    estate: EstateRequest = field(default_factory=EstateRequest)
    spare_hosts: int | None = None


@dataclass(frozen=True)
class CapacityResult:
    """What is on each GPU, per host, and whether all fit; None where that was not asked."""

    about: About
    hosts: Uses
    verdict: FitVerdict | None

    @property
    def exit_code(self) -> int:
        """1 when the VMs do not fit where they are registered, or the plan has problems; else 0."""
        return int(self.verdict is not None and self.verdict.refused)


def capacity(request: CapacityRequest, emit: Emit = ignore) -> CapacityResult:
    """Return what runs on the GPUs and what still fits. Changes nothing."""
    playbook = load(request.playbook, request.estate, emit) if request.playbook else None
    with open_session(request.estate, playbook, emit) as session:
        plan, estate = _planned(session, playbook) if playbook else (None, _read(session))

        def answered(estate: Estate) -> tuple[Uses, FitVerdict | None]:
            return _answer(session, estate, playbook, plan, request.spare_hosts)

        (hosts, verdict), estate = evaluate(estate, answered)
        about = session.connection.vcenter.about
    report_malformed(estate, emit)
    return CapacityResult(about, hosts, verdict)


def _read(session: Session) -> Estate:
    """Read the hosts that `--limit` names, or all; and the VMs of those that may have GPUs."""

    def choose(estate: Estate) -> Depth:
        depth = _depth(estate, _limited(session.scope, estate))
        without = {ref for ref in depth.hosts if not may_accelerate(estate[ref])}
        return replace(depth, vms=frozenset(v for v in depth.vms if estate[v].get("runtime.host") not in without))

    return readable(read_with(session, choose, outlines={"HostSystem": DEVICES}), kinds())


def _limited(scope: EstateScope, estate: Estate) -> tuple[Target, ...]:
    """Return the hosts `--limit` names, and those that the VMs it names are on."""
    named = scope.limited(estate, (*estate.hosts, *estate.vms))
    refs = {t.ref for t in named if t.kind == "host"}
    refs |= {host.ref for t in named if t.kind == "vm" and (host := estate.host_of(t.ref))}
    return tuple(h for h in estate.hosts if h.ref in refs)


def _planned(session: Session, loaded: Playbook) -> tuple[Plan, Estate]:
    """Plan a playbook, having read the hosts its VMs can run on with every VM there."""

    def choose(estate: Estate) -> Depth:
        desired = session.desired(loaded, estate)
        return _depth(estate, _concerned(estate, desired), *asked_by(desired, estate))

    return plan_of(session, loaded, read_for(session, loaded, choose))


def _depth(estate: Estate, hosts: Iterable[Target], *asked: frozenset[str]) -> Depth:
    """Ask for hosts with every VM on them: what is not in the playbook takes room as well. `asked`: see `asked_by`."""
    refs = frozenset(h.ref for h in hosts)
    vms = frozenset(v.ref for ref in refs for v in estate.vms_on(ref))
    connected = frozenset(r for r in refs if estate[r].get("runtime.connectionState") == "connected")
    return Depth(refs, vms, connected, *(asked or (frozenset(), frozenset())))


def _answer(
    session: Session, estate: Estate, loaded: Playbook | None, plan: Plan | None, spare_hosts: int | None
) -> tuple[Uses, FitVerdict | None]:
    """Return what is on each GPU, and whether all fit: the VMs of a playbook, or those that run now."""
    problems: tuple[Problem, ...] = ()
    asked = 0
    if loaded is None or plan is None:
        view, wanted, chosen = _as_it_is(estate), _running(estate), _limited(session.scope, estate)
        situation = final_situation(view, (), wanted)
    else:
        desired = session.desired(loaded, estate)
        problems = tuple(p for p in plan.problems if spare_hosts is None or p.rule != NO_SPARE)
        view, running = view_as_planned(desired, estate, kinds()), will_run(estate, desired)
        situation = final_situation(view, [p.step for p in plan.steps], running)
        wanted = running | _homeless(estate)
        chosen = _concerned(estate, desired)
        asked = max((p.spare_hosts for p in desired.values()), default=0)
    spare = asked if spare_hosts is None else spare_hosts
    verdict = replace(_verdict(situation, chosen, wanted, spare), problems=problems) if loaded or spare else None
    return _uses(view, chosen, wanted), verdict


def _homeless(estate: Estate) -> frozenset[str]:
    """Return new VMs of sets for which no host was found, so that they are left over."""
    new = (m for m in members_of(estate) if not m.exists and not m.leaving)
    return frozenset(m.ref for m in new if any(f.rule == NO_ROOM for f in m.faults))


def _as_it_is(estate: Estate) -> View:
    return View(estate, observe(estate, kinds()))


def uses_now(estate: Estate) -> Uses:
    """Return what runs on each GPU of every host; MIG instances that no VM uses only where hosts were asked."""
    return _uses(_as_it_is(estate), estate.hosts, _running(estate))


def _running(estate: Estate) -> frozenset[str]:
    return frozenset(v.ref for v in estate.vms if estate[v.ref].get("runtime.powerState") in ("poweredOn", "suspended"))


def _concerned(estate: Estate, desired: Mapping[Target, TargetPlan]) -> tuple[Target, ...]:
    """Return the hosts the playbook is about, and those its VMs can run on."""
    refs = {t.ref for t in desired if t.kind == "host"}
    refs |= estate.hosts_around(t.ref for t in desired if t.kind == "vm")
    return tuple(h for h in estate.hosts if h.ref in refs)


def _uses(view: View, hosts: Iterable[Target], wanted: frozenset[str]) -> Uses:
    slots = question_of(view, wanted, chosen := tuple(hosts)).farm.hosts
    return {h.name: tuple(_with_guests(slots.get(h.name, ()), view, h)) for h in chosen}


def _with_guests(slots: Iterable[GpuSlot], view: View, host: Target) -> Iterator[GpuUse]:
    """Yield the GPUs of a host, every running vGPU with what nvidia-smi reports of its guest."""
    refs = {v.ref: v.name for v in view.estate.vms_on(host.ref)}
    listed = list(listed_vgpus(view, host))
    for slot in slots:
        running = []
        for one in slot.running:
            vm = refs.get(one.vm, one.vm)
            found = next((v for v in listed if (v.pci, v.vm_name, v.profile) == (slot.pci, vm, one.profile)), None)
            if found is not None:
                listed.remove(found)
            running.append(UsedVgpu(vm, one.profile, found))
        yield GpuUse(slot, tuple(running))


def _verdict(situation: Situation, hosts: Iterable[Target], wanted: frozenset[str], spare_hosts: int) -> FitVerdict:
    """Ask for the VMs' own hosts first, where they power on; then for hosts of their clusters that take them."""
    estate = situation.view.estate
    question = question_of(situation.view, wanted, hosts)
    homes = {d.name: host.name for d in question.demands if (host := estate.host_of(d.name))}
    answer = solve(question.farm, question.of_hosts(homes).demands)
    at_home = isinstance(answer, Fit)
    if not at_home or spare_hosts:
        elsewhere = Elsewhere(situation, "ha_restart" if at_home else "power_on")
        narrowed = elsewhere.narrowed(question)
        answer = solve(narrowed.farm, narrowed.demands, spare_hosts=spare_hosts)
        answer = with_admission(answer, narrowed, elsewhere, spare_hosts)
    return FitVerdict(answer, at_home, question.targets, homes, spare_hosts)
