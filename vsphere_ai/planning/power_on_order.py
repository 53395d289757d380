"""Order of power-ons on a host, where it decides whether all VMs find their devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.power_on_notes import power_on_orders
from vsphere_ai.resources.mixins import VmDevices, device_states


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
        of = {vm: [s for _, s in device_states(view, vm.ref)] for vm in vms}
        first = [vm for vm in vms if any(s.needs_together(vm, view) for s in of[vm])]
        takers = tuple(v for v in vms if v not in first and _devices(v, view, of[v])) if first else ()
        yield from ((vm, takers) for vm in first if takers)


def _pairs(
    first: Mapping[Target, Sequence[Target]], orders: Mapping[Target, Collection[Target]]
) -> Iterator[tuple[Target, Target]]:
    """Yield who powers on before whom, where no order of the whole host has that decided."""
    decided = [frozenset(order) for order in orders.values()]
    for vm, takers in first.items():
        yield from ((vm, taker) for taker in takers if not any({vm, taker} <= order for order in decided))


def _handovers(before: View, after: View, changing: Iterable[Target]) -> Iterator[tuple[Target, Target]]:
    """Yield VMs that get devices with those on their host that give some up."""
    changes = {}
    for vm in sorted(t for t in changing if t.kind == "vm"):
        have = _devices(vm, before, (before.state(vm.ref, kind) for kind in before.kinds))
        will_have = _devices(vm, after, after.wanted(vm.ref))
        changes[vm] = (after.estate.host_of(vm.ref), will_have - have, have - will_have)
    for vm, (host, more, _) in changes.items():
        others = ((o, less) for o, (where, _, less) in changes.items() if more and o != vm and where == host)
        yield from ((vm, other) for other, less in others if less)


def _devices(vm: Target, view: View, states: Iterable[object]) -> Counter[object]:
    """Count the vGPUs and the whole devices that states give a VM."""
    found: Counter[object] = Counter()
    for state in states:
        if isinstance(state, VmDevices):
            found.update(state.vgpus(vm, view))
            found.update(state.whole_devices(vm, view))
    return found
