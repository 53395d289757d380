"""Uplink assignment: one uplink of a distributed switch carries RDMA, and every host's RDMA NIC is assigned to it.

PVRDMA does not team, so the choice for one host is the choice for all hosts of the switch.
Source: vSphere Networking 7.0, "PVRDMA Support".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.api_types import ProxySwitch
from vsphere_ai.fabric.corrections import PortGroupUplinks, UplinkNics
from vsphere_ai.fabric.fix_plan import FixPlan, RdmaPath, by_switch
from vsphere_ai.fabric.path import rdma_nic
from vsphere_ai.model.facts import Estate, Facts, grouped
from vsphere_ai.model.state import Target

CONFIG = "config.defaultPortConfig"
ASSIGNMENT_LINKS = (fabric_route.MEMBER_LINK, fabric_route.UPLINK_LINK, fabric_route.NIC_LINK, fabric_route.ALONE_LINK)
CHOSEN = 2  # a port group with one active uplink was meant so: changing it weighs as much as moving two NICs


def assign(fix_plan: FixPlan, estate: Estate, paths: Iterable[RdmaPath]) -> None:
    """Add to a fix plan the uplink that carries RDMA on each switch with a broken path, and the NICs assigned to it."""
    for ref, own in by_switch(estate, paths).items():
        table = _Uplinks(estate, estate[ref], own)
        if table.is_complete:
            continue
        uplinks = [u for u in table.choices if not table.cut_off(u)]
        if not uplinks:
            why = next((w for u in table.choices if (w := table.cut_off(u))), "no host has an RDMA NIC to assign")
            fix_plan.keep(f"the uplinks of {estate[ref].name} stay as they are: {why}")
            fix_plan.unfixed.update({h: why for h in table.routes})
            continue
        _write(fix_plan, table, min(uplinks, key=lambda u: (table.cost(u), u)))


def _write(fix_plan: FixPlan, table: _Uplinks, uplink: str) -> None:
    switch = table.switch
    at = table.estate.datacenter_of(switch.ref)
    orders = []
    if at is not None:
        changed = (networks.label(table.estate, group) for group in table.changed(uplink))
        orders = [PortGroupUplinks(at, name, active=(uplink,)) for name in changed]
    wants = {host: {uplink: nic} for host, nic in table.nics.items() if nic}
    for host, wanted in {**wants, **table.along(uplink)}.items():
        why = table.unassigned(host, uplink, wanted)
        if why:
            fix_plan.keep(f"{host.name} stays as it is on {switch.name}: {why}")
            fix_plan.unfixed[host] = why
        elif table.now(host) != wanted or (host in wants and not table.is_alone(host)):
            fix_plan.add(UplinkNics(host, switch.name, wanted))
            for group in table.displaced(host, uplink):
                # standby, not active: hosts whose NIC is on the active one go on as before
                standby = (*dvs.order(group.get(CONFIG))[1], uplink)
                if at is not None:
                    orders.append(PortGroupUplinks(at, networks.label(table.estate, group), standby=standby))
    for order in orders:
        fix_plan.add(order)
    if table.changed(uplink) and table.unread:
        fix_plan.keep(
            f"{', '.join(table.unread)} could not be read: a NIC has to be on {uplink} of {switch.name} there"
        )


@dataclass(frozen=True)
class _Uplinks:
    """One switch: the hosts and port groups RDMA goes over, and what each uplink would cost."""

    estate: Estate
    switch: Facts
    paths: Sequence[RdmaPath]

    @cached_property
    def groups(self) -> dict[str, Facts]:
        return {g.ref: g for _, g in self.paths}

    @cached_property
    def routes(self) -> dict[Target, list[fabric_route.FabricRoute]]:
        followed = ((host, fabric_route.follow(self.estate, host.ref, group)) for host, group in self.paths)
        return {host: [route for _, route in own] for host, own in grouped(followed, lambda each: each[0]).items()}

    @property
    def is_complete(self) -> bool:
        """Whether no path is broken at a link that an assignment of NICs fixes."""
        for route in (r for found in self.routes.values() for r in found):
            gone = {link.name for link in route.links if link.verdict == "fail"}
            if gone & set(ASSIGNMENT_LINKS) or (fabric_route.DEVICE_LINK in gone and rdma_nic(route)):
                return False
        return True

    @cached_property
    def nics(self) -> dict[Target, str]:
        """The RDMA NIC of each host; empty where there is none to choose, or link aggregation has it."""
        own = ((host, found[0]) for host, found in self.routes.items())
        return {host: "" if _is_lagged(self._proxy(host)) else rdma_nic(route) for host, route in own}

    @property
    def choices(self) -> list[str]:
        """The uplinks in question: those of the port groups, and those with an RDMA NIC."""
        if not any(self.nics.values()):
            return []
        known = dvs.uplinks(self.switch)
        now = [u for h, nic in self.nics.items() for u, n in self.now(h).items() if n == nic]
        named = [u for g in self.groups.values() for u in fabric_route.active_uplinks(g)]
        return [u for u in dict.fromkeys((*named, *now)) if not known or u in known]

    @cached_property
    def unread(self) -> list[str]:
        """Members of the switch whose network was not read."""
        hosts = (self.estate.get(ref) for ref in dvs.members(self.switch))
        return sorted(h.name for h in hosts if h and "config.network.proxySwitch" not in h.properties)

    def now(self, host: Target) -> dict[str, str]:
        """Return the NICs a host gives the switch, by uplink."""
        proxy = self._proxy(host)
        return dvs.nics(proxy) if proxy else {}

    def is_alone(self, host: Target) -> bool:
        """Return whether the switch has no second NIC of the host."""
        proxy = self._proxy(host)
        return proxy is None or len(proxy.get("pnic", ())) <= 1

    def changed(self, uplink: str) -> list[Facts]:
        """Return the port groups that would have to get that uplink."""
        return [g for g in self.groups.values() if fabric_route.active_uplinks(g) != (uplink,)]

    def cost(self, uplink: str) -> int:
        """Return the cost of an uplink: NICs that move, and port groups that lose the uplink they were meant for."""
        moves = sum(bool(nic) and self.now(h).get(uplink) != nic for h, nic in self.nics.items())
        meant = sum(len(fabric_route.active_uplinks(g)) == 1 for g in self.changed(uplink))
        return moves + len(self.along(uplink)) + CHOSEN * meant

    def along(self, uplink: str) -> dict[Target, dict[str, str]]:
        """Return the other hosts that a changed port group would cut off, with the NICs that keep them on."""
        found: dict[Target, dict[str, str]] = {}
        for host in (h for h in self.estate.hosts if not self.nics.get(h)):
            nics = self.now(host)
            olds = (u for g in self.changed(uplink) for u in fabric_route.active_uplinks(g))
            old = next((u for u in olds if u in nics), None)
            if uplink not in nics and old:
                found[host] = {uplink: nics[old], **{u: n for u, n in nics.items() if u != old}}
        return found

    def cut_off(self, uplink: str) -> str:
        """Return which management network the changed port groups would cut off; empty when none."""
        for host in self.estate.hosts:
            for vmk, group in self._managed(host):
                proxy = self._proxy(host) or {}
                before, after = dvs.carrying(self.estate[host.ref], proxy, group), self._after(group, uplink)
                if before and any(dvs.order(after.get(CONFIG))) and not _listed(after) & set(before):
                    return f"{vmk} of {host.name} has the management network on {group.name}, not over {uplink}"
        return ""

    def unassigned(self, host: Target, uplink: str, wanted: Mapping[str, str]) -> str:
        """Return why a host's NICs cannot be assigned like this; empty when they can."""
        proxy = self._proxy(host)
        if _is_lagged(proxy):
            return "its NICs there are in a link aggregation group"
        for vmk, group in self._managed(host):
            now = dvs.carrying(self.estate[host.ref], proxy or {}, self._after(group, uplink))
            if now and not any(wanted.get(u) == n for u, n in now.items()):
                said = ", ".join(f"{u} = {n}" for u, n in now.items())
                return f"{vmk} has the management network over {said}; move it first"
        return ""

    def displaced(self, host: Target, uplink: str) -> list[Facts]:
        """Return the other port groups of the switch that go over NICs which the host takes off it."""
        now, found = self.now(host), []
        for group in self.estate.of_type(dvs.PORT_GROUP):
            mine = dvs.switch_of(self.estate, group) == self.switch and not dvs.is_uplink(self.estate, group)
            if mine and group.ref not in self.groups and _listed(group) & set(now) and uplink not in _listed(group):
                found.append(group)
        return found

    def _proxy(self, host: Target) -> ProxySwitch | None:
        return dvs.proxies(self.estate[host.ref]).get(self._uuid)

    @property
    def _uuid(self) -> str:
        return str(self.switch.get("uuid", ""))

    def _managed(self, host: Target) -> list[tuple[str, Facts]]:
        own = dvs.management(self.estate[host.ref]) if self._proxy(host) else ()
        found = ((vmk, self.estate.get(f"{dvs.PORT_GROUP}:{key}")) for vmk, uuid, key in own if uuid == self._uuid)
        return [(vmk, group) for vmk, group in found if group is not None]

    def _after(self, group: Facts, uplink: str) -> Facts:
        """Return a port group as it will be: the uplink alone is active, where RDMA goes over it."""
        if group.ref not in self.groups:
            return group
        standby = tuple(u for u in dvs.order(group.get(CONFIG))[1] if u != uplink)
        order = {"uplinkPortOrder": {"activeUplinkPort": (uplink,), "standbyUplinkPort": standby}}
        config = {**(group.get(CONFIG) or {}), "uplinkTeamingPolicy": order}
        return group.having({CONFIG: config})


def _listed(group: Facts) -> set[str]:
    return {u for part in dvs.order(group.get(CONFIG)) for u in part}


def _is_lagged(proxy: ProxySwitch | None) -> bool:
    ports = {kv["value"] for lag in (proxy or {}).get("hostLag", ()) for kv in lag.get("uplinkPort", ())}
    return bool(proxy and ports & set(dvs.nics(proxy)))
