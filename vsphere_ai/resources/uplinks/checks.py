"""Checks of uplinks: the switch, its NICs, and the management network on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric.api_types import ProxySwitch
from vsphere_ai.fabric.dvs import PORT_GROUP
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import factories
from vsphere_ai.resources._helpers.entries import twice
from vsphere_ai.resources.uplinks.membership import NICS, lagged_switches, owner_of, proxy_of

problem = partial(factories.problem, "uplinks")


def switch_problems(target: Target, host: Facts, switch: Facts, wanted: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of membership in a switch."""
    version = dvs.version(switch)
    if proxy_of(host, switch) is None and dvs.is_older(dvs.host_version(host), version):
        message = f"ESXi {dvs.host_version(host)} cannot join {switch.name}, which has version {version}"
        yield problem(target, "version", message, "upgrade the host, or use a switch of a lower version")
    if switch.name in lagged_switches(host):
        remedy = "leave this switch out; link aggregation is not changed here, and PVRDMA does not work over it"
        yield problem(target, "lag", f"{switch.name} has NICs of this host in a link aggregation group", remedy)
    known = dvs.uplinks(switch)
    unknown = ", ".join(u for u in wanted if u not in known)
    if unknown:
        there = f"it has {', '.join(known) or 'none'}; name them in switches: {{{switch.name}: {{uplinks: ...}}}}"
        yield problem(target, "uplink", f"{switch.name} has no uplink {unknown}", there)


def nic_problems(target: Target, host: Facts, name: str, stated: Mapping[str, Mapping[str, str]]) -> Iterator[Problem]:
    """Yield NICs of a switch (by name) that the host has not, or that something else has; `stated` are all switches."""
    present = {p["device"]: p for p in host.get(NICS, ())}
    several = twice(nic for each in stated.values() for nic in each.values())
    for uplink, nic in stated[name].items():
        if nic not in present:
            there = f"it has {', '.join(sorted(present)) or 'none'}"
            yield problem(target, "nic", f"{name}: this host has no {nic}", there)
            continue
        if nic in several:
            message = f"{nic} is wanted as {uplink} of {name} and elsewhere"
            yield problem(target, "twice", message, "a NIC is one uplink of one switch")
        owner = owner_of(host, present[nic])
        if owner and owner not in stated:
            distributed = owner in (p["dvsName"] for p in dvs.proxies(host).values())
            remedy = f"remove it from the standard switch {owner} first; those are not changed here"
            remedy = f"say what {owner} keeps: uplinks: {{{owner}: ...}}" if distributed else remedy
            yield problem(target, "taken", f"{nic} belongs to {owner}", remedy)


def management_problems(target: Target, view: View, switch: Facts, wanted: Mapping[str, str]) -> Iterator[Problem]:
    """Demand that one NIC that carries the management network now goes on doing so, all the time."""
    host = view.facts(target.ref)
    proxy = proxy_of(host, switch)
    for vmk, uuid, key in dvs.management(host) if proxy else ():
        if uuid != switch.get("uuid"):
            continue
        carrying = dvs.carrying(host, proxy or ProxySwitch(), view.estate.get(f"{PORT_GROUP}:{key}"))
        if carrying and not any(wanted.get(u) == n for u, n in carrying.items()):
            has = ", ".join(f"{u} = {n}" for u, n in carrying.items())
            message = f"{vmk} has the host's management network on {switch.name}, over {has}: the host would be cut off"
            remedy = f"keep one of them in uplinks: {{{switch.name}: ...}}; move the management network first"
            yield problem(target, "management", message, remedy)
