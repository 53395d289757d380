"""Checks of port groups: their switch, their uplinks, and the management network on them."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric.dvs import is_uplink
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Problem, Target
from vsphere_ai.resources.port_groups.group import CONFIG, PortGroup, is_ours


def place_problems(target: Target, estate: Estate, name: str, wanted: PortGroup) -> Iterator[Problem]:
    """Yield what stands against a port group on its switch."""
    group, switches = dvs.port_groups(estate, target.ref).get(name), dvs.switches(estate, target.ref)
    if group is not None and not is_ours(estate, group):
        what = "carries the uplinks of its switch" if is_uplink(estate, group) else "belongs to NSX"
        yield Problem(
            target, "port_groups.foreign", f"{name} {what}", "leave it out; such port groups are not changed here"
        )
        return
    if wanted.switch not in switches:
        said = f"there is no distributed switch {wanted.switch}" if wanted.switch else "no distributed switch is named"
        yield Problem(
            target, "port_groups.switch", f"{name}: {said}", f"distributed switches: {', '.join(switches) or 'none'}"
        )
    other = dvs.taken(estate, target.ref, name) if group is None else None
    if other is not None:
        yield Problem(
            target,
            "port_groups.name",
            f"{name} is the name of another network: {estate.path_of(other.ref)}",
            "names of networks are unique within a datacenter: choose another one",
        )
    if group is None:
        return
    own = estate.get(group.get("config.distributedVirtualSwitch"))
    if own is None or group.get(CONFIG) is None:
        yield Problem(
            target,
            "port_groups.unreadable",
            f"{name}: its settings or its switch cannot be read",
            "the account needs System.Read on the port group and on its switch",
        )
    elif wanted.switch != own.name:
        yield Problem(
            target,
            "port_groups.other-switch",
            f"{name} is on {own.name}; a port group cannot move to {wanted.switch}",
            f"write switch: {own.name}, or give the new port group another name",
        )


def uplink_problems(target: Target, name: str, wanted: PortGroup, switch: Facts) -> Iterator[Problem]:
    """Yield uplinks that the switch does not have."""
    active, standby = wanted.active_uplinks or (), wanted.standby_uplinks or ()
    known = (*dvs.uplinks(switch), *dvs.lags(switch))
    unknown = [u for u in (*active, *standby) if u not in known]
    if unknown:
        yield Problem(
            target,
            "port_groups.uplinks",
            f"{name}: {switch.name} has no uplink {', '.join(unknown)}",
            f"it has {', '.join(known) or 'none'}",
        )
    twice = sorted({u for u in (*active, *standby) if (*active, *standby).count(u) > 1})
    if twice:
        yield Problem(
            target,
            "port_groups.uplinks",
            f"{name}: {', '.join(twice)} is listed twice",
            "an uplink is active, standby or unused",
        )


def management_problems(target: Target, estate: Estate, name: str, wanted: PortGroup) -> Iterator[Problem]:
    """Demand that a host whose management network is on a port group has a NIC on one of its uplinks."""
    listed = {*(wanted.active_uplinks or ()), *(wanted.standby_uplinks or ())}
    for host, group, proxy in dvs.managed_over(estate, dvs.port_groups(estate, target.ref).get(name)):
        now = dvs.carrying(host, proxy, group)
        if now and listed and not listed & set(now):
            yield Problem(
                target,
                "port_groups.management",
                f"{name} has the management network of {host.name}, which has no NIC on {', '.join(sorted(listed))}",
                f"it is carried over {', '.join(f'{u} = {n}' for u, n in now.items())}: keep one of them",
            )
