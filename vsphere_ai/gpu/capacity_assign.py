"""Which VM goes to which host: VMs with several vGPUs first, then all others packed into what is left."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

from vsphere_ai.gpu.capacity_gpu import GpuKind, GpuSlot, Running, State, full_combinations
from vsphere_ai.gpu.capacity_pack import Budget, Group, Packed, Unpacked, pack

EXACT_GPUS = 64
"""Up to that many GPUs that share VMs a verdict is searched for until it is certain."""
SEARCH_STEPS = 100_000
ONE_HOST, ALL_HOSTS = 500, 5_000
"""Steps of that budget for one packing."""
MAX_SEARCHED = 300
"""VMs with several vGPUs for which every host is tried."""

Profiles = tuple[str, ...]


@dataclass(frozen=True)
class VmClass:
    """VMs that are alike: the same vGPUs, the same hosts they may run on."""

    profiles: Profiles
    hosts: frozenset[str]
    vms: tuple[str, ...]


@dataclass(frozen=True)
class Item:
    """vGPUs to be packed: `count` of one profile, on any GPU of these hosts; `owners` says whose each of them is."""

    profile: str
    hosts: frozenset[str]
    owners: tuple[str, ...]


Division = dict[tuple[str, str], list[tuple[str, str]]]
"""(host, GPU) -> the vGPUs it gives, as (VM, profile)."""
_Pinned = Sequence[tuple[str, Profiles]]
"""VMs with several vGPUs that were assigned to one host."""
_Likeness = tuple[int, tuple[Profiles, ...]]
"""What a host is like and what was assigned to it; hosts with the same likeness can stand for each other."""


@dataclass(frozen=True)
class Misfit:
    """Why VMs cannot be assigned: the items, and what packing them told."""

    items: tuple[Item, ...]
    told: Unpacked


def assign(classes: Sequence[VmClass], slots: Sequence[GpuSlot]) -> Division | Misfit:
    """Assign every VM, or tell why not; exact for up to `EXACT_GPUS` GPUs while the search stays within its budget."""
    exact = len(slots) <= EXACT_GPUS
    budget = Budget(SEARCH_STEPS if exact else 0)
    singles = [Item(c.profiles[0], c.hosts, c.vms) for c in classes if len(c.profiles) == 1]
    several = sorted((c for c in classes if len(c.profiles) > 1), key=lambda c: (-len(c.profiles), c.profiles))
    every = [*singles, *(_spread(c) for c in _by_profile(several))]
    told = _packed(every, slots, budget)  # as if the vGPUs of one VM could be on several hosts
    if isinstance(told, Misfit) or all(len(c.hosts) == 1 for c in several):
        return told
    if not exact or sum(len(c.vms) for c in several) > MAX_SEARCHED:
        return _committed(several, singles, slots)
    return _Hosts(slots, several, singles, budget).search()


def _by_profile(several: Iterable[VmClass]) -> Iterator[tuple[str, VmClass]]:
    for each in several:
        for profile in sorted(set(each.profiles)):
            yield profile, each


def _spread(part: tuple[str, VmClass]) -> Item:
    profile, each = part
    times = each.profiles.count(profile)
    return Item(profile, each.hosts, tuple(vm for vm in each.vms for _ in range(times)))


def _packed(items: Sequence[Item], slots: Sequence[GpuSlot], budget: Budget) -> Division | Misfit:
    """Pack items into GPUs, GPUs that are alike taken together."""
    alike: dict[tuple[GpuKind, State, tuple[tuple[int, ...], ...]], list[GpuSlot]] = defaultdict(list)
    accepted: dict[tuple[str, GpuKind], tuple[tuple[int, ...], ...]] = {}
    fewest_hosts = sorted(range(len(items)), key=lambda i: (len(items[i].hosts), i))
    for slot in slots:
        key = (slot.host, slot.kind)
        if key not in accepted:
            chains: dict[str, list[int]] = defaultdict(list)
            for i in fewest_hosts:
                if slot.host in items[i].hosts and slot.kind.takes(items[i].profile):
                    chains[items[i].profile].append(i)
            accepted[key] = tuple(tuple(chains[profile]) for profile in sorted(chains))
        if accepted[key]:
            alike[slot.kind, slot.state, accepted[key]].append(slot)
    groups = [
        Group(len(same), chains, full_combinations(kind, state, tuple(items[c[0]].profile for c in chains)))
        for (kind, state, chains), same in alike.items()
    ]
    told = pack(groups, [len(i.owners) for i in items], budget)
    if isinstance(told, Unpacked):
        certain = told.exact and (bool(told.proof) or _nested(groups, items))
        return Misfit(tuple(items), replace(told, exact=certain))
    return _divide(items, alike.values(), told)


def _nested(groups: Iterable[Group], items: Sequence[Item]) -> bool:
    """Tell whether items that compete for a place have hosts one within the other, which the search relies on."""
    chains = {chain for g in groups for chain in g.chains}
    return all(items[a].hosts <= items[b].hosts for chain in chains for a, b in pairwise(chain))


def _divide(items: Sequence[Item], groups: Iterable[list[GpuSlot]], packed: Packed) -> Division:
    waiting = [list(reversed(i.owners)) for i in items]
    division: Division = {}
    for slots, given in zip(groups, packed.given, strict=True):
        free = iter(slots)
        for part, times in given:
            for _ in range(times):
                slot = next(free)
                taken = [i for i, n in part for _ in range(n)]
                division[slot.host, slot.pci] = [(waiting[i].pop(), items[i].profile) for i in taken]
    return division


class _Hosts:
    """Goes through the VMs with several vGPUs one by one; hosts that are alike are tried once."""

    def __init__(
        self, slots: Sequence[GpuSlot], several: Sequence[VmClass], singles: Sequence[Item], budget: Budget
    ) -> None:
        self.slots = _by_host(slots)
        self.todo = [(c, vm) for c in several for vm in c.vms]
        self.singles = tuple(singles)
        self.budget, self.exact = budget, True
        self.dead: set[tuple[int, tuple[_Likeness, ...]]] = set()
        self.fitting: dict[tuple[int, Profiles], bool] = {}
        self.misfit: Misfit | None = None
        numbers: dict[object, int] = {}
        self.number = {h: numbers.setdefault(self._features(h, several), len(numbers)) for h in self.slots}

    def _features(self, host: str, several: Sequence[VmClass]) -> tuple[object, ...]:
        """Return everything that tells hosts apart as long as nothing is assigned to them."""
        gpus = Counter((s.kind, s.state) for s in self.slots[host])
        allowed = [i.hosts for i in self.singles] + [c.hosts for c in several]
        return frozenset(gpus.items()), tuple(host in hosts for hosts in allowed)

    def search(self) -> Division | Misfit:
        """Return the division of all VMs, or why there is none."""
        found = self._place(0, {})
        if found is not None:
            return found
        certain = self.exact and self.budget.steps >= 0
        if self.misfit is None:
            parts = tuple(Item(c.profiles[0], c.hosts, (vm,)) for c, vm in self.todo)
            return Misfit(parts, Unpacked(certain, (1,) * len(parts)))
        return replace(self.misfit, told=replace(self.misfit.told, exact=certain, proof=()))

    def _place(self, at: int, pinned: Mapping[str, _Pinned]) -> Division | None:
        if at == len(self.todo):
            return self._rest(pinned)
        each, vm = self.todo[at]
        situation = (at, tuple(sorted(self._likeness(h, pinned) for h in self.slots)))
        if situation in self.dead or not self.budget.spend(len(self.slots)):
            return None
        tried = set()
        for host in sorted(self.slots, key=lambda h: -len(pinned.get(h, ()))):  # hosts in use first: keep others whole
            likeness = self._likeness(host, pinned)
            if host not in each.hosts or likeness in tried:
                continue
            tried.add(likeness)
            more = (*pinned.get(host, ()), (vm, each.profiles))
            if self._fits(host, more):
                found = self._place(at + 1, {**pinned, host: more})
                if found is not None:
                    return found
        self.dead.add(situation)
        return None

    def _likeness(self, host: str, pinned: Mapping[str, _Pinned]) -> _Likeness:
        return self.number[host], tuple(sorted(profiles for _, profiles in pinned.get(host, ())))

    def _part_of_budget(self, steps: int) -> Budget:
        """Take steps for a packing of its own; nothing is left to search with once the budget is spent."""
        return Budget(steps if self.budget.spend(steps) else 0)

    def _fits(self, host: str, pinned: _Pinned) -> bool:
        key = (self.number[host], tuple(sorted(name for _, profiles in pinned for name in profiles)))
        if key not in self.fitting:
            told = _packed(_pinned_items(host, pinned), self.slots[host], self._part_of_budget(ONE_HOST))
            self.fitting[key] = not isinstance(told, Misfit)
            self.exact &= not isinstance(told, Misfit) or told.told.exact
        return self.fitting[key]

    def _rest(self, pinned: Mapping[str, _Pinned]) -> Division | None:
        items = [*self.singles, *(i for h, p in pinned.items() for i in _pinned_items(h, p))]
        slots = [s for own in self.slots.values() for s in own]
        told = _packed(items, slots, self._part_of_budget(ALL_HOSTS))
        if isinstance(told, Misfit):
            self.exact &= told.told.exact
            self.misfit = self.misfit or told
            return None
        return told


def _pinned_items(host: str, pinned: Sequence[tuple[str, Profiles]]) -> list[Item]:
    owners: dict[str, list[str]] = defaultdict(list)
    for vm, profiles in pinned:
        for profile in profiles:
            owners[profile].append(vm)
    return [Item(profile, frozenset({host}), tuple(vms)) for profile, vms in sorted(owners.items())]


def _committed(several: Sequence[VmClass], singles: Sequence[Item], slots: Sequence[GpuSlot]) -> Division | Misfit:
    """Give VMs with several vGPUs their GPUs for good, host after host; for estates too large to search."""
    by_host = _by_host(slots)
    pinned: dict[str, list[tuple[str, Profiles]]] = defaultdict(list)
    known: dict[tuple[object, ...], bool] = {}
    for each in several:
        hosts = sorted(each.hosts & by_host.keys())
        at = 0
        for number, vm in enumerate(each.vms):
            while at < len(hosts) and not _takes(by_host[hosts[at]], [*pinned[hosts[at]], (vm, each.profiles)], known):
                at += 1
            if at == len(hosts):
                rest = each.vms[number:]
                return Misfit((Item(each.profiles[0], each.hosts, rest),), Unpacked(False, (len(rest),)))
            pinned[hosts[at]].append((vm, each.profiles))
    division: Division = {}
    for host, vms in pinned.items():
        # the very packing `_takes` found before the last of these VMs was pinned, so it is no misfit
        division.update(cast("Division", _packed(_pinned_items(host, vms), by_host[host], Budget(1000))))
    told = _packed(singles, [_with(s, division.get((s.host, s.pci), ())) for s in slots], Budget(0))
    if isinstance(told, Misfit):
        return replace(told, told=replace(told.told, exact=False, proof=()))
    return {key: [*division.get(key, ()), *told.get(key, ())] for key in {**division, **told}}


def _with(slot: GpuSlot, vgpus: Iterable[tuple[str, str]]) -> GpuSlot:
    """Return a GPU as it is once these vGPUs run."""
    more = tuple(Running(vm, profile) for vm, profile in vgpus)
    return replace(slot, running=(*slot.running, *more)) if more else slot


def _by_host(slots: Iterable[GpuSlot]) -> dict[str, list[GpuSlot]]:
    hosts: dict[str, list[GpuSlot]] = defaultdict(list)
    for slot in slots:
        hosts[slot.host].append(slot)
    return hosts


def _takes(slots: Sequence[GpuSlot], pinned: list[tuple[str, Profiles]], known: dict[tuple[object, ...], bool]) -> bool:
    """Tell whether a host's GPUs hold these VMs; hosts that are alike are asked once."""
    gpus = tuple((id(s.kind), s.state) for s in slots)
    key = (gpus, tuple(sorted(name for _, profiles in pinned for name in profiles)))
    if key not in known:
        told = _packed(_pinned_items(slots[0].host, pinned), slots, Budget(1000))
        known[key] = not isinstance(told, Misfit)
    return known[key]
