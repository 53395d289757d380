"""Classes of VMs that are alike, and the components of an estate that share no GPU. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vsphere_ai.capacity.connected import connected
from vsphere_ai.capacity.verdict import GpuHosts, VmDemand
from vsphere_ai.gpu.vgpus.slot import GpuSlot

Profiles = tuple[str, ...]
Division = dict[tuple[str, str], list[tuple[str, str]]]
"""(host, PCI address) -> the vGPUs the GPU gives, as (VM, profile)."""


@dataclass(frozen=True)
class VmClass:
    """VMs that are alike: the same vGPU profiles, the same hosts they may run on."""

    profiles: Profiles
    hosts: frozenset[str]
    vms: tuple[str, ...]


@dataclass(frozen=True)
class DemandItem:
    """vGPUs of one profile, on any GPU of these hosts."""

    profile: str
    hosts: frozenset[str]


def items_of(classes: Iterable[VmClass]) -> dict[DemandItem, int]:
    """Return how many vGPUs VMs need, as if the vGPUs of a VM could come from several hosts."""
    wanted: Counter[DemandItem] = Counter()
    for each in classes:
        for profile, times in Counter(each.profiles).items():
            wanted[DemandItem(profile, each.hosts)] += times * len(each.vms)
    return dict(wanted)


def classes_of(demands: Iterable[VmDemand]) -> list[VmClass]:
    """Return VMs that need vGPUs by class."""
    known: dict[int, frozenset[str]] = {}  # sets of hosts are large and shared by many VMs: compare them once
    same: dict[frozenset[str], frozenset[str]] = {}
    alike: dict[tuple[Profiles, int], list[str]] = defaultdict(list)
    for each in demands:
        if each.profiles:
            if id(each.hosts) not in known:
                known[id(each.hosts)] = same.setdefault(each.hosts, each.hosts)
            alike[tuple(sorted(each.profiles)), id(known[id(each.hosts)])].append(each.name)
    kept = {id(hosts): hosts for hosts in same.values()}
    return [VmClass(profiles, kept[key], tuple(vms)) for (profiles, key), vms in alike.items()]


def components(
    farm: GpuHosts, demands: Iterable[VmDemand]
) -> Iterator[tuple[tuple[VmClass, ...], tuple[GpuSlot, ...]]]:
    """Yield VMs that compete for the same GPUs, with all GPUs of their hosts: each component is judged on its own."""
    gpus = farm.hosts
    kinds = {host: {s.kind for s in slots} for host, slots in gpus.items()}
    classes = classes_of(demands)
    reach = [
        [(h, k) for h in c.hosts & kinds.keys() for k in kinds[h] if any(map(k.takes, c.profiles))] for c in classes
    ]
    for numbers in connected(reach):
        hosts = frozenset[str]().union(*(classes[n].hosts for n in numbers))
        yield tuple(classes[n] for n in numbers), tuple(s for h in sorted(hosts & gpus.keys()) for s in gpus[h])
