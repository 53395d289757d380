"""Checks of port groups: their switch, their uplinks, and the management network on them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.fabric.dvs import is_uplink
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Problem
from vsphere_ai.model.state import Target
from vsphere_ai.resources._helpers import factories
from vsphere_ai.resources._helpers.entries import UNIQUE_NAMES, twice
from vsphere_ai.resources.port_groups.group import CONFIG, PortGroupSettings, is_ours, meant
from vsphere_ai.resources.port_groups.settings import MAC_MANAGEMENT

problem = partial(factories.problem, "port_groups")


def place_problems(target: Target, estate: Estate, name: str, wanted: PortGroupSettings) -> Iterator[Problem]:
    """Yield the problems of a port group on its switch."""
    group = networks.port_group(estate, target.ref, name)
    message, remedy = meant(estate, target.ref, name, wanted).ambiguity(estate)
    if message and group is None:
        yield problem(target, "name", message, f"{remedy}, or add its switch: ...")
        return
    if group is not None and not is_ours(estate, group):
        what = "carries the uplinks of its switch" if is_uplink(estate, group) else "belongs to NSX"
        yield problem(target, "foreign", f"{name} {what}", "leave it out; such port groups are not changed here")
        return
    if dvs.switch_named(estate, target.ref, wanted.switch or "") is None:
        switches = dvs.switches(estate, target.ref)
        said = f"there is no distributed switch {wanted.switch}" if wanted.switch else "no distributed switch is named"
        yield problem(target, "switch", f"{name}: {said}", f"distributed switches: {', '.join(switches) or 'none'}")
    other = dvs.taken(estate, target.ref, name) if group is None else None
    if other is not None:
        message = f"{name} is the name of another network: {estate.path_of(other.ref)}"
        yield problem(target, "name", message, UNIQUE_NAMES)
    if group is None:
        return
    own = estate.get(group.get("config.distributedVirtualSwitch"))
    if own is None or group.get(CONFIG) is None:
        remedy = "the account needs System.Read on the port group and on its switch"
        yield problem(target, "unreadable", f"{name}: its settings or its switch cannot be read", remedy)
    elif wanted.switch != own.name:
        message = f"{name} is on {own.name}; a port group cannot move to {wanted.switch}"
        yield problem(
            target, "other-switch", message, f"write switch: {own.name}, or give the new port group another name"
        )


def uplink_problems(target: Target, name: str, wanted: PortGroupSettings, switch: Facts) -> Iterator[Problem]:
    """Yield uplinks that the switch does not have."""
    listed = (*(wanted.active_uplinks or ()), *(wanted.standby_uplinks or ()))
    known = (*dvs.uplinks(switch), *dvs.lags(switch))
    unknown = ", ".join(u for u in listed if u not in known)
    if unknown:
        there = f"it has {', '.join(known) or 'none'}"
        yield problem(target, "uplinks", f"{name}: {switch.name} has no uplink {unknown}", there)
    if several := twice(listed):
        message = f"{name}: {', '.join(several)} is listed twice"
        yield problem(target, "uplinks", message, "an uplink is active, standby or unused")


def mac_problems(target: Target, name: str, switch: Facts) -> Iterator[Problem]:
    """Yield that a switch is too old for MAC learning."""
    version = dvs.version(switch)
    if dvs.is_older(version, MAC_MANAGEMENT):
        message = f"{name}: {switch.name} has version {version}, MAC learning needs {MAC_MANAGEMENT}"
        remedy = f"write switches: {{{switch.name}: {{version: {MAC_MANAGEMENT}}}}} or a later version"
        yield problem(target, "mac-learning", message, remedy)


def management_problems(target: Target, estate: Estate, name: str, wanted: PortGroupSettings) -> Iterator[Problem]:
    """Demand that a host whose management network is on a port group has a NIC on one of its uplinks."""
    listed = {*(wanted.active_uplinks or ()), *(wanted.standby_uplinks or ())}
    for host, group, proxy in dvs.managed_over(estate, networks.port_group(estate, target.ref, name)):
        now = dvs.carrying(host, proxy, group)
        if now and listed and not listed & set(now):
            where = f"{host.name}, which has no NIC on {', '.join(sorted(listed))}"
            remedy = f"it is carried over {', '.join(f'{u} = {n}' for u, n in now.items())}: keep one of them"
            yield problem(target, "management", f"{name} has the management network of {where}", remedy)
