"""Order of power-ons on a host, where it decides whether all VMs find their devices; and the notes that state it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from vsphere_ai.admission.gpus import question_of
from vsphere_ai.capacity.host import HostGpus, likeness
from vsphere_ai.capacity.power_on_order import Budget, some_order_fails
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, VmDemand
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.mixins import VmDevices, device_states, giving, offered

STEPS = 500
"""Situations looked at per host in search of an order that fails."""


class PowerOns(NamedTuple):
    """What a plan has to keep to when it powers VMs on.

    `orders` are VMs of a host in the order in which they power on, per host; so are `pairs` of two. `after_off` has
    pairs of a VM and another one that has to be off before it powers on.
    """

    orders: Mapping[Target, tuple[Target, ...]] = {}
    pairs: tuple[tuple[Target, Target], ...] = ()
    after_off: tuple[tuple[Target, Target], ...] = ()


ANY_ORDER = PowerOns()


def power_ons(before: View, after: View, changing: Collection[Target], will_run: frozenset[str]) -> PowerOns:
    """Return it for the estate as it was read and as it will be; `will_run` names all VMs that are on then."""
    if not changing:
        return ANY_ORDER
    first = dict(_first_on(after, changing, will_run))
    orders = power_on_orders(after, will_run, first)
    return PowerOns(orders, tuple(_pairs(first, orders)), tuple(_handovers(before, after, changing)))


def _first_on(
    view: View, changing: Iterable[Target], will_run: Collection[str]
) -> Iterator[tuple[Target, tuple[Target, ...]]]:
    """Yield VMs whose devices have to be free together, each with those on its host that take such devices one by one.

    The latter take what the host gives them, which may be a part of what the former need as a whole.
    """
    concerned = {t if t.kind == "host" else view.estate.host_of(t.ref) for t in changing}
    for host in sorted(h for h in concerned if h is not None):
        vms = [vm for vm in view.estate.vms_on(host.ref) if vm.ref in will_run]
        states = ((vm, s) for vm in vms for s in view.wanted(vm.ref, giving("needs_together")))
        first = list(dict.fromkeys(vm for vm, state in states if state.needs_together(vm, view)))
        takers = tuple(v for v in vms if v not in first and _will_have(v, view)) if first else ()
        yield from ((vm, takers) for vm in first if takers)


def _pairs(
    first: Mapping[Target, Sequence[Target]], orders: Mapping[Target, Collection[Target]]
) -> Iterator[tuple[Target, Target]]:
    """Yield who powers on before whom, where no order of the whole host has that decided."""
    decided = {vm: host for host, order in orders.items() for vm in order}
    for vm, takers in first.items():
        yield from ((vm, t) for t in takers if vm not in decided or decided[vm] != decided.get(t))


def _handovers(before: View, after: View, changing: Iterable[Target]) -> Iterator[tuple[Target, Target]]:
    """Yield VMs that get devices with those on their host that give some up."""
    changes, taking = {}, {*giving("vgpus"), *giving("whole_devices")}
    for vm in sorted(t for t in changing if t.kind == "vm" and not taking.isdisjoint(after.planned_kinds(t.ref))):
        have, will_have = _devices(vm, before, offered(before, vm.ref, VmDevices)), _will_have(vm, after)
        changes[vm] = (after.estate.host_of(vm.ref), will_have - have, have - will_have)
    givers = grouped((vm for vm, (_, _, less) in changes.items() if less), lambda vm: changes[vm][0])
    for vm, (host, more, _) in changes.items():
        yield from ((vm, other) for other in givers.get(host, ()) if more and other != vm)


def _will_have(vm: Target, view: View) -> Counter[object]:
    return _devices(vm, view, (state for _, state in device_states(view, vm.ref)))


def _devices(vm: Target, view: View, states: Iterable[VmDevices]) -> Counter[object]:
    """Count the vGPUs and the whole devices that states give a VM."""
    return Counter(d for state in states for each in (state.vgpus, state.whole_devices) for d in each(vm, view))


def power_on_orders(
    view: View, vms_that_will_run: frozenset[str], first: Collection[Target] = ()
) -> Mapping[Target, tuple[Target, ...]]:
    """Return per host an order in which its VMs all power on, where some orders do that and some do not.

    Those in `first` come first, unless that is one of the orders that do not.

    vSphere has the driver make instances of MIG at starts of its own, in the order in which VMs power on; a time-sliced
    GPU belongs to the size that comes first.
    """
    question = question_of(view, vms_that_will_run)
    homes = {d.name: host for d in question.demands if (host := view.estate.host_of(d.name)) is not None}
    waiting: dict[Target, list[VmDemand]] = defaultdict(list)
    for each in question.demands:
        if each.running_on is None:  # with a home: `question_of` leaves out all others
            waiting[homes[each.name]].append(replace(each, hosts=frozenset({homes[each.name].name})))
    gpus = question.farm.hosts
    known: dict[object, bool] = {}
    orders: dict[Target, tuple[Target, ...]] = {}
    for host, demands in waiting.items():
        if len({d.profiles for d in demands}) == 1:
            continue  # VMs that are alike power on in any order
        slots = gpus.get(host.name, [])
        likely = (likeness(slots), tuple(sorted(d.profiles for d in demands)))
        vms = {d.name: d.profiles for d in demands}
        if likely not in known:
            known[likely] = some_order_fails(HostGpus(slots, question.farm.policies[host.name]), vms, Budget(STEPS))
        answer = solve(replace(question.farm, slots=tuple(slots)), demands) if known[likely] else None
        if isinstance(answer, Fit):
            early = sorted(answer.order, key=lambda ref: question.targets[ref] not in first)
            fits = HostGpus(slots, question.farm.policies[host.name]).run(early, vms) is not None
            orders[host] = tuple(question.targets[ref] for ref in (early if fits else answer.order))
    return orders


def order_notes(orders: Mapping[Target, Iterable[Target]]) -> Mapping[Target, str]:
    """Return a note per host, and per VM that powers on there, that states the order."""
    notes: dict[Target, str] = {}
    for host, vms in orders.items():
        order = tuple(vms)
        note = (
            f"VMs on {host.name} do not all power on in every order, as which GPU and MIG instance each gets depends "
            f"on it; {', '.join(vm.name for vm in order)} works, and so does a MIG layout with explicit starts"
        )
        notes.update(dict.fromkeys([host, *order], note))
    return notes
