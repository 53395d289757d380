"""The capacity question a view of the estate poses: GPUs as they will be, and VMs that have to power on there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations

from vsphere_ai.capacity.host import Policy
from vsphere_ai.capacity.moves import moves_that_help, words
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.spare_hosts import every_failure
from vsphere_ai.capacity.verdict import Answer, Fit, GpuHosts, NoFit, VmDemand
from vsphere_ai.fabric.api_types import GraphicsInfo
from vsphere_ai.gpu import layout as layouts
from vsphere_ai.gpu.catalog import Board, Profile
from vsphere_ai.gpu.listed_board import boards_as_listed
from vsphere_ai.gpu.live import readable
from vsphere_ai.gpu.search import Instance
from vsphere_ai.gpu.slot import GpuSlot, Mode, Running, Sharing, step
from vsphere_ai.gpu.vgpu import Share, VgpuNameError, VgpuProfile, mig_profile, parse, share_of
from vsphere_ai.model.facts import Facts, grouped
from vsphere_ai.model.host_version import host_version
from vsphere_ai.model.state import Problem, Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.host_settings import DividesGpus, SharesGpus
from vsphere_ai.resources.mixins import is_changed, offered, settled, vgpus_of

NO_ROOM, NO_SPARE, NOT_IN_LAYOUT = "capacity.no-room", "capacity.no-spare", "capacity.not-in-layout"
ANY_SERIES = (8, 0, 2)  # vGPUs of one size and different series share a GPU from vSphere 8.0 U2 on
LISTED = "config.sharedPassthruGpuTypes"
MIXED_SIZE, MIG = "mixedSize", "multiInstanceGpu"  # HostGraphicsInfo.vgpuMode, vSphere API 8.0.3.0


@dataclass(frozen=True)
class Question:
    """GPUs and VMs of an estate, the VMs named by their managed object references.

    VMs that stay on are on the GPUs already; `demands` has them as well, with the host they run on.
    """

    farm: GpuHosts
    demands: tuple[VmDemand, ...]
    targets: Mapping[str, Target] = field(default_factory=dict)

    def names(self, refs: Iterable[str]) -> str:
        """Return the names of VMs as words."""
        return ", ".join(sorted(self.targets[ref].name for ref in refs))

    def of_hosts(self, own: Mapping[str, str]) -> Question:
        """Return the question with every VM bound to one host (reference -> host name)."""
        bound = tuple(replace(d, hosts=frozenset({own[d.name]})) for d in self.demands)
        return replace(self, demands=bound)


def problems_of(view: View, vms_that_will_run: frozenset[str], spare_hosts: int = 0) -> Iterator[Problem]:
    """Yield what keeps VMs from powering on where they are registered, and from restarting after a host failure.

    `vms_that_will_run` holds the references of all VMs that are on once the plan is carried out. A profile that no
    GPU of the VM's host takes is the business of the `vgpu` kind and not repeated here.
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
            problems = [_with_moves(p, view, question, names) for p in problems]
        if not problems and name in hosts:
            problems += _beside_layouts(view, hosts[name], replace(at_home, farm=farm), here)
        refused = refused or bool(problems)
        yield from problems
    if spare_hosts and not refused:
        yield from _without_spare(question, at_home, hosts, spare_hosts)


def _at_home(farm: GpuHosts, here: Sequence[VmDemand]) -> Answer:
    """Return whether the VMs of one host find their GPUs there."""
    answer = solve(farm, here)
    if isinstance(answer, Fit) or not any(s.unsure for s in farm.slots):
        return answer
    # a VM that is not known of only takes room away
    return solve(replace(farm, slots=tuple(replace(s, unsure=False) for s in farm.slots)), here)


def _with_moves(problem: Problem, view: View, question: Question, homes: Mapping[str, str]) -> Problem:
    """Say which VMs would find room on which other hosts, where that is all that would help."""
    may_go = {d.name: {homes[d.name], *(h.name for h in view.candidates(d.name))} for d in question.demands}
    demands = [replace(d, hosts=d.hosts & may_go[d.name]) for d in question.demands]
    moves = moves_that_help(question.farm, demands, homes, problem.target.name)
    if not moves:
        return problem
    return replace(problem, help=f"{words(moves, lambda ref: question.targets[ref].name)} first; {problem.help}")


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
        yield Problem(host, NO_ROOM, message, help_)
    # instances that were not read may open an order; vGPUs are attached by name, not in another order
    elif _in_no_order(answer) and not unsure:
        named = question.names(answer.assignment)
        message = f"{named} fit, but in no power-on order: the starts the driver chooses by itself block each other"
        yield Problem(host, NO_ROOM, message, "state a MIG layout with explicit starts for this host")


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
        takes = next((t for s in fixed if isinstance(t := s.kind.takes(profile), Profile | Share)), None)
        if takes is not None:
            needed = takes.profile if isinstance(takes, Share) else takes
            lacks = f"the layout of the GPUs leaves no instance for {profile}"
            message = f"{named}: {lacks}, so vSphere would make one beside it at power-on"
            otherwise = "leave the layout out: with mode: enabled vSphere makes instances"
            yield Problem(host, NOT_IN_LAYOUT, message, f"add {needed.name} to the layout, or {otherwise}")


def as_laid_out(view: View, host: Target, slots: Iterable[GpuSlot]) -> tuple[GpuSlot, ...]:
    """Give GPUs whose layout the playbook states its instances, and no others; one that does not fit is no matter here.

    Such a layout has no starts, and the `mig` kind says what is wrong with it.
    """
    state = next(settled(view, host, DividesGpus), None)
    found = []
    for slot in slots:
        layout = state.layout_of(slot.pci) if state else None
        made = tuple(_instances(slot.board, layout or ()))
        exact = slot.mode == "mig" and layout is not None and len(made) == len(layout)
        found.append(replace(slot, fixed=True, instances=made) if exact else slot)
    return tuple(found)


def _without_spare(question: Question, at_home: Question, hosts: Mapping[str, Target], spare: int) -> Iterator[Problem]:
    fit = solve(at_home.farm, at_home.demands)
    if not (isinstance(fit, Fit) or fit.assignment):  # no refusal, as it is not certain
        return
    losses = map(frozenset, combinations(sorted(hosts), min(spare, len(hosts))))
    for gone, refused in every_failure(question.farm, question.demands, fit, losses):
        named, lost = question.names(refused.vms), sorted(gone)
        message = f"if {' and '.join(lost)} failed, {named} could not restart: {refused.explanation}"
        help_ = f"spare_hosts: {spare} asks for it; power off VMs, or add hosts with such GPUs"
        yield Problem(hosts[lost[0]], NO_SPARE, message, help_)


def room_words(room: Mapping[str, int]) -> str:
    """Return what still fits, as words."""
    return "; ".join(f"room for {n or 'no'} more {profile}" for profile, n in room.items())


def question_of(view: View, vms_that_will_run: frozenset[str], hosts: Iterable[Target] | None = None) -> Question:
    """Return the GPUs of the hosts (all by default) and the VMs with vGPUs that will run on them.

    `vms_that_will_run` holds the references of all VMs that are on once the plan is carried out. One that is on, and
    that the plan neither changes nor reboots away, stays on its GPUs.
    """
    chosen = tuple(view.estate.hosts if hosts is None else hosts)
    vms = sorted(v for h in chosen for v in view.estate.vms_on(h.ref) if v.ref in vms_that_will_run)
    stay = {v.ref for v in vms if _stays_on(view, v.ref)}
    slots = {h.name: slots_of(view, h, stay) for h in chosen}
    fills = {h.name: any(s.consolidates() for s in offered(view, h.ref, SharesGpus)) for h in chosen}
    policies: dict[str, Policy] = {n: "consolidation" if fill else "performance" for n, fill in fills.items()}
    demands, targets, around = [], {}, dict[Target, frozenset[str]]()
    for vm in vms:
        own_host = view.estate.host_of(vm.ref)
        profiles = vgpus_of(vm, view)
        if not profiles or own_host is None:
            continue
        near = view.estate.hosts_for(vm.ref)  # those of its cluster, which many VMs have in common
        if near[0] not in around:
            around[near[0]] = frozenset(h.name for h in near if h.name in slots)
        demands.append(VmDemand(vm.ref, profiles, around[near[0]], own_host.name if vm.ref in stay else None))
        targets[vm.ref] = vm
    farm = GpuHosts(tuple(s for own in slots.values() for s in own), policies)
    return Question(farm, tuple(demands), targets)


def slots_of(view: View, host: Target, staying: Set[str]) -> tuple[GpuSlot, ...]:
    """Return the GPUs of a host that give vGPUs once the plan is carried out; `staying` are the VMs that keep theirs.

    GPUs are left out of which neither the catalogue nor the host's own list says what they take.
    """
    return _HostGpus(view, host, staying).slots()


class _HostGpus:
    """The GPUs of a host once the plan is carried out."""

    def __init__(self, view: View, host: Target, staying: Set[str]) -> None:
        self._view, self._host, self._staying = view, host, staying
        self._facts, self._now = view.facts(host.ref), readable(view.facts(host.ref))
        self._infos: dict[str, GraphicsInfo] = {g["pciId"]: g for g in self._facts.get("config.graphicsInfo", ())}
        self._sharing, self._dividing = [*offered(view, host.ref, SharesGpus)], [*offered(view, host.ref, DividesGpus)]

    def slots(self) -> tuple[GpuSlot, ...]:
        boards = ((pci, listed.board) for pci, listed in boards_as_listed(self._facts).items())
        shared = [(pci, board) for pci, board in boards if board and any(s.shares(pci) for s in self._sharing)]
        slots = [slot for pci, board in shared if (slot := self._slot(pci, board)) is not None]
        for vm in self._view.estate.vms_on(self._host.ref) if slots else ():
            if vm.ref in self._staying:
                self._run(vm, slots)
        return tuple(slots)

    def _run(self, vm: Target, slots: list[GpuSlot]) -> None:
        """Put the vGPUs of a VM that stays on the GPUs that show it, each of these first getting one of it."""
        shown = [at for at, s in enumerate(slots) if vm.ref in self._guests(s.pci)]
        places = [*shown, *shown * 31, *range(len(slots))]
        for name in vgpus_of(vm, self._view):
            at = next((p for p in places if step(slots[p].kind, slots[p].state, name) is not None), None)
            if at is not None:
                places.remove(at)
                slots[at] = replace(slots[at], running=(*slots[at].running, Running(vm.ref, name)))

    def _slot(self, pci: str, board: Board) -> GpuSlot | None:
        mode, release = self._mode(pci, board), host_version(self._view.estate, self._host.ref)
        if mode == "mig" and board.named_profiles:
            return None
        mixed = self._infos.get(pci, GraphicsInfo()).get("vgpuMode") == MIXED_SIZE
        listed = {p.stem for p in _named(self._facts.get(LISTED, ()))}
        unread = any(not _was_read(self._view, vm) for vm in self._guests(pci))
        unseen = mode == "mig" and self._layout(pci) is None and all(g.pci != pci for g in self._now.gpus)
        return GpuSlot(
            host=self._host.name,
            pci=pci,
            board=board,
            mode=mode,
            instances=self._instances(pci, board) if mode == "mig" else (),
            sharing=Sharing(mixed=mixed, any_series=release is not None and release[0] >= ANY_SERIES),
            offered=self._offered(),
            spellings=tuple(n for n in board.vgpu_names if n in listed) or None,
            driver_major=self._now.driver_major(pci),
            unsure=(unread or unseen) and self._host.ref not in self._view.rebooting,
        )

    def _guests(self, pci: str) -> tuple[str, ...]:
        return tuple(self._infos.get(pci, GraphicsInfo()).get("vm", ()))

    def _instances(self, pci: str, board: Board) -> tuple[Instance, ...]:
        """Return the GPU instances there will be: planned ones, else those of now less those of VMs that power off."""
        if (layout := self._layout(pci)) is not None:
            return tuple(_instances(board, layout))
        if self._host.ref in self._view.rebooting:
            return ()
        known = (i for i in self._now.instances[pci] if board.find_profile(i.profile_name))
        there, guests = [Instance(i.profile_name, i.start) for i in known], self._guests(pci)
        # vSphere takes the instance of a VM away when the VM powers off
        leaving = _instances_of(board, self._view, guests)
        leaving.subtract(_instances_of(board, self._view, [vm for vm in guests if vm in self._staying]))
        for name, count in leaving.items():
            for gone in [i for i in there if i.profile_name == name][: max(count, 0)]:
                there.remove(gone)
        return tuple(there)

    def _layout(self, pci: str) -> tuple[str, ...] | None:
        """Return what will stand on a GPU, where this plan says it."""
        states = self._dividing if is_changed(self._view, self._host.ref, DividesGpus) else ()
        return next((layout for state in states if (layout := state.layout_of(pci)) is not None), None)

    def _mode(self, pci: str, board: Board) -> Mode:
        """Return a GPU's mode: as read over SSH or planned, as vCenter shows it, as its VMs or the host's list say."""
        if not board.mig_capable:
            return "time_sliced"
        known = (divided for state in self._dividing if (divided := state.is_divided(pci)) is not None)
        if (divided := next(known, None)) is not None:
            return "mig" if divided else "time_sliced"
        shown = self._infos.get(pci, GraphicsInfo()).get("vgpuMode")
        if shown:
            return "mig" if shown == MIG else "time_sliced"
        guests = (self._view.estate.get(vm) for vm in self._guests(pci))
        running = [p for g in guests if g is not None for p in _named(observed_profiles(g))]
        listed = [p for p in _named(self._facts.get(LISTED, ())) if p.stem in board.vgpu_names]
        return "mig" if any(p.is_mig for p in running or listed) else "time_sliced"

    def _offered(self) -> frozenset[str] | None:
        """Return the host's own list, which is the truth unless this plan changes what decides it."""
        planned = any(is_changed(self._view, self._host.ref, mixin) for mixin in (SharesGpus, DividesGpus))
        listed = self._facts.get(LISTED)
        return None if planned or listed is None else frozenset(name.lower() for name in listed)


def _instances_of(board: Board, view: View, vms: Iterable[str]) -> Counter[str]:
    """Return how many GPU instances of each profile the vGPUs of VMs take; those that share one take as few as can."""
    found, shares = Counter[str](), Counter[Share]()
    for parsed in _named(n for vm in vms if _was_read(view, vm) for n in observed_profiles(view.facts(vm))):
        share, profile = share_of(board, parsed, listed=True), mig_profile(board, parsed)
        if share is not None:
            shares[share] += 1
        elif profile is not None:
            found[profile.name] += 1
    for share, count in shares.items():
        found[share.profile.name] += -(-count // share.per_instance)
    return found


def _instances(board: Board, layout: Iterable[str]) -> Iterator[Instance]:
    for item in map(layouts.parse_item, layout):
        profile = board.find_profile(item.profile)
        if profile is not None and item.start is not None:
            yield Instance(profile.name, item.start)


def _was_read(view: View, vm: str) -> bool:
    facts = view.estate.get(vm)
    return facts is not None and facts.get("config.hardware.device") is not None


def _stays_on(view: View, vm: str) -> bool:
    host = view.estate.host_of(vm)
    changed = bool(view.planned_kinds(vm))
    on = view.facts(vm).get("runtime.powerState") in ("poweredOn", "suspended")
    return on and not changed and host is not None and host.ref not in view.rebooting


def observed_profiles(facts: Facts) -> tuple[str, ...]:
    """Return the vGPU profiles a VM has, as it was read, one by one."""
    backings = (d.get("backing") or {} for d in facts.get("config.hardware.device", ()))
    return tuple(b["vgpu"].lower() for b in backings if b.get("vgpu"))


def _named(names: Iterable[str]) -> Iterator[VgpuProfile]:
    for name in names:
        with suppress(VgpuNameError):
            yield parse(name.lower())
