"""Hosts of new members as the whole plan decides them: networks, datastores, GPUs, devices and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vsphere_ai.admission.admit import admit, every_requirement, requirements
from vsphere_ai.admission.gpus import as_laid_out, question_of
from vsphere_ai.admission.machine import LOCKED, Machine
from vsphere_ai.admission.machines import Machines
from vsphere_ai.admission.requirements.cpu_reservation import MHZ
from vsphere_ai.admission.requirements.memory import capacity
from vsphere_ai.admission.situation import Situation
from vsphere_ai.capacity.verdict import GpuHosts
from vsphere_ai.fabric import networks
from vsphere_ai.fabric.host_cpus import CORES
from vsphere_ai.fabric.virtual_functions import physical_functions
from vsphere_ai.language.playbooks.play import TargetPlans, stated_of
from vsphere_ai.model.facts import Estate, Facts, grouped
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import MEMBERS, SET, Member, MemberFault, member_of, members_of
from vsphere_ai.planning.capacity import room_words
from vsphere_ai.planning.moves.elsewhere import Elsewhere
from vsphere_ai.planning.observing import observe
from vsphere_ai.planning.planner import steps_alone, view_as_planned, will_run
from vsphere_ai.resources import kinds
from vsphere_ai.resources.makes_vms import WantedSet
from vsphere_ai.resources.mixins import device_states, vgpus_of
from vsphere_ai.sets.choice import Chooser, HostRoom, Hosts, MemberNeed
from vsphere_ai.sets.leaf_choice import OnLeaves
from vsphere_ai.sets.leaf_choice import choose as choose_on_leaves
from vsphere_ai.sets.leaves import Leaves, Rails
from vsphere_ai.sets.places import hosts_of
from vsphere_ai.sets.rules import allows
from vsphere_ai.sets.set_plays import SetPlay

NO_ROOM = "no-room"
"""The fault of a new VM for which hosts would do, but none has room."""
ALONE = (
    *requirements(shared=False, of_host=True),
    *(r for r in every_requirement() if r.id == "admission.sriov"),
)
"""Requirements of host and VM only, judged on a host without VMs; what no host changes is said by the plan."""
TOGETHER = requirements(
    shared=True, without=("admission.gpu", "admission.devices", "admission.ha", "admission.vm-rule")
)
"""What depends on the VMs of the host. GPUs and devices are matched to all at once; what concerns clusters is judged
when every VM has its host."""


def with_hosts(
    plays: Sequence[SetPlay],
    desired: TargetPlans,
    estate: Estate,
    approved: Mapping[str, str] | None = None,
    leaves: Leaves | None = None,
) -> Estate:
    """Return an estate with sets in which each new member is on a host on which the plan as a whole has room for it.

    `approved`: reference of a member -> name of its host in the plan of a run that goes on; it keeps that if it can.
    `leaves`: leaf switches that the inventory names; each rail of a set is on one of them where that is possible.
    """
    new = tuple(m for m in members_of(estate) if not (m.exists or m.leaving or m.faults))
    refs = {m.ref for m in new}
    wanted = {t.ref: p for t, p in desired.items() if t.ref in refs}
    if not wanted:
        return estate
    view = view_as_planned({t: p for t, p in desired.items() if t.ref not in refs}, estate, kinds())
    view = replace(view, stated=stated_of(desired))
    named, before = {each.wanted.name: each for each in plays}, approved or {}
    groups: dict[tuple[object, ...], list[Member]] = {}
    for member in (m for m in new if m.ref in wanted):
        implied = {s.kind for s in named[member.set].kind.implied(member)}
        said = tuple(id(s) for s in wanted[member.ref].states if s.kind not in implied)
        groups.setdefault((member.set, member.place, said, before.get(member.ref, "")), []).append(member)
    running = will_run(estate, desired) - refs
    alike = [_Alike.of(view, named[o[0].set].wanted, o, before.get(o[0].ref, "")) for o in groups.values()]
    chooser = _chooser(view, alike, running, max((p.spare_hosts for p in desired.values()), default=0))
    rails = {}
    for each in alike:
        own, place = named[each.need.set].wanted, each.members[0].place
        rails[own.name] = (leaves or Leaves()).rails(own, place, hosts_of(own, place, estate), estate)
    return _moved(estate, _chosen(chooser, alike, rails, {h.name: h for h in estate.hosts}))


def _moved(estate: Estate, members: Sequence[Member]) -> Estate:
    changed: list[Facts] = []
    for name, own in grouped(members, lambda m: m.set).items():
        facts = estate[f"{SET}:{name}"]
        changed.append(facts.having({MEMBERS: {**(facts.get(MEMBERS) or {}), **{m.ref: m for m in own}}}))
    changed += [estate[m.ref].having({"runtime.host": m.place.host}) for m in members]
    return estate.with_objects(changed)


@dataclass(frozen=True)
class _Alike:
    """New VMs of a set of which the same is wanted; `unfit` says of hosts of the cluster why they are none for them."""

    members: Sequence[Member]
    need: MemberNeed
    unfit: Mapping[str, str]

    @classmethod
    def of(cls, view: View, wanted: WantedSet, members: Sequence[Member], approved: str) -> _Alike:
        """Return what VMs need, as the first of them does; on the approved host where there is one that fits."""
        member = members[0]
        vm, facts = Target("vm", member.name, member.ref), view.facts(member.ref)
        states = [s for _, s in device_states(view, member.ref)]
        profiles = vgpus_of(vm, view)
        claims = tuple(c for s in states for c in s.whole_devices(vm, view))
        full = wanted.reserves_memory or profiles or claims or facts.get(LOCKED)
        machine = _machine(view, wanted, member, reserves_all=bool(full))
        apart = wanted.placement.anti_affinity == "must"
        unfit: dict[str, str] = {}
        situation = Situation(view, Machines(view), {})
        hosts = hosts_of(wanted, member.place, view.estate)
        for host in hosts:
            target = Target("host", host.name, host.ref)
            reasons = (
                "" if allows(wanted.placement, host.name) else "'placement: hosts' leaves it out",
                admit(machine, host, situation, "power_on", ALONE).words_against,
                *(f"it does not have what {s.kind} asks for" for s in states if not s.runs_on(target, view)),
            )
            if why := next(filter(None, reasons), ""):
                unfit[host.name] = why
        fit = frozenset(h.name for h in hosts if h.name not in unfit)
        fit = frozenset({approved}) & fit or fit
        need = MemberNeed(member.ref, member.set, fit, profiles, machine.reserved_mb or 0, claims, apart, machine)
        return cls(members, need, unfit)


def _machine(view: View, wanted: WantedSet, member: Member, *, reserves_all: bool) -> Machine:
    """Return what a new VM takes of its host, as the plan leaves it; `reserves_all`: all of its memory is reserved."""
    estate, place, vm = view.estate, member.place, Target("vm", member.name, member.ref)
    machine = Machines(view, {vm.ref: steps_alone(view, vm)}).planned(vm.ref)
    source = estate.get(place.source)
    stores = (place.datastore,) if place.datastore else (source.get("datastore") or ()) if source else ()
    stores = tuple(s for s in stores if s.startswith("Datastore:"))
    reserved = machine.memory_mb if reserves_all or machine.demands_all_memory else machine.reserved_mb
    return replace(
        machine,
        reserved_mb=reserved,
        networks=tuple(dict.fromkeys((*machine.networks, *_networks(view, wanted, member)))),
        datastores=(*stores, *place.more_datastores),
        home=next(iter(stores), ""),
    )


def _networks(view: View, wanted: WantedSet, member: Member) -> Iterator[str]:
    """Yield the networks of a new VM, with those that the plan makes."""
    for name in dict.fromkeys(n.port_group for n in wanted.nics):
        group = networks.for_place(view.estate, member.place, name).network
        if group is not None:
            yield group.ref


# -- what hosts have


def _chooser(view: View, alike: Sequence[_Alike], running: frozenset[str], spare: int) -> Chooser:
    estate = view.estate
    names = {name for each in alike for name in (*each.need.hosts, *each.unfit)}
    hosts = [h for h in estate.hosts if h.name in names]
    vgpus = any(each.need.profiles for each in alike)
    question = question_of(view, running, hosts if vgpus else ())
    exact = [s for h in hosts for s in as_laid_out(view, h, question.farm.hosts.get(h.name, ()))]
    laid_out = any(s.fixed for s in exact)
    homes = {d.name: h.name for d in question.demands if (h := estate.host_of(d.name)) is not None}
    devices = any(each.need.claims for each in alike)
    situation = _running(view, running)
    return Chooser(
        question.farm,
        GpuHosts(tuple(exact), question.farm.policies) if laid_out else question.farm,
        question.demands,
        homes,
        {h.name: _room(situation, h, devices=devices) for h in hosts},
        spare if vgpus else 0,
        _restarts(situation),
    )


def _restarts(situation: Situation) -> Callable[[Hosts, Sequence[MemberNeed]], Elsewhere]:
    """Return what finds, for hosts of new VMs, where VMs restart after the loss of a host."""
    known, refs = Elsewhere(situation, "ha_restart"), {h.name: h.ref for h in situation.view.estate.hosts}

    def after(hosts: Hosts, needs: Sequence[MemberNeed]) -> Elsewhere:
        new = {n.name: replace(n.machine, ref=n.name) for n in needs if n.machine is not None}
        return known.beside(new, {name: refs[hosts[name]] for name in new})

    return after


def _running(view: View, running: frozenset[str]) -> Situation:
    """Return the VMs that will run, where they are registered, as their own plays leave them.

    Members that the plan powers on are among them; other VMs that are off stay off.
    """
    targets = (Target("vm", view.estate[r].name, r) for r in running if r in view.estate.objects)
    present = View(view.estate, observe(view.estate, kinds()), stated=view.stated)
    machines = Machines(view, {t.ref: steps_alone(present, t) for t in targets if view.planned_kinds(t.ref)})
    on: dict[str, dict[str, Machine]] = {}
    for ref in {*machines.on, *running}:
        facts = view.estate.get(ref)
        stays_off = ref in running and not view.estate.is_on(ref) and member_of(view.estate, ref) is None
        if facts is not None and not stays_off and (ref in running or view.estate.kind_of(ref) is None):
            on.setdefault(str(facts.get("runtime.host") or ""), {})[ref] = machines.planned(ref)
    return Situation(view, machines, on)


def _room(situation: Situation, host: Target, *, devices: bool) -> HostRoom:
    view, estate = situation.view, situation.view.estate
    facts = view.facts(host.ref)
    members = {m.ref: m for m in members_of(estate) if not m.leaving}
    there = estate.vms_on(host.ref)
    taken = (claim for vm in situation.on(host.ref).values() for claim in vm.claims)

    load, room = situation.load(host.ref), capacity(facts)
    return HostRoom(
        facts,
        lambda needs: _against(situation, facts, needs),
        (*load.__dict__.values(), room, facts.get(CORES), facts.get(MHZ), _functions(facts)),
        None if room is None else (room - load.memory_mb).low,
        tuple(taken) if devices else (),
        Counter(members[vm.ref].set for vm in there if vm.ref in members and members[vm.ref].exists),
        # a new VM is on a host only for the time being
        (sum(vm.ref not in members or members[vm.ref].exists for vm in there),),
    )


def _functions(host: Facts) -> str:
    """Return the name of a host with virtual functions: which VMs it takes depends on its switches as well."""
    return host.name if any(f.now for f in physical_functions(host).values()) else ""


def _against(situation: Situation, host: Facts, needs: Sequence[MemberNeed]) -> str:
    """Return why VMs are not all taken by a host, one after another, beside those that run there."""
    arrived = []
    why = ""
    for number, machine in enumerate(n.machine for n in needs if n.machine is not None):
        vm = replace(machine, ref=f"VirtualMachine:new {number}")
        why = admit(vm, host, situation, "power_on", TOGETHER).words_against
        if why:
            break
        situation.arrive(vm, host.ref)
        arrived.append(vm.ref)
    for ref in arrived:
        situation.leave(ref)
    return why


# -- what is said of them


def _chosen(
    chooser: Chooser, alike: Sequence[_Alike], rails: Mapping[str, Rails], hosts: Mapping[str, Target]
) -> tuple[Member, ...]:
    """Return the members with their hosts, and why; or with what keeps them from having one."""
    needs = tuple(replace(each.need, name=m.ref) for each in alike for m in each.members)
    chosen = choose_on_leaves(chooser, needs, rails)
    choice = chosen.choice
    there = grouped((n for n in needs if n.name in choice.hosts), lambda n: choice.hosts[n.name])
    total = Counter(n.set for n in needs)
    for room in chooser.rooms.values():
        total.update(room.sets)
    together = "" if choice.spread else "; chosen for all VMs together, as an even spread has no room for all"
    words: dict[tuple[str, MemberNeed], str] = {}
    members = []
    for each in alike:
        for member in each.members:
            name = choice.hosts.get(member.ref)
            if name is None:
                fault = _refusal(chooser, there, each)
                members.append(replace(member, why_here="", faults=(fault,)))
                continue
            if (name, each.need) not in words:
                words[name, each.need] = _why(chooser, name, each.need, there[name], total[member.set]) + together
            place = replace(member.place, host=hosts[name].ref)
            members.append(replace(member, place=place, why_here=words[name, each.need]))
    return tuple(_on_leaves(m, rails[m.set], chosen.sets.get(m.set)) for m in members)


def _on_leaves(member: Member, rails: Rails, found: OnLeaves | None) -> Member:
    """Return a member that says on which leaves its set is, or that it must not be on several."""
    if member.faults:
        return member
    if rails.must and (found is None or not found.one):
        why = found.words if found else "the inventory names no leaf of their hosts"
        help = "make room on one leaf, take fewer VMs, or write one_leaf: should"
        return replace(
            member,
            faults=(MemberFault("leaves", f"the rails of its set must each be on one leaf, and are not: {why}", help),),
        )
    return replace(member, why_here="; ".join(filter(None, (member.why_here, found.words if found else ""))))


def _why(chooser: Chooser, host: str, need: MemberNeed, there: Sequence[MemberNeed], total: int) -> str:
    own = chooser.rooms[host].sets.get(need.set, 0) + sum(n.set == need.set for n in there)
    words = (
        f"on {host}: {own} of {total} VM{'' if total == 1 else 's'} of the set there",
        _left(chooser, host, need, there),
    )
    return ", ".join(filter(None, words))


def _left(chooser: Chooser, host: str, need: MemberNeed, there: Sequence[MemberNeed]) -> str:
    """Return what a host has left for such a VM, in words; empty where it needs nothing that runs out."""
    if need.profiles:
        return room_words(chooser.left(host, there, sorted(set(need.profiles))))
    free = chooser.rooms[host].free_mb
    if need.memory_mb and free is not None:
        needs = (n.machine.memory_need_mb for n in there if n.machine is not None)
        left = free - sum(n.high for n in needs if n is not None)
        return f"{max(int(left), 0) >> 10} GB of memory left to reserve"
    return ""


def _refusal(chooser: Chooser, there: Mapping[str, Sequence[MemberNeed]], alike: _Alike) -> MemberFault:
    need = alike.need
    if not need.hosts:
        reasons = [f"{host}: {why}" for host, why in sorted(alike.unfit.items())] or ["the cluster has no host"]
        return MemberFault("no-host", f"no host can run it: {'; '.join(reasons)}", "see what each host lacks")
    reasons = [f"{host}: {_lack(chooser, host, need, there.get(host, ()))}" for host in sorted(need.hosts)]
    reasons += [f"{host}: {why}" for host, why in sorted(alike.unfit.items())]
    return MemberFault(NO_ROOM, f"no host has room for it: {'; '.join(reasons[:8])}", "make fewer VMs, or make room")


def _lack(chooser: Chooser, host: str, need: MemberNeed, there: Sequence[MemberNeed]) -> str:
    room = chooser.rooms[host]
    if why := room.against((*there, need)):
        return why
    if need.claims and not chooser.takes(host, (*there, replace(need, profiles=()))):
        return "no whole device left that it asks for"
    return _left(chooser, host, need, there) or "not with the other VMs of the set"
