"""VMs and their vGPUs as items to pack into the GPUs of hosts, GPUs that are alike taken together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vsphere_ai.capacity.combinations import full_combinations
from vsphere_ai.capacity.gpu import GpuKind, GpuSlot, State
from vsphere_ai.capacity.groups import Budget, Group, Packed, Unpacked
from vsphere_ai.capacity.pack import pack

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


@dataclass(frozen=True)
class Misfit:
    """Why VMs cannot be assigned: the items, and what packing them told."""

    items: tuple[Item, ...]
    told: Unpacked


def packed(items: Sequence[Item], slots: Sequence[GpuSlot], budget: Budget) -> Division | Misfit:
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
        return Misfit(tuple(items), told)
    return _divide(items, alike.values(), told)


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


def pinned_items(host: str, pinned: Sequence[tuple[str, Profiles]]) -> list[Item]:
    """Return the vGPUs of VMs that were assigned to a host as items."""
    owners: dict[str, list[str]] = defaultdict(list)
    for vm, profiles in pinned:
        for profile in profiles:
            owners[profile].append(vm)
    return [Item(profile, frozenset({host}), tuple(vms)) for profile, vms in sorted(owners.items())]


def by_host(slots: Iterable[GpuSlot]) -> dict[str, list[GpuSlot]]:
    """Return the GPUs of each host."""
    hosts: dict[str, list[GpuSlot]] = defaultdict(list)
    for slot in slots:
        hosts[slot.host].append(slot)
    return hosts
