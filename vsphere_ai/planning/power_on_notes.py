"""Notes on the order of power-ons, where it depends on that order whether all VMs power on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from vsphere_ai.capacity.host import Host, likeness
from vsphere_ai.capacity.power_on_order import Budget, some_order_fails
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, VmDemand
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.planning.capacity import question_of

STEPS = 500
"""Situations looked at per host in search of an order that fails."""


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
            known[likely] = some_order_fails(Host(slots, question.farm.policies[host.name]), vms, Budget(STEPS))
        answer = solve(replace(question.farm, slots=tuple(slots)), demands) if known[likely] else None
        if isinstance(answer, Fit):
            early = sorted(answer.order, key=lambda ref: question.targets[ref] not in first)
            fits = Host(slots, question.farm.policies[host.name]).run(early, vms) is not None
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
