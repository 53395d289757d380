"""Division of VMs among hosts and GPUs: counting first, then the integer programme. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vsphere_ai.capacity.first_fit import FirstFit
from vsphere_ai.capacity.host import HostGpus
from vsphere_ai.capacity.items import Division, VmClass, items_of
from vsphere_ai.capacity.milp import Programme, Solved, divided, left_over
from vsphere_ai.capacity.power_on_order import Orders
from vsphere_ai.capacity.shortage import Shortage, shortage
from vsphere_ai.capacity.verdict import Fit, GpuHosts, VmDemand, occupied
from vsphere_ai.gpu.vgpus.slot import GpuSlot

EXACT_GPUS = 64
"""Up to that many GPUs that share VMs a verdict is searched for until it is certain."""
ROUNDS = 60
"""Solutions whose VMs do not power on in any order, per loss asked for, before the programme is given up."""
UNSURE = 3
"""How many of these once it was not found out for some host whether there is an order."""


@dataclass(frozen=True)
class Remainder:
    """VMs that are left over: how many of each class. With `exact` no division serves all.

    `shortage` is a proof by counting, where there is one.
    """

    classes: tuple[VmClass, ...]
    left: tuple[int, ...]
    exact: bool
    shortage: Shortage | None = None


def assign(
    classes: Sequence[VmClass], slots: Sequence[GpuSlot], hosts: Mapping[str, HostGpus], orders: Orders | None = None
) -> Division | Remainder:
    """Assign every VM of a component, or return who is left over; exact for up to `EXACT_GPUS` GPUs.

    `hosts` are those of the GPUs. With `orders`, VMs are assigned to hosts only on which they power on in some order.
    """
    exact = len(slots) <= EXACT_GPUS
    if exact and orders is not None:
        programme = programme_of(classes, slots, orders)
        solved = settled(programme, orders)
        every = tuple(len(c.vms) for c in classes)
        return Remainder(tuple(classes), every, programme.certain) if solved is None else divided(classes, solved)
    counted = shortage(items_of(classes), slots)
    if counted is not None:
        return _left(classes, slots, certain=True, counted=counted)
    found = _divided(classes, slots, pooled=True)
    if isinstance(found, Remainder) or all(len(c.profiles) == 1 or len(c.hosts) == 1 for c in classes):
        return found
    if not exact:
        return _committed(classes, slots, hosts)
    return _divided(classes, slots, pooled=False)


def _divided(classes: Sequence[VmClass], slots: Sequence[GpuSlot], *, pooled: bool) -> Division | Remainder:
    """Divide VMs; `pooled`: as if their vGPUs could come from several hosts, which is exact for those with one."""
    programme = Programme(classes, slots, pooled=pooled)
    solved = programme.solve()
    return _left(classes, slots, certain=programme.certain) if solved is None else divided(classes, solved)


def _left(
    classes: Sequence[VmClass], slots: Sequence[GpuSlot], *, certain: bool, counted: Shortage | None = None
) -> Remainder:
    """Return who is left over when as many VMs as possible are placed; all where no solution says who."""
    pooled = len(slots) > EXACT_GPUS or all(len(c.profiles) == 1 for c in classes)
    left = left_over(classes, Programme(classes, slots, pooled=pooled).most())
    if not any(left):  # then the refusal of the first programme, without a count, proves nothing
        left, certain = tuple(len(c.vms) for c in classes), counted is not None
    return Remainder(tuple(classes), left, certain, counted)


def _committed(
    classes: Sequence[VmClass], slots: Sequence[GpuSlot], hosts: Mapping[str, HostGpus]
) -> Division | Remainder:
    """Give VMs with several vGPUs their GPUs for good, host after host; for estates too large to search."""
    several = [c for c in classes if len(c.profiles) > 1]
    first = FirstFit(hosts)
    placed = first.place(VmDemand(vm, c.profiles, c.hosts) for c in several for vm in c.vms)
    if placed is None:
        return Remainder(tuple(several), tuple(len(c.vms) for c in several), exact=False)
    rest = [c for c in classes if len(c.profiles) == 1]
    found = _divided(rest, occupied(GpuHosts(tuple(slots)), Fit(placed)).slots, pooled=True)
    if isinstance(found, Remainder):
        return replace(found, exact=False)
    for vm, (host, places) in placed.items():
        for place in places:
            found.setdefault((host, place.gpu), []).insert(0, (vm, place.profile))
    return found


def programme_of(classes: Sequence[VmClass], slots: Sequence[GpuSlot], orders: Orders) -> Programme:
    """Return the programme of VMs on hosts, with what is known of the orders in which they power on there."""
    programme = Programme(classes, slots)
    programme.claim(name for name, host in orders.hosts.items() if host.policy == "performance" and not host.mixed)
    return programme


def settled(programme: Programme, orders: Orders) -> Solved | None:
    """Return a solution whose VMs power on on every host, all hosts being tried; None when none was found."""
    left = ROUNDS * programme.situations
    while left > 0:
        solved = programme.solve()
        if solved is None or not any([_refuses(programme, solved, orders, host) for host in programme.slots]):
            return solved
        left -= 1 if programme.certain else ROUNDS // UNSURE  # what is not known takes long not to find out
    programme.certain = False
    return None


def _refuses(programme: Programme, solved: Solved, orders: Orders, host: str) -> bool:
    """Rule out what a host is given, if its VMs do not power on in any order that VMs of lost hosts can follow."""
    own, *after = ((frozenset({lost}), load) for lost, load in solved.loads[host].items())
    tried = [dict([own]), *({own[0] | lost: own[1] + load} for lost, load in after)]
    tried += [dict([own, each]) for each in after]
    if len(after) > 1:
        tried.append(dict([own, *after]))
    for loads in tried:
        first, *more = (tuple(load.elements()) for load in loads.values())
        verdict = orders(host, first, more)
        if not verdict:
            programme.certain &= verdict is not None
            for alike in orders.alike(host):
                programme.forbid(alike, loads)
            return True
    return False
