"""Placement of VMs on hosts where they power on in some order, or why that is impossible. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.capacity.assign import EXACT_GPUS, Remainder, assign
from vsphere_ai.capacity.first_fit import FirstFit, size
from vsphere_ai.capacity.host import GivenVgpu, Spread
from vsphere_ai.capacity.items import Division, components
from vsphere_ai.capacity.power_on_order import Budget, Orders, find_order
from vsphere_ai.capacity.verdict import NO_ORDER, Answer, Fit, GpuHosts, NoFit, Undecided, VmDemand, concluded, room
from vsphere_ai.capacity.wording import sentence
from vsphere_ai.gpu.vgpus.slot import GpuSlot

FIRST_STEPS = 200
"""Situations looked at per host in search of a power-on order for the first assignment."""


def place(farm: GpuHosts, demands: Sequence[VmDemand]) -> Answer:
    """Place VMs; when no power-on order carries an assignment out on a host, others are tried that do without."""
    quick = FirstFit(farm.machines).place(demands)
    if quick is not None:
        return concluded(farm, demands, quick)
    answer = _place_once(farm, demands)
    if not isinstance(answer, Undecided) or not answer.no_order:
        return answer
    for several in (False, True) if len(farm.slots) > EXACT_GPUS else ():
        other = _place_once(farm, [_relieved(d, answer, several=several) for d in demands])
        if isinstance(other, Fit):
            return other
    other = _place_once(farm, demands, Orders(farm.machines))
    if isinstance(other, NoFit):  # every assignment was tried
        assumed = any(s.assumed for s in farm.slots)
        return NoFit(NO_ORDER, answer.vms, no_order=answer.no_order, assignment=answer.assignment, assumed=assumed)
    return other if isinstance(other, Fit) else answer


def fits_with_layouts(farm: GpuHosts, demands: Sequence[VmDemand]) -> bool:
    """Return whether VMs that do not fit would if the GPU instances were made beforehand, with explicit starts."""
    explicit = replace(farm, slots=tuple(replace(s, explicit=s.mode == "mig") for s in farm.slots))
    hosts = explicit.machines
    found = (assign(classes, slots, hosts) for classes, slots in components(explicit, demands))
    return not any(isinstance(division, Remainder) for division in found)


def _relieved(demand: VmDemand, answer: Undecided, *, several: bool) -> VmDemand:
    """Send a VM away from a host without an order: those with several vGPUs, or those with one."""
    at = answer.assignment[demand.name][0]
    if at in answer.no_order and (len(demand.profiles) > 1) == several:
        return replace(demand, hosts=demand.hosts - {at})
    return demand


def _place_once(farm: GpuHosts, demands: Sequence[VmDemand], orders: Orders | None = None) -> Answer:
    division: Division = {}
    remainders: list[tuple[Remainder, tuple[GpuSlot, ...]]] = []
    hosts = farm.machines
    for classes, slots in components(farm, demands):
        found = assign(classes, slots, hosts, orders)
        if isinstance(found, Remainder):
            remainders.append((found, slots))
        else:
            division.update(found)
    return _refusal(remainders) if remainders else realised(farm, demands, division, orders)


def _refusal(remainders: Sequence[tuple[Remainder, tuple[GpuSlot, ...]]]) -> NoFit | Undecided:
    first = min(remainders, key=lambda r: not r[0].exact)
    left: list[str] = []
    free: dict[str, int] = {}
    for remainder, slots in remainders:
        for each, count in zip(remainder.classes, remainder.left, strict=True):
            left += each.vms[len(each.vms) - count :]
            here = room((s for s in slots if s.host in each.hosts), each.profiles)
            free.update((profile, max(n, free.get(profile, 0))) for profile, n in here.items())
    common = sentence(*first), tuple(left), dict(sorted(free.items()))
    if not first[0].exact:
        return Undecided(*common)
    return NoFit(*common, assumed=any(s.assumed for _, slots in remainders for s in slots))


def realised(
    farm: GpuHosts, demands: Sequence[VmDemand], division: Division, orders: Orders | None = None
) -> Fit | Undecided:
    """Let every host power its VMs on as vSphere would, which decides the GPUs and the order.

    With `orders`, what is known of hosts is used where the short search for an order fails.
    """
    profiles = {d.name: tuple(sorted(d.profiles)) for d in demands}
    assignment: dict[str, tuple[str, tuple[GivenVgpu, ...]]] = {n: ("", ()) for n, p in profiles.items() if not p}
    no_order: list[str] = []
    for name, host in farm.machines.items():
        given = {s.pci: sorted(division.get((name, s.pci), ()), key=_largest_first) for s in host.slots}
        vms = {vm: profiles[vm] for gpu in given.values() for vm, _ in gpu}
        if not vms:
            continue
        spread = find_order(host, vms, {pci: [vm for vm, _ in own] for pci, own in given.items()}, Budget(FIRST_STEPS))
        if spread is None and orders is not None:
            spread = orders.spread(name, vms)
        if spread is None:
            no_order.append(name)
            spread = _as_divided(given)
        assignment.update((vm, (name, places)) for vm, places in spread.items())
    return concluded(farm, demands, assignment, no_order)


def _as_divided(given: Mapping[str, Iterable[tuple[str, str]]]) -> Spread:
    spread: dict[str, tuple[GivenVgpu, ...]] = {}
    for pci, vgpus in given.items():
        for vm, profile in vgpus:
            spread[vm] = tuple(sorted((*spread.get(vm, ()), GivenVgpu(pci, profile)), key=lambda g: (g.profile, g.gpu)))
    return spread


def _largest_first(vgpu: tuple[str, str]) -> tuple[object, ...]:
    return *size((vgpu[1],)), vgpu[1]
