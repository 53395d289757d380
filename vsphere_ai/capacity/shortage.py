"""Counting proof that VMs do not fit: some of their vGPUs are more than the GPUs that take them hold. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations as subsets

from vsphere_ai.capacity.items import DemandItem
from vsphere_ai.gpu.vgpus.combinations import full_combinations
from vsphere_ai.gpu.vgpus.slot import GpuKind, GpuSlot, State

MAX_ITEMS, MAX_GPUS = 6, 150
"""Up to so many items, and kinds of GPUs in different states, every subset of the items is counted; else each alone."""


@dataclass(frozen=True)
class Shortage:
    """Items of which `wanted` vGPUs are to power on where the GPUs hold at most `room` of them."""

    items: tuple[DemandItem, ...]
    wanted: int
    room: int


def shortage(wanted: Mapping[DemandItem, int], slots: Sequence[GpuSlot]) -> Shortage | None:
    """Return the fewest items of which there are more than the GPUs hold together; None when every count fits.

    None is no proof that they fit: combinations of several items may still exclude each other.
    """
    accepted: dict[tuple[str, GpuKind], tuple[DemandItem, ...]] = {}
    for host, kind in {(s.host, s.kind) for s in slots}:
        accepted[host, kind] = tuple(i for i in wanted if host in i.hosts and kind.takes(i.profile))
    gpus = Counter((s.kind, s.state, accepted[s.host, s.kind]) for s in slots)
    largest = len(wanted) if len(wanted) <= MAX_ITEMS and len(gpus) <= MAX_GPUS else 1
    for size in range(1, largest + 1):
        for chosen in subsets(wanted, size):
            need = sum(wanted[i] for i in chosen)
            room = sum(count * _holds(kind, state, items, chosen) for (kind, state, items), count in gpus.items())
            if need > room:
                return Shortage(chosen, need, room)
    return None


def _holds(kind: GpuKind, state: State, items: Sequence[DemandItem], chosen: Sequence[DemandItem]) -> int:
    """Return how many vGPUs of the chosen items one GPU holds at most."""
    counted = {i.profile for i in items if i in chosen}
    if not counted:
        return 0
    names = tuple(sorted({i.profile for i in items}))
    full = full_combinations(kind, state, names)
    return max(sum(n for n, name in zip(vector, names, strict=True) if name in counted) for vector in full)
