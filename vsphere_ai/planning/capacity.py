"""The capacity question a view of the estate poses: GPUs as they will be, and VMs that have to power on there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from vsphere_ai.admission.gpus import Question, as_laid_out, question_of
from vsphere_ai.admission.situation import Situation
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Answer, Fit, GpuHosts, NoFit, VmDemand
from vsphere_ai.gpu.catalog import Profile
from vsphere_ai.gpu.corrections import DividedGpus
from vsphere_ai.gpu.vgpus.vgpu import InstanceShare
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.moves.admitted import final_situation
from vsphere_ai.resources.corrections import text_of

NO_ROOM, NO_SPARE, NOT_IN_LAYOUT = "capacity.no-room", "capacity.no-spare", "capacity.not-in-layout"


def problems_of(
    view: View, vms_that_will_run: frozenset[str], spare_hosts: int = 0, situation: Situation | None = None
) -> Iterator[Problem]:
    """Yield what keeps VMs from powering on where they are registered, and from restarting after a host failure.

    `situation` has the VMs that run then; None: as the view shows them. `vms_that_will_run` holds the references of all
    VMs that are on once the plan is carried out. A profile that no GPU of the VM's host takes is the business of the
    `vgpu` kind and not repeated here.
    """
    question = _offered_at_home(view, question_of(view, vms_that_will_run))
    own = {d.name: host for d in question.demands if (host := view.estate.host_of(d.name)) is not None}
    names = {ref: host.name for ref, host in own.items()}
    hosts = {host.name: host for host in own.values()}
    at_home = question.of_hosts(names)
    demands = grouped(at_home.demands, lambda demand: names[demand.name])
    refused = False
    farms = {name: replace(at_home.farm, slots=tuple(slots)) for name, slots in at_home.farm.hosts.items()}
    answers = {name: _at_home(farm, demands.get(name, ())) for name, farm in farms.items()}
    full = sum(isinstance(a, NoFit) and a.exact for a in answers.values())
    for name, farm in farms.items():
        here, answer = demands.get(name, ()), answers[name]
        unsure = any(s.unsure for s in farm.slots)
        problems = list(_refusals(hosts[name], answer, question, unsure=unsure)) if name in hosts else []
        # no move of one host's VMs makes room on another one
        if problems and isinstance(answer, NoFit) and not answer.no_order and full == 1:
            there = _elsewhere(situation or final_situation(view, (), vms_that_will_run), question)
            problems = [_with_moves(p, view, there, names) for p in problems]
        if not problems and name in hosts:
            problems += _beside_layouts(view, hosts[name], replace(at_home, farm=farm), here)
        refused = refused or bool(problems)
        yield from problems
    if spare_hosts and not refused:
        running = situation or final_situation(view, (), vms_that_will_run)
        yield from _without_spare(question, at_home, hosts, spare_hosts, running)


def _elsewhere(situation: Situation, question: Question) -> Question:
    """Return a question of GPUs narrowed to hosts on which the VMs may power on."""
    from vsphere_ai.planning.moves.elsewhere import Elsewhere

    return Elsewhere(situation, "power_on").narrowed(question)


def _at_home(farm: GpuHosts, here: Sequence[VmDemand]) -> Answer:
    """Return whether the VMs of one host find their GPUs there."""
    answer = solve(farm, here)
    if isinstance(answer, Fit) or not any(s.unsure for s in farm.slots):
        return answer
    # a VM that is not known of only takes room away
    return solve(replace(farm, slots=tuple(replace(s, unsure=False) for s in farm.slots)), here)


def _with_moves(problem: Problem, view: View, question: Question, homes: Mapping[str, str]) -> Problem:
    """Say which VMs would find room on which other hosts, where that is all that would help."""
    from vsphere_ai.capacity.moves import moves_that_help, words

    may_go = {d.name: {homes[d.name], *(h.name for h in view.candidates(d.name))} for d in question.demands}
    demands = [replace(d, hosts=d.hosts & may_go[d.name]) for d in question.demands]
    moves = moves_that_help(question.farm, demands, homes, problem.target.name)
    if not moves:
        return problem
    return replace(problem, remedy=f"{words(moves, lambda ref: question.targets[ref].name)} first; {problem.remedy}")


def _offered_at_home(view: View, question: Question) -> Question:
    """Leave out VMs with a profile that no GPU of their own host takes."""
    hosts = question.farm.hosts

    def offered(demand: VmDemand) -> bool:
        own = view.estate.host_of(demand.name)
        kinds = {s.kind for s in hosts.get(own.name, ())} if own else set()
        return all(any(k.takes(p) for k in kinds) for p in demand.profiles)

    return replace(question, demands=tuple(d for d in question.demands if offered(d)))


def _refusals(host: Target, answer: Answer, question: Question, *, unsure: bool) -> Iterator[Problem]:
    if isinstance(answer, NoFit) and answer.exact and not answer.no_order:
        room = room_words(answer.room)
        help_ = f"{room}, if nothing stands on its GPUs that was not read" if unsure else room
        message = f"{question.names(answer.vms)} cannot power on: {answer.explanation}"
        yield Finding.problem(host, NO_ROOM, message, help_)
    # instances that were not read may open an order; vGPUs are attached by name, not in another order
    elif _in_no_order(answer) and not unsure:
        named = question.names(answer.assignment)
        message = f"{named} fit, but in no power-on order: the starts the driver chooses by itself block each other"
        yield Finding.problem(host, NO_ROOM, message, "state a MIG layout with explicit starts for this host")


def _in_no_order(answer: Answer) -> bool:
    """Return whether VMs have room that no power-on order uses, their vGPUs being attached in the order of the name."""
    return bool(answer.reordered if isinstance(answer, Fit) else isinstance(answer, NoFit) and answer.no_order)


def _beside_layouts(view: View, host: Target, question: Question, here: Sequence[VmDemand]) -> Iterator[Problem]:
    """Refuse VMs for which vSphere would make instances that an exact layout leaves out: the next plan would find them.

    An instance that another user has in use is never touched, so that plan could not put the layout right either.
    """
    fixed = as_laid_out(view, host, question.farm.slots)
    if not any(slot.fixed for slot in fixed):
        return
    answer = solve(replace(question.farm, slots=fixed), here)
    if not isinstance(answer, NoFit) or not answer.exact:
        return
    vms = {d.name: d.profiles for d in here}
    for profile in sorted({p for ref in answer.vms for p in vms[ref]}):
        named = question.names(ref for ref in answer.vms if profile in vms[ref])
        takes = next((t for s in fixed if isinstance(t := s.kind.takes(profile), Profile | InstanceShare)), None)
        if takes is not None:
            needed = takes.profile if isinstance(takes, InstanceShare) else takes
            lacks = f"the layout of the GPUs leaves no instance for {profile}"
            message = f"{named}: {lacks}, so vSphere would make one beside it at power-on"
            otherwise = f"leave the layout out: with {text_of(DividedGpus(host))} vSphere makes instances"
            yield Finding.problem(host, NOT_IN_LAYOUT, message, f"add {needed.name} to the layout, or {otherwise}")


def _without_spare(
    question: Question, at_home: Question, hosts: Mapping[str, Target], spare: int, situation: Situation
) -> Iterator[Problem]:
    """Refuse losses after which VMs find no GPUs on hosts that take them, or no places there together."""
    from vsphere_ai.capacity.spare_hosts import every_outcome
    from vsphere_ai.planning.moves.elsewhere import Elsewhere

    fit = solve(at_home.farm, at_home.demands)
    if not (isinstance(fit, Fit) or fit.assignment):  # no refusal, as it is not certain
        return
    elsewhere = Elsewhere(situation, "ha_restart")
    narrowed = elsewhere.narrowed(question)
    losses = map(frozenset, combinations(sorted(hosts), min(spare, len(hosts))))
    for gone, outcome in every_outcome(narrowed.farm, narrowed.demands, fit, losses):
        lost = sorted(gone)
        if isinstance(outcome, Mapping):
            vms, why = tuple(outcome), elsewhere.why_not_together(gone, outcome, narrowed)
        else:
            vms, left = outcome.vms, elsewhere.near(outcome.vms) - gone
            why = "; ".join(filter(None, (outcome.explanation, elsewhere.words(vms, left))))
        if why:
            message = f"if {' and '.join(lost)} failed, {question.names(vms)} could not restart: {why}"
            help_ = f"spare_hosts: {spare} asks for it; power off VMs, or add hosts that take them"
            yield Finding.problem(hosts[lost[0]], NO_SPARE, message, help_)


def room_words(room: Mapping[str, int]) -> str:
    """Return what still fits, as words."""
    return "; ".join(f"room for {n or 'no'} more {profile}" for profile, n in room.items())
