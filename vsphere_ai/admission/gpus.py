"""GPUs of hosts as a view of the estate leaves them, and the VMs with vGPUs that run on them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from vsphere_ai.capacity.host import Policy
from vsphere_ai.capacity.verdict import GpuHosts, VmDemand
from vsphere_ai.fabric.api_types import GraphicsInfo
from vsphere_ai.gpu.catalog import Board
from vsphere_ai.gpu.mig import layout as layouts
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.smi.live import readable, running
from vsphere_ai.gpu.smi.running import RunningVgpu
from vsphere_ai.gpu.vgpus.listed_board import boards_as_listed
from vsphere_ai.gpu.vgpus.slot import GpuSlot, Mode, Sharing, StayingVgpu, step
from vsphere_ai.gpu.vgpus.vgpu import InstanceShare, VgpuNameError, VgpuProfile, mig_profile, parse, share_of
from vsphere_ai.model.estate.host_version import host_version
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.host_settings import DividesGpus, SharesGpus
from vsphere_ai.resources.mixins import is_changed, offered, settled, vgpus_of

ANY_SERIES = (8, 0, 2)  # vGPUs of one size and different series share a GPU from vSphere 8.0 U2 on
LISTED = "config.sharedPassthruGpuTypes"
MIXED_SIZE, MIG = "mixedSize", "multiInstanceGpu"  # HostGraphicsInfo.vgpuMode, vSphere API 8.0.3.0
PASSED_THROUGH = "direct"  # HostGraphicsInfo.graphicsType


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


def question_of(view: View, vms_that_will_run: frozenset[str], hosts: Iterable[Target] | None = None) -> Question:
    """Return the GPUs of the hosts (all by default) and the VMs with vGPUs that will run on them.

    `vms_that_will_run` holds the references of all VMs that are on once the plan is carried out. One that is on, and
    that the plan neither changes nor switches off or moves for a window of its host, stays on its GPUs.
    """
    chosen = tuple(view.estate.hosts if hosts is None else hosts)
    vms = sorted(v for h in chosen for v in view.estate.vms_on(h.ref) if v.ref in vms_that_will_run)
    stay = {v.ref for v in vms if stays_on(view, v.ref)}
    slots = {h.name: slots_of(view, h, stay) for h in chosen}
    fills = {h.name: fills_first(view, h) for h in chosen}
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


def fills_first(view: View, host: Target) -> bool:
    """Return whether a host fills one GPU after the other, rather than to spread vGPUs over them."""
    return any(s.consolidates() for s in offered(view, host.ref, SharesGpus))


def slots_of(view: View, host: Target, staying: Set[str]) -> tuple[GpuSlot, ...]:
    """Return the GPUs of a host that give vGPUs once the plan is carried out; `staying` are the VMs that keep theirs.

    GPUs are left out of which neither the catalogue nor the host's own list says what they take.
    """
    return _HostGpus(view, host, staying).slots()


def listed_vgpus(view: View, host: Target) -> tuple[RunningVgpu, ...]:
    """Return the vGPUs that nvidia-smi lists on a host and whose VM is known.

    Its listing names VMs; those of one name on one host cannot be distinguished.
    """
    listed = running(view.facts(host.ref)) or ()
    names = Counter(v.name for v in view.estate.vms_on(host.ref)) if listed else {}
    return tuple(v for v in listed if names.get(v.vm_name) == 1)


class _HostGpus:
    """The GPUs of a host once the plan is carried out."""

    def __init__(self, view: View, host: Target, staying: Set[str]) -> None:
        self._view, self._host, self._staying = view, host, staying
        self._facts, self._now = view.facts(host.ref), readable(view.facts(host.ref))
        self._infos: dict[str, GraphicsInfo] = {g["pciId"]: g for g in self._facts.get("config.graphicsInfo", ())}
        self._sharing, self._dividing = [*offered(view, host.ref, SharesGpus)], [*offered(view, host.ref, DividesGpus)]

    def slots(self) -> tuple[GpuSlot, ...]:
        boards = ((pci, listed.board) for pci, listed in boards_as_listed(self._facts).items())
        shared = [(pci, board) for pci, board in boards if board and self._is_shared(pci)]
        slots = [slot for pci, board in shared if (slot := self._slot(pci, board)) is not None]
        for vm in self._view.estate.vms_on(self._host.ref) if slots else ():
            if vm.ref in self._staying:
                self._run(vm, slots)
        return tuple(slots)

    def _is_shared(self, pci: str) -> bool:
        """Return whether a GPU gives vGPUs; one that is passed through whole, or that this plan passes, gives none."""
        passed = self._infos.get(pci, GraphicsInfo()).get("graphicsType") == PASSED_THROUGH
        sick = pci in self._now.faults  # nvidia-smi shows no values of it: no vGPU starts there
        return not passed and not sick and any(s.shares(pci) for s in self._sharing)

    def _run(self, vm: Target, slots: list[GpuSlot]) -> None:
        """Put the vGPUs of a VM that stays on the GPUs that show it, each of these first getting one of it."""
        shown = [at for at, s in enumerate(slots) if vm.ref in self._guests(s.pci)]
        places = [*shown, *shown * 31, *range(len(slots))]
        starts = list(self._starts(vm.name))
        for name in vgpus_of(vm, self._view):
            own = next((each for each in starts if each[1] == name), None)
            if own is not None:
                starts.remove(own)
                at = next((n for n, s in enumerate(slots) if s.pci == own[0] and s.has_places), None)
                if at is not None:
                    slots[at] = replace(slots[at], running=(*slots[at].running, StayingVgpu(vm.ref, name, own[2])))
                    continue
            at = next((p for p in places if step(slots[p].kind, slots[p].state, name) is not None), None)
            if at is not None:
                places.remove(at)
                slots[at] = replace(slots[at], running=(*slots[at].running, StayingVgpu(vm.ref, name)))

    def _starts(self, vm: str) -> Sequence[tuple[str, str, int]]:
        """Return GPU, profile and start of the vGPUs of a VM as `StayingVgpu` has it, where nvidia-smi shows them."""
        return self._starts_by_vm.get(vm, ())

    @cached_property
    def _starts_by_vm(self) -> Mapping[str, Sequence[tuple[str, str, int]]]:
        known = {(pci, i.gi_id): i.start for pci, found in self._now.instances.items() for i in found}
        places = defaultdict(list)
        for v in listed_vgpus(self._view, self._host):
            start = v.placement if self._is_mixed(v.pci) else known.get((v.pci, v.gi))
            if start is not None:
                places[v.vm_name].append((v.pci, v.profile, start))
        return places

    def _is_mixed(self, pci: str) -> bool:
        return self._infos.get(pci, GraphicsInfo()).get("vgpuMode") == MIXED_SIZE

    def _slot(self, pci: str, board: Board) -> GpuSlot | None:
        mode, release = self._mode(pci, board), host_version(self._view.estate, self._host.ref)
        if mode == "mig" and board.named_profiles:
            return None
        listed = {p.stem for p in _named(self._facts.get(LISTED, ()))}
        unread = any(not _was_read(self._view, vm) for vm in self._guests(pci))
        unseen = mode == "mig" and self._layout(pci) is None and all(g.pci != pci for g in self._now.gpus)
        return GpuSlot(
            host=self._host.name,
            pci=pci,
            board=board,
            mode=mode,
            instances=self._instances(pci, board) if mode == "mig" else (),
            sharing=Sharing(mixed=self._is_mixed(pci), any_series=release is not None and release[0] >= ANY_SERIES),
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
        # vSphere takes the instance of a VM away when the VM powers off, of several VMs when the last one does
        holders = self._holders(pci, guests)
        if holders is not None:
            return tuple(i for i in there if not (own := holders.get(i.start)) or not own.isdisjoint(self._staying))
        leaving = _instances_of(board, self._view, guests)
        leaving.subtract(_instances_of(board, self._view, [vm for vm in guests if vm in self._staying]))
        for name, count in leaving.items():
            for gone in [i for i in there if i.profile_name == name][: max(count, 0)]:
                there.remove(gone)
        return tuple(there)

    def _holders(self, pci: str, guests: Iterable[str]) -> dict[int, set[str]] | None:
        """Return memory slice -> the VMs that hold the instance there; None when that is not known of every VM."""
        holders: dict[int, set[str]] = {}
        for ref in guests:
            facts = self._view.estate.get(ref)
            starts = self._starts(facts.name) if facts is not None else []
            if facts is None or not starts or len(starts) != len(observed_profiles(facts)):
                return None
            for at in (start for gpu, _, start in starts if gpu == pci):
                holders.setdefault(at, set()).add(ref)
        return holders

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
    found, shares = Counter[str](), Counter[InstanceShare]()
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


def stays_on(view: View, vm: str) -> bool:
    """Return whether a VM keeps its GPUs: it runs, and the plan neither changes it nor empties its host."""
    host = view.estate.host_of(vm)
    changed = bool(view.planned_kinds(vm))
    on = view.facts(vm).get("runtime.powerState") in ("poweredOn", "suspended")
    return on and not changed and host is not None and host.ref not in view.rebooting | view.emptied


def observed_profiles(facts: Facts) -> tuple[str, ...]:
    """Return the vGPU profiles a VM has, as it was read, one by one."""
    backings = (d.get("backing") or {} for d in facts.get("config.hardware.device", ()))
    return tuple(b["vgpu"].lower() for b in backings if b.get("vgpu"))


def _named(names: Iterable[str]) -> Iterator[VgpuProfile]:
    for name in names:
        with suppress(VgpuNameError):
            yield parse(name.lower())


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
