"""Checks of VMkernel adapters: where they are, what they carry, and the management network."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric.vmk import (
    MANAGEMENT,
    Spot,
    kinds_known,
)  # fmt: skip
from vsphere_ai.model.state import Problem
from vsphere_ai.resources.vmkernel.adapter import Adapter, is_changed, observed_adapter


def place_problems(spot: Spot) -> Iterator[Problem]:
    """A new adapter needs a distributed port group, on a switch that the host is a member of."""
    target, name = spot.target, spot.name
    if len(spot.groups) > 1:
        paths = ", ".join(spot.view.estate.path_of(g.ref) for g in spot.groups)
        yield Problem(target, "vmkernel.port-group", f"{name} is the name of several port groups",
                      f"rename all but one: {paths}")  # fmt: skip
    elif spot.group is None or dvs.is_uplink(spot.view.estate, spot.group):
        estate = spot.view.estate
        groups = (g for g in estate.of_type(dvs.PORT_GROUP) if not dvs.is_uplink(estate, g))
        known = ", ".join(sorted(g.name for g in groups)) or "none"
        yield Problem(target, "vmkernel.port-group", f"{name} is no distributed port group for adapters",
                      f"distributed port groups: {known}; port_groups of a datacenters play makes one")  # fmt: skip
    elif not spot.is_member:
        switch = spot.switch.name if spot.switch else "its switch"
        yield Problem(target, "vmkernel.member", f"{name}: this host is no member of {switch}",
                      f"add uplinks: {{{switch}: {{UPLINK: VMNIC}}}} to a play for this host")  # fmt: skip


def management_problems(spot: Spot, wanted: Adapter) -> Iterator[Problem]:
    """A wrong address or MTU of the adapter that carries management takes the host out of vCenter's reach."""
    if spot.vnic is None or MANAGEMENT not in spot.services:
        return
    now = observed_adapter(spot.vnic, spot.facts)
    if is_changed(wanted, now):
        yield Problem(spot.target, "vmkernel.management",
                      f"{spot.device} on {spot.name} carries management: its address and MTU are not changed",
                      "change it at the host's console (DCUI) or in the vSphere Client")  # fmt: skip
    if wanted.services is not None and MANAGEMENT not in wanted.services:
        yield Problem(spot.target, "vmkernel.management",
                      f"{spot.device} on {spot.name} would no longer carry management",
                      f"write services: [{', '.join((MANAGEMENT, *wanted.services))}]")  # fmt: skip


def fit_problems(spot: Spot, wanted: Adapter) -> Iterator[Problem]:
    """The switch has to let such frames through, and the host has to know the kind of traffic."""
    largest = spot.switch.get("config.maxMtu") if spot.switch else None
    if largest is not None and wanted.mtu is not None and wanted.mtu > largest:
        name = spot.switch.name if spot.switch else ""
        yield Problem(spot.target, "vmkernel.mtu", f"{spot.name}: MTU {wanted.mtu}, its switch {name} has {largest}",
                      f"add switches: {{{name}: {{mtu: {wanted.mtu}}}}} to a datacenters play")  # fmt: skip
    known = kinds_known(spot.facts)
    for service in wanted.services or ():
        if known and service not in known:
            yield Problem(spot.target, "vmkernel.service", f"{spot.name}: this host knows no traffic called {service}",
                          f"it knows {', '.join(known)}")  # fmt: skip
