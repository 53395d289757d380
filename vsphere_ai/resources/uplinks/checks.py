"""Checks of uplinks: the switch, and the management network on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.fabric import dvs
from vsphere_ai.fabric.api_types import ProxySwitch
from vsphere_ai.fabric.dvs import PORT_GROUP
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Problem, Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.uplinks.membership import (
    lagged_switches,
    proxy_of,
)


def switch_problems(target: Target, host: Facts, switch: Facts, wanted: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what stands against membership in a switch."""
    version = (switch.get("config.productInfo") or {}).get("version")
    if proxy_of(host, switch) is None and dvs.is_older(dvs.host_version(host), version):
        yield Problem(
            target,
            "uplinks.version",
            f"ESXi {dvs.host_version(host)} cannot join {switch.name}, which has version {version}",
            "upgrade the host, or use a switch of a lower version",
        )
    if switch.name in lagged_switches(host):
        yield Problem(
            target,
            "uplinks.lag",
            f"{switch.name} has NICs of this host in a link aggregation group",
            "leave this switch out; link aggregation is not changed here, and PVRDMA does not work over it",
        )
    known = dvs.uplinks(switch)
    unknown = [u for u in wanted if u not in known]
    if unknown:
        yield Problem(
            target,
            "uplinks.uplink",
            f"{switch.name} has no uplink {', '.join(unknown)}",
            f"it has {', '.join(known) or 'none'}; name them in switches: {{{switch.name}: {{uplinks: ...}}}}",
        )


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
            yield Problem(
                target,
                "uplinks.management",
                f"{vmk} has the host's management network on {switch.name}, over {has}: the host would be cut off",
                f"keep one of them in uplinks: {{{switch.name}: ...}}; move the management network first",
            )
