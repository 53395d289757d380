"""Route of RDMA traffic on a host: the links from a port group over switch, uplink and NIC to an RDMA device. Pure.

The links are keys, not device names: rdmaDevice.backing.pairedUplink -> pnic.key -> proxySwitch.pnic, and the port
group's active uplink name -> proxySwitch.uplinkPort -> pnicSpec.uplinkPortKey -> pnic.
Source: vSphere Networking 7.0, "Remote Direct Memory Access for Virtual Machines"; vSphere Web Services API reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vsphere_ai.fabric.api_types import HostRdmaDevice, PhysicalNic, PortSetting, ProxySwitch
from vsphere_ai.fabric.dvs import UPLINK_GROUPS, is_uplink, switch_of
from vsphere_ai.fabric.links import Link
from vsphere_ai.model.facts import Estate, Facts

HOST_PATHS = ("config.network.rdmaDevice", "config.network.pnic", "config.network.proxySwitch")
PORT_GROUP_PATHS = ("key", "config.uplink", "config.distributedVirtualSwitch", "config.defaultPortConfig")
SWITCH_PATHS = ("uuid", "config.maxMtu", UPLINK_GROUPS)
STATES_UP = ("active", "activeDefer")
PORT_GROUP_LINK, SWITCH_LINK = "port group", "distributed switch"
MEMBER_LINK = "host is a member of the switch"
UPLINK_LINK, NIC_LINK = "active uplink of the port group", "physical NIC of that uplink"
DEVICE_LINK, ACTIVE_LINK, PROTOCOL_LINK = "RDMA device of that NIC", "RDMA device is active", "RoCE protocol"
ALONE_LINK = "RDMA NIC is the switch's only uplink"


@dataclass
class Route:
    """A port group followed on one host: every link that could be looked at, and what they join."""

    group: Facts
    host: Facts
    links: list[Link] = field(default_factory=list)
    switch: Facts | None = None
    proxy: ProxySwitch | None = None
    uplink: str = ""
    nic: PhysicalNic | None = None
    device: HostRdmaDevice | None = None

    def see(self, name: str, seen: str, *, holds: bool, help: str) -> bool:
        """Append a link; return whether it holds."""
        self.links.append(Link(name, "ok", seen) if holds else Link(name, "broken", seen, help=help))
        return holds


def broken_link(estate: Estate, host: str, group: Facts, protocol: str | None = None) -> Link | None:
    """Return the first broken link between a port group and an RDMA device of a host; None: the path carries RDMA."""
    links = follow(estate, host, group, protocol).links
    return next((link for link in links if link.verdict == "broken"), None)


def follow(estate: Estate, host: str, group: Facts, protocol: str | None = None) -> Route:
    """Follow the chain on one host as far as it leads, also behind links that do not hold."""
    route = Route(group, estate[host])
    _to_switch(route, estate)
    if route.proxy is not None and _to_nic(route, route.proxy) and route.nic is not None:
        _to_device(route, route.nic, protocol)
        if route.device is not None:
            _alone(route, route.proxy, route.nic)
    return route


def _to_switch(route: Route, estate: Estate) -> None:
    group, host = route.group, route.host
    carries_uplinks = is_uplink(estate, group)
    route.see(
        PORT_GROUP_LINK,
        f"{group.name}" + (" is an uplink port group" if carries_uplinks else ""),
        holds=not carries_uplinks,
        help="choose a port group for virtual machines",
    )
    switch = route.switch = switch_of(estate, group)
    if not route.see(
        SWITCH_LINK,
        switch.name if switch else f"the switch of {group.name} cannot be read",
        holds=switch is not None,
        help="grant System.Read on the distributed switch",
    ):
        return
    name, uuid = (switch.name, switch.get("uuid")) if switch else ("", None)
    route.proxy = next((p for p in host.get("config.network.proxySwitch", ()) if p["dvsUuid"] == uuid), None)
    route.see(
        MEMBER_LINK,
        f"{host.name} in {name}: " + ("yes" if route.proxy else "no"),
        holds=route.proxy is not None,
        help=f"add {host.name} to {name} with its RDMA NIC as uplink",
    )


def _to_nic(route: Route, proxy: ProxySwitch) -> bool:
    uplinks = active_uplinks(route.group)
    route.see(
        UPLINK_LINK,
        f"{', '.join(uplinks) or 'none'}",
        holds=len(uplinks) == 1,
        help="PVRDMA does not team: name exactly one active uplink in the port group's teaming policy",
    )
    if not uplinks:
        return False
    # of several, the one that leads to an RDMA device
    found = {uplink: _pnic_of(route.host, proxy, uplink) for uplink in uplinks}
    able = [u for u, nic in found.items() if nic and device_of(route.host, nic["key"])]
    route.uplink = next(iter(able or [u for u, nic in found.items() if nic]), uplinks[0])
    nic = route.nic = found[route.uplink]
    return route.see(
        NIC_LINK,
        f"{route.uplink} -> " + (nic["device"] if nic else "no NIC"),
        holds=nic is not None,
        help=f"assign the RDMA NIC to {route.uplink} on {route.host.name}",
    )


def _to_device(route: Route, nic: PhysicalNic, protocol: str | None) -> None:
    device = route.device = device_of(route.host, nic["key"])
    route.see(
        DEVICE_LINK,
        f"{nic['device']} -> " + (device["device"] if device else "no RDMA device"),
        holds=device is not None,
        help="use a RoCE-capable NIC whose RDMA driver is loaded (esxcli rdma device list)",
    )
    if device is None:
        return
    state = state_of(device)
    route.see(
        ACTIVE_LINK,
        f"{device['device']} is {state}",
        holds=state in STATES_UP,
        help="check the cable, the switch port and the NIC's link state",
    )
    able = protocols(device)
    names = ", ".join(able) or "no RoCE"
    route.see(
        PROTOCOL_LINK,
        f"{device['device']} speaks {names}",
        holds=protocol in able if protocol else bool(able),
        help=f"write protocol: {names}" if able else "use a RoCE-capable NIC",
    )


def _alone(route: Route, proxy: ProxySwitch, nic: PhysicalNic) -> None:
    others = [_device(route.host, n) for n in proxy.get("pnic", ()) if n != nic["key"]]
    route.see(
        ALONE_LINK,
        f"{proxy['dvsName']} on {route.host.name} also has {', '.join(others)}" if others else f"{nic['device']} alone",
        holds=not others,
        help="PVRDMA needs the HCA as the only uplink of its switch: move the other NICs to another switch",
    )


def protocols(device: HostRdmaDevice) -> tuple[str, ...]:
    """Return the RoCE versions an RDMA device speaks: ``rocev1``, ``rocev2``."""
    can = device.get("capability") or {}
    able = {"rocev1": can.get("roceV1Capable"), "rocev2": can.get("roceV2Capable")}
    return tuple(name for name, speaks in able.items() if speaks)


def state_of(device: HostRdmaDevice) -> str:
    """Return the link state of an RDMA device, such as ``active``; ``unknown`` when it is not shown."""
    return str((device.get("connectionInfo") or {}).get("state", "unknown"))


def is_up(device: HostRdmaDevice) -> bool:
    """Return whether an RDMA device speaks RoCE and is active."""
    return state_of(device) in STATES_UP and bool(protocols(device))


def uplink_key(device: HostRdmaDevice) -> str | None:
    """Return the key of the physical NIC of an RDMA device."""
    return (device.get("backing") or {}).get("pairedUplink")


def device_of(host: Facts, nic: str) -> HostRdmaDevice | None:
    """Return the RDMA device of a physical NIC, which is given by its key."""
    devices: Sequence[HostRdmaDevice] = host.get("config.network.rdmaDevice", ())
    return next((d for d in devices if uplink_key(d) == nic), None)


def active_uplinks(group: Facts) -> tuple[str, ...]:
    """Return the names of the uplinks that carry the traffic of a port group."""
    config: PortSetting = group.get("config.defaultPortConfig") or PortSetting()
    order = (config.get("uplinkTeamingPolicy") or {}).get("uplinkPortOrder") or {}
    return tuple(order.get("activeUplinkPort", ()))


def _pnic_of(host: Facts, proxy: ProxySwitch, uplink: str) -> PhysicalNic | None:
    ports = {kv["key"] for kv in proxy.get("uplinkPort", ()) if kv["value"] == uplink}
    backing = (proxy.get("spec") or {}).get("backing") or {}
    device = next((s["pnicDevice"] for s in backing.get("pnicSpec", ()) if s.get("uplinkPortKey") in ports), None)
    return next((p for p in host.get("config.network.pnic", ()) if p["device"] == device), None)


def _device(host: Facts, key: str) -> str:
    return next((p["device"] for p in host.get("config.network.pnic", ()) if p.get("key") == key), key)
