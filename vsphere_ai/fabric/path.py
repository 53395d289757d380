"""Path from a port group to the RDMA device of a host, and the fix of each broken link.

Source: vSphere Networking 7.0, "PVRDMA Support".
"""

from __future__ import annotations

from vsphere_ai.fabric import networks
from vsphere_ai.fabric import route as fabric_route
from vsphere_ai.fabric.corrections import PortGroupUplinks, UplinkNics
from vsphere_ai.fabric.links import PATH_PART, Link, LinkPlace
from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target

NETWORK = ("config.network.proxySwitch", "config.network.pnic", "config.network.rdmaDevice")
OF_UPLINKS = (fabric_route.MEMBER_LINK, fabric_route.NIC_LINK, fabric_route.ALONE_LINK, fabric_route.DEVICE_LINK)
"""Links that another assignment of NICs to uplinks fixes."""
HOST, PORT_GROUP = (
    LinkPlace(name, PATH_PART, fabric_route.PATH_RULE) for name in ("host", fabric_route.PORT_GROUP_LINK)
)
FALL_BACK = (
    "PVRDMA goes over TCP from this host: run the VM on a host whose uplink is an RDMA NIC, or fit one here "
    "and load its RDMA driver (esxcli rdma device list)"
)


def path_links(
    estate: Estate, host: Target, group: Facts | None, protocol: str | None = None
) -> tuple[list[Link], fabric_route.FabricRoute | None]:
    """Return the links from a port group to the RDMA device of a host, and what they join where that is known."""
    facts = estate[host.ref]
    hidden = next((p for p in NETWORK if p in facts.unreadable), None)
    state = facts.get("runtime.connectionState", "connected")
    if state != "connected":
        return [HOST.link("unknown", f"vCenter reports it as {state}", "connect the host to vCenter")], None
    if hidden:
        return [HOST.link("unknown", f"{hidden}: {facts.unreadable[hidden]}")], None
    if group is None:
        seen, help = "not a distributed port group that could be read", "PVRDMA needs a distributed port group"
        return [PORT_GROUP.link("unknown", seen, help)], None
    links: list[Link] = []
    route = fabric_route.follow(estate, host.ref, group, protocol)
    for link in route.links:
        if link.verdict == "pass":
            links.append(link)
        else:
            fix = _fix(estate, host, route, link)
            help = "" if fix else FALL_BACK if link.name == fabric_route.DEVICE_LINK else link.finding.remedy
            links.append(link.with_fix(fix, help))
    return links, route


def is_seen(host: Facts) -> bool:
    """Return whether the network of a host is known."""
    connected = host.get("runtime.connectionState", "connected") == "connected"
    return connected and NETWORK[0] in host.properties and not any(p in host.unreadable for p in NETWORK)


def _fix(estate: Estate, host: Target, route: fabric_route.FabricRoute, link: Link) -> Correction | None:
    """Return the fix of a broken link; None where it takes manual work, or a choice of the operator."""
    switch = route.switch
    if switch is None:
        return None
    if link.name == fabric_route.UPLINK_LINK:
        uplink = route.uplink or _any_uplink(route, estate)
        at = estate.datacenter_of(route.group.ref)
        name = networks.label(estate, route.group)
        return PortGroupUplinks(at, name, (uplink,)) if at and uplink else None
    if link.name in OF_UPLINKS:
        nic = rdma_nic(route)
        if link.name == fabric_route.DEVICE_LINK and nic not in _own_rdma_nics(route):
            return None  # to take another NIC for the one that is there is the operator's choice
        uplink = route.uplink or next(iter(fabric_route.active_uplinks(route.group)), "")
        return UplinkNics(host, switch.name, {uplink: nic}) if nic and uplink else None
    return None


def _any_uplink(route: fabric_route.FabricRoute, estate: Estate) -> str:
    """Return the uplink of the switch on this host that leads to an RDMA device."""
    ports = {kv["key"]: kv["value"] for kv in (route.proxy or {}).get("uplinkPort", ())}
    backing = ((route.proxy or {}).get("spec") or {}).get("backing") or {}
    nics = {n["device"]: n["key"] for n in route.host.get("config.network.pnic", ())}
    for spec in backing.get("pnicSpec", ()):
        if fabric_route.device_of(route.host, nics.get(spec["pnicDevice"], "")) and spec.get("uplinkPortKey") in ports:
            return str(ports[spec["uplinkPortKey"]])
    return ""


def rdma_nic(route: fabric_route.FabricRoute) -> str:
    """Return the RDMA NIC of the host for this switch: the one in use, one on the switch, or the only free one."""
    if route.nic and fabric_route.device_of(route.host, route.nic["key"]):
        return str(route.nic["device"])
    own = _own_rdma_nics(route)
    return own[0] if own else _free_rdma_nic(route)


def _own_rdma_nics(route: fabric_route.FabricRoute) -> list[str]:
    own = set((route.proxy or {}).get("pnic", ()))
    found = [n for n in route.host.get("config.network.pnic", ()) if n["key"] in own]
    return [str(n["device"]) for n in found if fabric_route.device_of(route.host, n["key"])]


def _free_rdma_nic(route: fabric_route.FabricRoute) -> str:
    """Return the host's RDMA NIC that no other switch has, where there is one to choose."""
    taken = {n for p in route.host.get("config.network.proxySwitch", ()) for n in p.get("pnic", ())}
    taken |= {n for s in route.host.get("config.network.vswitch", ()) for n in s.get("pnic", ())}
    taken -= set((route.proxy or {}).get("pnic", ()))
    able = [n for n in route.host.get("config.network.pnic", ()) if fabric_route.device_of(route.host, n["key"])]
    free = [str(n["device"]) for n in able if n["key"] not in taken]
    return free[0] if len(free) == 1 else ""
