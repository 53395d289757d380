"""Which VM goes to which host and GPU: a packing, a proposal, and an integer programme where these do not decide."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from vsphere_ai.capacity.gpu import GpuKind, GpuSlot, Running
from vsphere_ai.capacity.groups import Budget, Unpacked
from vsphere_ai.capacity.items import Division, Item, Misfit, Profiles, VmClass, by_host, packed, pinned_items
from vsphere_ai.capacity.milp import Counts, Programme, Solved, divided, vms_of
from vsphere_ai.capacity.power_on_order import Orders

EXACT_GPUS = 64
"""Up to that many GPUs that share VMs a verdict is searched for until it is certain."""
SEARCH_STEPS = 2_000
"""Steps of a packing before the integer programme takes over."""
ROUNDS = 60
"""Solutions whose VMs do not power on in any order before the programme is given up."""
UNSURE = 3
"""How many of these once it was not found out for some host whether there is an order."""
CORE_STEPS = 150
"""Situations looked at to find out which VMs of a host stand in each other's way."""


def assign(classes: Sequence[VmClass], slots: Sequence[GpuSlot], orders: Orders | None = None) -> Division | Misfit:
    """Assign every VM, or tell why not; exact for up to `EXACT_GPUS` GPUs.

    With `orders`, to hosts only on which they power on in some order.
    """
    division: Division = {}
    misfits = []
    for part in _independent(classes, slots):
        told = _assign(part, slots, orders)
        if isinstance(told, Misfit):
            misfits.append(told)
        else:
            division.update(told)
    return min(misfits, key=lambda m: not m.told.exact) if misfits else division


def _independent(classes: Iterable[VmClass], slots: Iterable[GpuSlot]) -> list[tuple[VmClass, ...]]:
    """Return the VMs that compete for GPUs together: boards and modes that share no VM are judged apart."""
    kinds = dict.fromkeys(s.kind for s in slots)
    parts: list[tuple[set[GpuKind | str], list[VmClass]]] = []
    for each in classes:
        # a profile that no GPU takes stands for itself
        able: set[GpuKind | str] = {k for k in kinds if any(k.takes(p) for p in each.profiles)} or set(each.profiles)
        together = [p for p in parts if p[0] & able]
        parts = [p for p in parts if not p[0] & able]
        parts.append((able.union(*(p[0] for p in together)), [*(c for p in together for c in p[1]), each]))
    return [tuple(members) for _, members in parts]


def _assign(classes: Sequence[VmClass], slots: Sequence[GpuSlot], orders: Orders | None) -> Division | Misfit:
    exact = len(slots) <= EXACT_GPUS
    several = sorted((c for c in classes if len(c.profiles) > 1), key=lambda c: (-len(c.profiles), c.profiles))
    singles = [Item(c.profiles[0], c.hosts, c.vms) for c in classes if len(c.profiles) == 1]
    every = [*singles, *(i for c in several for i in _items(c))]
    told = packed(every, slots, Budget(SEARCH_STEPS if exact else 0))  # as if a VM could be on several hosts
    if isinstance(told, Misfit):
        return _programmed(classes, slots, orders, told) if exact and not told.told.exact else told
    if not exact or orders is None:
        if all(len(c.hosts) == 1 for c in several):
            return told
        committed = _committed(several, singles, slots)
        if not exact or not isinstance(committed, Misfit):
            return committed
    doubt = Misfit(tuple(every), Unpacked(False, tuple(len(i.owners) for i in every)))
    return _programmed(classes, slots, orders, doubt)


def _programmed(
    classes: Sequence[VmClass], slots: Sequence[GpuSlot], orders: Orders | None, doubt: Misfit
) -> Division | Misfit:
    """Let the integer programme decide what a proposal and a short search did not."""
    for programme, strict in programmes(classes, slots, orders):
        found = settled(programme, orders, strict=strict)
        if found is not None:
            return divided(programme.classes, found)
    if not programme.certain:
        return doubt
    placed = Programme(classes, slots).most()
    parts = [(i, len(c.vms) - n, len(c.vms)) for c, n in zip(classes, placed, strict=True) for i in _items(c)]
    left = tuple(len(item.owners) // vms * rest for item, rest, vms in parts)
    return Misfit(tuple(item for item, _, _ in parts), Unpacked(True, left))


def programmes(
    classes: Sequence[VmClass], slots: Sequence[GpuSlot], orders: Orders | None
) -> Iterator[tuple[Programme, bool]]:
    """Yield programmes to find VMs that power on with, and how strictly (see `settled`), until one proves "none"."""
    hosts = orders.hosts if orders else {}
    spreading = [name for name, host in hosts.items() if host.policy == "performance" and not host.mixed]
    for strict in (False, True):
        programme = Programme(classes, slots)
        programme.claim(spreading)
        yield programme, strict
        if programme.certain and not programme.bent:
            break


def settled(programme: Programme, orders: Orders | None, *, strict: bool) -> Solved | None:
    """Return a solution whose VMs power on on every host, all hosts being tried; None when none was found.

    Without `strict`, what a host cannot power on is ruled out together with everything that has it as a part, which
    makes for fewer rounds; see `Programme.bent`.
    """
    left = ROUNDS
    while left > 0:
        solved = programme.solve()
        if solved is None or orders is None or not _refused(programme, solved, orders, strict=strict):
            return solved
        left -= 1 if programme.certain else ROUNDS // UNSURE  # what is not known takes long not to find out
    programme.certain = False
    return None


def _refused(programme: Programme, solved: Solved, orders: Orders, *, strict: bool) -> bool:
    """Rule out what hosts are given and do not power on in any order; tell whether there was any."""
    found = False
    for host, vms in vms_of(programme.classes, solved).items():
        verdict = orders(host, list(vms.values()))
        if verdict:
            continue
        found = True
        programme.certain &= verdict is not None
        counts = solved.counts[host] if strict else _core(programme.classes, solved.counts[host], orders, host)
        for alike in orders.alike(host):
            programme.forbid({alike: counts}, more=not strict)
    return found


def _core(classes: Sequence[VmClass], counts: Counts, orders: Orders, host: str) -> Counts:
    """Return a part of the VMs of a host that alone does not power on; without any one of its VMs it would."""
    kept = dict(counts)
    for number in sorted(kept, key=lambda n: len(classes[n].profiles)):
        for fewer in (0, *range(kept[number] - 1, 0, -1)):
            part = {**kept, number: fewer}
            if (
                orders(host, [classes[n].profiles for n, times in part.items() for _ in range(times)], CORE_STEPS)
                is False
            ):
                kept = part
            elif fewer:
                break
    return {n: times for n, times in kept.items() if times}


def _items(vms: VmClass) -> Iterator[Item]:
    """Return the vGPUs of VMs, those of one profile together."""
    for profile, times in sorted(Counter(vms.profiles).items()):
        yield Item(profile, vms.hosts, tuple(vm for vm in vms.vms for _ in range(times)))


def _committed(several: Sequence[VmClass], singles: Sequence[Item], slots: Sequence[GpuSlot]) -> Division | Misfit:
    """Give VMs with several vGPUs their GPUs for good, host after host; for estates too large to search."""
    gpus = by_host(slots)
    pinned: dict[str, list[tuple[str, Profiles]]] = defaultdict(list)
    known: dict[tuple[object, ...], bool] = {}
    for each in several:
        hosts = sorted(each.hosts & gpus.keys())
        at = 0
        for number, vm in enumerate(each.vms):
            while at < len(hosts) and not _takes(gpus[hosts[at]], [*pinned[hosts[at]], (vm, each.profiles)], known):
                at += 1
            if at == len(hosts):
                rest = each.vms[number:]
                return Misfit((Item(each.profiles[0], each.hosts, rest),), Unpacked(False, (len(rest),)))
            pinned[hosts[at]].append((vm, each.profiles))
    division: Division = {}
    for host, vms in pinned.items():
        # the very packing `_takes` found before the last of these VMs was pinned, so it is no misfit
        division.update(cast("Division", packed(pinned_items(host, vms), gpus[host], Budget(1000))))
    told = packed(singles, [_with(s, division.get((s.host, s.pci), ())) for s in slots], Budget(0))
    if isinstance(told, Misfit):
        return replace(told, told=replace(told.told, exact=False, proof=()))
    return {key: [*division.get(key, ()), *told.get(key, ())] for key in {**division, **told}}


def _with(slot: GpuSlot, vgpus: Iterable[tuple[str, str]]) -> GpuSlot:
    """Return a GPU as it is once these vGPUs run."""
    more = tuple(Running(vm, profile) for vm, profile in vgpus)
    return replace(slot, running=(*slot.running, *more)) if more else slot


def _takes(slots: Sequence[GpuSlot], pinned: list[tuple[str, Profiles]], known: dict[tuple[object, ...], bool]) -> bool:
    """Tell whether a host's GPUs hold these VMs; hosts that are alike are asked once."""
    gpus = tuple((id(s.kind), s.state) for s in slots)
    key = (gpus, tuple(sorted(name for _, profiles in pinned for name in profiles)))
    if key not in known:
        told = packed(pinned_items(slots[0].host, pinned), slots, Budget(1000))
        known[key] = not isinstance(told, Misfit)
    return known[key]
