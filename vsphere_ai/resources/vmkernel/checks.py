"""Checks of VMkernel adapters: where they are, their addresses, what they carry, and the one for PVRDMA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.fabric.vmk import DHCP, MANAGEMENT, OPTION, OPTION_FACT, Spot, address_of, kinds_known
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.vmkernel.adapter import VmkernelAdapter, is_changed, observed_adapter


def place_problems(spot: Spot) -> Iterator[Problem]:
    """A new adapter needs a distributed port group, on a switch that the host is a member of."""
    target, name, estate = spot.target, spot.name, spot.view.estate
    message, help_ = spot.meant.ambiguity(estate)
    if message:
        yield Finding.problem(target, "vmkernel.port-group", message, help_)
    elif spot.group is None or dvs.is_uplink(estate, spot.group):
        help_ = f"{networks.distributed_in_words(estate)}; port_groups of a datacenters play makes one"
        yield Finding.problem(target, "vmkernel.port-group", f"{name} is no distributed port group for adapters", help_)
    elif not spot.is_member:
        switch = spot.switch.name if spot.switch else "its switch"
        help_ = f"add uplinks: {{{switch}: {{UPLINK: VMNIC}}}} to a play for this host"
        yield Finding.problem(target, "vmkernel.member", f"{name}: this host is no member of {switch}", help_)


def management_problems(spot: Spot, wanted: VmkernelAdapter) -> Iterator[Problem]:
    """A wrong address or MTU of the adapter that carries management takes the host out of vCenter's reach."""
    if spot.vnic is None or MANAGEMENT not in spot.services:
        return
    if is_changed(wanted, observed_adapter(spot.vnic, spot.facts)):
        what = f"{spot.device} on {spot.name} carries management: its address and MTU are not changed"
        help_ = "change it at the host's console (DCUI) or in the vSphere Client"
        yield Finding.problem(spot.target, "vmkernel.management", what, help_)
    if wanted.services is not None and MANAGEMENT not in wanted.services:
        what = f"{spot.device} on {spot.name} would no longer carry management"
        help_ = f"write services: [{', '.join((MANAGEMENT, *wanted.services))}]"
        yield Finding.problem(spot.target, "vmkernel.management", what, help_)


def address_problems(spot: Spot, wanted: VmkernelAdapter, said: VmkernelAdapter | None) -> Iterator[Problem]:
    """A host without an address, or with that of another; `said` is what the playbook has for all its hosts."""
    target, address = spot.target, said.address if said else None
    if isinstance(address, Mapping) and target.name not in address:
        help_ = f"it has one for {', '.join(sorted(address)) or 'no host'}"
        what = f"{spot.name}: the playbook has no address for {target.name}"
        yield Finding.problem(target, "vmkernel.address", what, help_)
    elif spot.vnic is None and wanted.address is None:
        help_ = "write address: dhcp, or for each host an address such as 10.20.0.1/24"
        yield Finding.problem(target, "vmkernel.address", f"{spot.name}: a new adapter needs an address", help_)
    plain = wanted.address if isinstance(wanted.address, str) and wanted.address != DHCP else None
    if plain is not None and not _has(spot, plain) and (taken := tuple(spot.same_address(plain))):
        what = f"{spot.name}: {plain} is the address of {', '.join(taken)}"
        help_ = "give every host an address of its own: address: {HOST: ADDRESS}"
        yield Finding.problem(target, "vmkernel.address-taken", what, help_)


def address_notes(spot: Spot, wanted: VmkernelAdapter) -> Iterator[str]:
    """Name who else has an address that stays: the plan gives it to no adapter, so that it is no reason to refuse."""
    address = wanted.address
    plain = address if isinstance(address, str) and address != DHCP else None
    taken = tuple(spot.same_address(plain)) if plain is not None and _has(spot, plain) else ()
    if taken:
        yield f"{spot.name}: {address} is also the address of {', '.join(taken)}; this plan does not change it"


def _has(spot: Spot, address: str) -> bool:
    """Return whether the adapter has an address already."""
    return spot.vnic is not None and address_of(spot.vnic) == address


def fit_problems(spot: Spot, wanted: VmkernelAdapter) -> Iterator[Problem]:
    """The switch has to let such frames through, and the host has to know the kind of traffic."""
    largest = spot.switch.get("config.maxMtu") if spot.switch else None
    if spot.switch is not None and largest is not None and wanted.mtu is not None and wanted.mtu > largest:
        name = spot.switch.name
        what = f"{spot.name}: MTU {wanted.mtu}, its switch {name} has {largest}"
        help_ = f"add switches: {{{name}: {{mtu: {wanted.mtu}}}}} to a datacenters play"
        yield Finding.problem(spot.target, "vmkernel.mtu", what, help_)
    known = kinds_known(spot.facts)
    for service in wanted.services or ():
        if known and service not in known:
            what = f"{spot.name}: this host knows no traffic called {service}"
            yield Finding.problem(spot.target, "vmkernel.service", what, f"it knows {', '.join(known)}")


def pvrdma_problems(target: Target, view: View, adapters: Mapping[str, VmkernelAdapter]) -> Iterator[Problem]:
    """PVRDMA uses one adapter of a host, which one advanced option names; `pvrdma_host` may state it, too."""
    chosen = [n for n, a in adapters.items() if a.pvrdma]
    if len(chosen) > 1:
        what = f"PVRDMA uses one adapter of a host, not {', '.join(chosen)}"
        yield Finding.problem(target, "vmkernel.pvrdma", what, "write pvrdma: true for one of them")
    why = view.facts(target.ref).unreadable.get(OPTION_FACT)
    if why is not None and any(a.pvrdma is not None for a in adapters.values()):
        what = f"the advanced option {OPTION} cannot be read: {why}"
        yield Finding.problem(target, "vmkernel.pvrdma-option", what, "grant Host.Config.AdvancedConfig on the host")
    host = view.said(PvrdmaHost, target.ref)
    for name in chosen if host and host.vmknic else ():
        vnic = Spot(name, target, view).vnic
        device = vnic["device"] if vnic else "one that this plan makes"
        if host and device != host.vmknic:
            what = f"the adapter on {name} is {device}, and pvrdma_host names {host.vmknic} for PVRDMA"
            help_ = "say it once: pvrdma: true here, or vmknic there"
            yield Finding.problem(target, "vmkernel.pvrdma-conflict", what, help_)
