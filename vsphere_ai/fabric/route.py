"""Route of RDMA traffic on a host: the links from a port group over switch, uplink and NIC to an RDMA device. Pure.

The links are keys, not device names: rdmaDevice.backing.pairedUplink -> pnic.key -> proxySwitch.pnic, and the port
group's active uplink name -> proxySwitch.uplinkPort -> pnicSpec.uplinkPortKey -> pnic.
Source: vSphere Networking 7.0, "Remote Direct Memory Access for Virtual Machines"; vSphere Web Services API reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vsphere_ai.fabric.api_types import HostRdmaDevice, PhysicalNic, ProxySwitch
from vsphere_ai.fabric.dvs import UPLINK_GROUPS, is_uplink_of, nics, order, proxies, switch_of
from vsphere_ai.fabric.links import PATH_PART, Link, LinkPlace
from vsphere_ai.model.estate.kept import once
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
PATH_RULE = "vm.rdma-path"
"""The rule that `check` reports a link of the path under, where it has none of its own."""
RULE_OF = {ALONE_LINK: "host.rdma-uplinks"}
HELP = {
    PORT_GROUP_LINK: "choose a port group for virtual machines",
    SWITCH_LINK: "grant System.Read on the distributed switch",
    UPLINK_LINK: "PVRDMA does not team: name exactly one active uplink in the port group's teaming policy",
    DEVICE_LINK: "use a RoCE-capable NIC whose RDMA driver is loaded (esxcli rdma device list)",
    ACTIVE_LINK: "check the cable, the switch port and the NIC's link state",
    ALONE_LINK: "PVRDMA needs the HCA as the only uplink of its switch: move the other NICs to another switch",
}
"""What helps where a link is broken; that of the others depends on what was seen."""


@dataclass
class FabricRoute:
    """A port group followed on one host: every link that could be looked at, and what they join."""

    group: Facts
    host: Facts
    links: list[Link] = field(default_factory=list)
    switch: Facts | None = None
    proxy: ProxySwitch | None = None
    uplink: str = ""
    nic: PhysicalNic | None = None
    device: HostRdmaDevice | None = None

    def see(self, name: str, seen: str, *, holds: bool, help: str = "") -> bool:
        """Append a link; return whether it holds."""
        place = LinkPlace(name, PATH_PART, RULE_OF.get(name, PATH_RULE))
        self.links.append(place.link("pass", seen) if holds else place.link("fail", seen, help or HELP[name]))
        return holds


def broken_link(estate: Estate, host: str, group: Facts, protocol: str | None = None) -> Link | None:
    """Return the first broken link between a port group and an RDMA device of a host; None: the path carries RDMA."""
    return _broken(estate[host], group, switch_of(estate, group), protocol)


@once
def _broken(host: Facts, group: Facts, switch: Facts | None, protocol: str | None) -> Link | None:
    links = _followed(host, group, switch, protocol).links
    return next((link for link in links if link.verdict == "fail"), None)


def follow(estate: Estate, host: str, group: Facts, protocol: str | None = None) -> FabricRoute:
    """Follow the chain on one host as far as it leads, also behind links that do not hold."""
    return _followed(estate[host], group, switch_of(estate, group), protocol)


def _followed(host: Facts, group: Facts, switch: Facts | None, protocol: str | None) -> FabricRoute:
    route = FabricRoute(group, host, switch=switch)
    _to_switch(route)
    if route.proxy is not None and _to_nic(route, route.proxy) and route.nic is not None:
        _to_device(route, route.nic, protocol)
        if route.device is not None:
            _alone(route, route.proxy, route.nic)
    return route


def _to_switch(route: FabricRoute) -> None:
    group, host, switch = route.group, route.host, route.switch
    carries_uplinks = is_uplink_of(switch, group)
    suffix = " is an uplink port group" if carries_uplinks else ""
    route.see(PORT_GROUP_LINK, f"{group.name}{suffix}", holds=not carries_uplinks)
    if switch is None:
        route.see(SWITCH_LINK, f"the switch of {group.name} cannot be read", holds=False)
        return
    route.see(SWITCH_LINK, switch.name, holds=True)
    route.proxy = proxies(host).get(switch.get("uuid", ""))
    seen = f"{host.name} in {switch.name}: {'yes' if route.proxy else 'no'}"
    help = f"add {host.name} to {switch.name} with its RDMA NIC as uplink"
    route.see(MEMBER_LINK, seen, holds=route.proxy is not None, help=help)


def _to_nic(route: FabricRoute, proxy: ProxySwitch) -> bool:
    uplinks = active_uplinks(route.group)
    route.see(UPLINK_LINK, ", ".join(uplinks) or "none", holds=len(uplinks) == 1)
    if not uplinks:
        return False
    # of several, the one that leads to an RDMA device
    found = {uplink: _pnic_of(route.host, proxy, uplink) for uplink in uplinks}
    able = [u for u, nic in found.items() if nic and device_of(route.host, nic["key"])]
    route.uplink = next(iter(able or [u for u, nic in found.items() if nic]), uplinks[0])
    nic = route.nic = found[route.uplink]
    seen, help = nic["device"] if nic else "no NIC", f"assign the RDMA NIC to {route.uplink} on {route.host.name}"
    return route.see(NIC_LINK, f"{route.uplink} -> {seen}", holds=nic is not None, help=help)


def _to_device(route: FabricRoute, nic: PhysicalNic, protocol: str | None) -> None:
    device = route.device = device_of(route.host, nic["key"])
    seen = device["device"] if device else "no RDMA device"
    route.see(DEVICE_LINK, f"{nic['device']} -> {seen}", holds=device is not None)
    if device is None:
        return
    state, able = state_of(device), protocols(device)
    route.see(ACTIVE_LINK, f"{device['device']} is {state}", holds=state in STATES_UP)
    names = ", ".join(able) or "no RoCE"
    help = f"write protocol: {names}" if able else "use a RoCE-capable NIC"
    holds = protocol in able if protocol else bool(able)
    route.see(PROTOCOL_LINK, f"{device['device']} speaks {names}", holds=holds, help=help)


def _alone(route: FabricRoute, proxy: ProxySwitch, nic: PhysicalNic) -> None:
    names = {p.get("key"): p["device"] for p in route.host.get("config.network.pnic", ())}
    others = ", ".join(names.get(key, key) for key in proxy.get("pnic", ()) if key != nic["key"])
    seen = f"{proxy['dvsName']} on {route.host.name} also has {others}" if others else f"{nic['device']} alone"
    route.see(ALONE_LINK, seen, holds=not others)


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
    return order(group.get("config.defaultPortConfig"))[0]


def _pnic_of(host: Facts, proxy: ProxySwitch, uplink: str) -> PhysicalNic | None:
    device = nics(proxy).get(uplink)
    return next((p for p in host.get("config.network.pnic", ()) if p["device"] == device), None)
