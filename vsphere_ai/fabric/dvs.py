"""Distributed switches and their port groups by name, as they were read or as a plan makes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from vsphere_ai.fabric.api_types import PnicSpec, PortConnection, PortSetting, ProxySwitch, Vnic
from vsphere_ai.model.deferred import Deferred
from vsphere_ai.model.estate.indexes import Index
from vsphere_ai.model.facts import Estate, Facts

PORT_GROUP = "DistributedVirtualPortgroup"
SWITCHES = ("VmwareDistributedVirtualSwitch", "DistributedVirtualSwitch")
UPLINK_GROUPS = "config.uplinkPortgroup"
SWITCH = "DistributedVirtualSwitch"
"""The type every distributed switch is of; VMware's own is derived from it."""
NETWORKS = ("Network", "OpaqueNetwork", PORT_GROUP, *SWITCHES)
"""What shares one space of names within a datacenter."""


def switch_of(estate: Estate, group: Facts | None) -> Facts | None:
    """Return the distributed switch a port group belongs to; None when there is no such port group."""
    return estate.get(group.get("config.distributedVirtualSwitch")) if group else None


def with_uuid(estate: Estate, uuids: Collection[str]) -> Facts | None:
    """Return the distributed switch that has one of these uuids."""
    return next((s for uuid in uuids for s in estate.by_key(BY_UUID, uuid)), None)


BY_UUID = Index(SWITCHES, lambda switch: (switch.get("uuid"),))
"""Distributed switches by uuid."""


def groups_of(estate: Estate, switch: Facts) -> tuple[Facts, ...]:
    """Return the port groups of a switch, by name."""
    return estate.by_key(BY_SWITCH, switch.ref)


BY_SWITCH = Index((PORT_GROUP,), lambda group: (group.get("config.distributedVirtualSwitch"),))
"""Port groups by their distributed switch."""


def is_uplink(estate: Estate, group: Facts) -> bool:
    """Return whether a port group carries the uplinks of its switch: it says so itself, or its switch lists it."""
    return is_uplink_of(switch_of(estate, group), group)


def is_uplink_of(switch: Facts | None, group: Facts) -> bool:
    """Return the same of a port group whose switch is known."""
    return bool(group.get("config.uplink")) or (switch is not None and group.ref in switch.get(UPLINK_GROUPS, ()))


def switches(estate: Estate, datacenter: str) -> dict[str, Facts]:
    """Return the distributed switches of a datacenter by name."""
    return {f.name: f for f in _inside(estate, datacenter, estate.of_type(*SWITCHES))}


def switch_named(estate: Estate, datacenter: str, name: str) -> Facts | None:
    """Return the distributed switch of a datacenter that has a name; None where there is none."""
    return next(_inside(estate, datacenter, estate.named(name, *SWITCHES)), None)


def taken(estate: Estate, datacenter: str, name: str) -> Facts | None:
    """Return the network of that name, whatever it is; names of networks are unique within a datacenter."""
    return next(_inside(estate, datacenter, estate.named(name, *NETWORKS)), None)


def _inside(estate: Estate, datacenter: str, networks: Iterable[Facts]) -> Iterator[Facts]:
    for facts in networks:
        at = estate.datacenter_of(facts.ref)
        if at is not None and at.ref == datacenter:
            yield facts


def uplinks(switch: Facts) -> tuple[str, ...]:
    """Return the names of a switch's uplinks in their order; empty when they cannot be read."""
    policy = switch.get("config.uplinkPortPolicy") or {}
    return tuple(policy.get("uplinkPortName", ()))


def lags(switch: Facts) -> tuple[str, ...]:
    """Return the names of the link aggregation groups of a switch; a port group may name them as its uplinks."""
    return tuple(str(g.get("name")) for g in switch.get("config.lacpGroupConfig", ()))


def release(version: str | None) -> tuple[int, ...]:
    """Return a version such as ``7.0.2`` as numbers that compare; empty when it says nothing."""
    parts = (version or "").split(".")[:3]
    return tuple(int(p) for p in parts) if all(p.isdecimal() for p in parts) else ()


def is_older(one: str | None, other: str | None) -> bool:
    """Return whether one version is surely lower than the other."""
    return bool(release(one)) and release(one) < release(other)


def version(switch: Facts | None) -> str | None:
    """Return the version of a switch, such as ``7.0.2``; None when it cannot be read."""
    return (switch.get("config.productInfo") or {}).get("version") if switch else None


def host_version(host: Facts) -> str:
    """Return the ESXi version of a host, empty when it cannot be read."""
    return str((host.get("config.product") or {}).get("version", ""))


def planned_switch(datacenter: str, name: str, path: str = "") -> str:
    """Return the reference of a switch that a plan makes, or what stands at a path of it."""
    return Deferred(datacenter, SWITCH, name, path)


def planned_key(datacenter: str, name: str) -> Deferred:
    """Return the key of a port group that a plan makes."""
    return Deferred(datacenter, PORT_GROUP, name, "key")


def order(port_config: PortSetting | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the active and the standby uplinks in the port settings of a port group."""
    teaming = (port_config or {}).get("uplinkTeamingPolicy") or {}
    found = teaming.get("uplinkPortOrder") or {}
    return tuple(found.get("activeUplinkPort", ())), tuple(found.get("standbyUplinkPort", ()))


def is_stated(port_config: PortSetting | None) -> bool:
    """Return whether a port group has uplinks of its own, not those of its switch."""
    teaming = (port_config or {}).get("uplinkTeamingPolicy") or {}
    return not (teaming.get("uplinkPortOrder") or {"inherited": True}).get("inherited")


def members(switch: Facts) -> dict[str, tuple[PnicSpec, ...]]:
    """Return the hosts of a switch by reference, with the NICs each gives it (``pnicDevice``, ``uplinkPortKey``)."""
    found = {}
    for member in switch.get("config.host", ()):
        config = member.get("config") or {}
        found[str(config.get("host"))] = tuple((config.get("backing") or {}).get("pnicSpec", ()))
    return found


def beside(estate: Estate, hosts: Collection[str]) -> set[str]:
    """Return the references of all hosts on the distributed switches of some: what a switch gets, they get too."""
    found: set[str] = set()
    for switch in estate.of_type(*SWITCHES):
        there = members(switch).keys()
        found |= there if there & set(hosts) else set()
    return {ref for ref in found if estate.get(ref)}


def proxies(host: Facts) -> dict[str, ProxySwitch]:
    """Return what a host knows of the switches it is a member of, by the switch's uuid."""
    return {p["dvsUuid"]: p for p in host.get("config.network.proxySwitch", ())}


def with_rdma(host: Facts) -> dict[str, str]:
    """Return the distributed switches that have an RDMA NIC of a host, uuid -> name."""
    rdma = {(d.get("backing") or {}).get("pairedUplink") for d in host.get("config.network.rdmaDevice") or ()}
    return {u: str(p.get("dvsName", u)) for u, p in proxies(host).items() if rdma & set(p.get("pnic", ()))}


def nics(proxy: ProxySwitch) -> dict[str, str]:
    """Return uplink name -> vmnic of a host's switch; a port of a link aggregation group has its own name."""
    names = {kv["key"]: kv["value"] for kv in proxy.get("uplinkPort", ())}
    names |= {kv["key"]: kv["value"] for lag in proxy.get("hostLag", ()) for kv in lag.get("uplinkPort", ())}
    specs = ((proxy.get("spec") or {}).get("backing") or {}).get("pnicSpec", ())
    ports = ((str(s.get("uplinkPortKey")), s["pnicDevice"]) for s in specs)
    return {names.get(port, f"port {port}"): nic for port, nic in ports}


def nics_behind(estate: Estate, host: Facts, group: Facts | None) -> tuple[str, ...]:
    """Return the NICs of a host that a distributed port group goes out by, the active ones first; () for none."""
    switch = switch_of(estate, group)
    proxy = proxies(host).get(switch.get("uuid", "")) if switch else None
    if group is None or proxy is None:
        return ()
    active, standby = order(group.get("config.defaultPortConfig"))
    own = nics(proxy)
    return tuple(own[u] for u in (*active, *standby) if u in own) if active or standby else tuple(own.values())


def port_of(vnic: Vnic) -> PortConnection:
    """Return the port of a distributed switch a VMkernel adapter is on; empty when it is on none."""
    return (vnic.get("spec") or {}).get("distributedVirtualPort") or PortConnection()


def vnics(estate: Estate, uuid: str) -> Iterator[tuple[Facts, Vnic, str]]:
    """Yield the VMkernel adapters on a switch, of every host that was read: host, adapter, name of its port group."""
    for host in estate.by_key(BY_ADAPTERS, uuid) if uuid else ():
        for vnic in host.get("config.network.vnic", ()):
            port = port_of(vnic)
            if port.get("switchUuid") == uuid:
                group = estate.get(f"{PORT_GROUP}:{port.get('portgroupKey')}")
                yield host, vnic, group.name if group else ""


BY_ADAPTERS = Index(
    ("HostSystem",), lambda host: (port_of(vnic).get("switchUuid") for vnic in host.get("config.network.vnic", ()))
)
"""Hosts by the uuids of the distributed switches that their VMkernel adapters are on."""
MANAGEMENT_PATHS = ("config.network.vnic", "config.virtualNicManagerInfo.netConfig")


def management(host: Facts) -> Iterator[tuple[str, str, str]]:
    """Yield each vmkernel adapter with a host's management network on a distributed switch: name, uuid, port group.

    Where the tags cannot be read it is taken to be vmk0, which is what installing ESXi makes.
    """
    named = {"vmk0"}
    for config in host.get("config.virtualNicManagerInfo.netConfig", ()):
        if config.get("nicType") == "management":
            chosen = set(config.get("selectedVnic", ()))
            named = {c["device"] for c in config.get("candidateVnic", ()) if c.get("key") in chosen}
    for vnic in host.get("config.network.vnic", ()):
        port = port_of(vnic)
        if port and vnic["device"] in named:
            yield vnic["device"], port["switchUuid"], str(port.get("portgroupKey"))


def managed_over(estate: Estate, group: Facts | None) -> Iterator[tuple[Facts, Facts, ProxySwitch]]:
    """Yield the hosts (that were read) whose management network is on a port group."""
    own = group.get("key") if group else None
    for host in estate.by_key(BY_MANAGEMENT, own) if own else ():
        for _, uuid, key in management(host):
            if group and key == own and uuid in proxies(host):
                yield host, group, proxies(host)[uuid]


BY_MANAGEMENT = Index(("HostSystem",), lambda host: (key for _, _, key in management(host)))
"""Hosts by the keys of the port groups that their management network is on."""


def carrying(host: Facts, proxy: ProxySwitch, group: Facts | None) -> dict[str, str]:
    """Return the uplinks and NICs over which a port group reaches out of a host: those with link, if any have."""
    names = [name for part in order(group.get("config.defaultPortConfig")) for name in part] if group else []
    up = {p["device"] for p in host.get("config.network.pnic", ()) if p.get("linkSpeed")}
    now = {uplink: nic for uplink, nic in nics(proxy).items() if not names or uplink in names}
    return {uplink: nic for uplink, nic in now.items() if nic in up} or now
