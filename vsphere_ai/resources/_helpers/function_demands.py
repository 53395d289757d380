"""SR-IOV virtual functions that VMs ask for, as they are or as a plan makes them."""

from __future__ import annotations

from collections.abc import Iterable

from vsphere_ai.fabric.virtual_functions import Demand
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.network_adapter import HasAdapters, NetworkAdapter
from vsphere_ai.resources.mixins import kinds_with, offered


def demands(view: View, vms: Iterable[Target]) -> tuple[Demand, ...]:
    """Return what VMs ask for, as they are or as this plan makes them."""
    found = ((vm.ref, state.cards() or ()) for vm in vms for state in offered(view, vm.ref, HasAdapters))
    return tuple(demand for vm, cards in found for demand in demands_of(vm, cards))


def demands_of(vm: str, cards: Iterable[NetworkAdapter]) -> tuple[Demand, ...]:
    """Return what adapters of a VM ask for."""
    return tuple(Demand(vm, c.port_group, c.physical_function or "auto") for c in cards if c.type == "sriov")


def running(view: View, host: str) -> tuple[Target, ...]:
    """Return the VMs of a host that hold their functions, or will: those that are on, and those this plan changes."""
    return tuple(
        v
        for v in view.estate.vms_on(host)
        if view.facts(v.ref).get("runtime.powerState") == "poweredOn"
        or any(view.is_planned(v.ref, kind) for kind in kinds_with(HasAdapters))
    )
