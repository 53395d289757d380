"""Proves, link by link, that a distributed port group carries RDMA on a host.

The links are keys, not device names: rdmaDevice.backing.pairedUplink -> pnic.key -> proxySwitch.pnic, and the port
group's active uplink name -> proxySwitch.uplinkPort -> pnicSpec.uplinkPortKey -> pnic.
Source: vSphere Networking 7.0, "Remote Direct Memory Access for Virtual Machines"; vSphere Web Services API reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vsphere_ai.facts import Estate, Facts

HOST_PATHS = ("config.network.rdmaDevice", "config.network.pnic", "config.network.proxySwitch")
PORT_GROUP_PATHS = ("key", "config.uplink", "config.distributedVirtualSwitch", "config.defaultPortConfig")
SWITCH_PATHS = ("uuid", "config.maxMtu")
PORT_GROUP = "DistributedVirtualPortgroup"
SWITCHES = ("VmwareDistributedVirtualSwitch", "DistributedVirtualSwitch")
STATES_UP = ("active", "activeDefer")


@dataclass(frozen=True)
class Link:
    """One link of the chain: what it joins, whether it holds, and what was seen there."""

    name: str
    holds: bool
    seen: str
    help: str = ""


def port_groups(estate: Estate, name: str) -> tuple[Facts, ...]:
    """Return the distributed port groups of that name (names are unique only within a folder)."""
    return tuple(f for f in estate.of_type(PORT_GROUP) if f.name == name)


def switch_of(estate: Estate, group: Facts) -> Facts | None:
    """Return the distributed switch a port group belongs to."""
    return estate.get(group.get("config.distributedVirtualSwitch"))


def prove(estate: Estate, host: str, group: Facts, protocol: str | None = None) -> tuple[Link, ...]:
    """Follow the chain on one host; it ends with the first link that does not hold. RDMA-capable = all hold."""
    links: list[Link] = []
    for link in _follow(estate, estate[host], group, protocol):
        links.append(link)
        if not link.holds:
            break
    return tuple(links)


def broken(links: tuple[Link, ...]) -> Link | None:
    """Return the link that does not hold, None when the chain is whole."""
    return next((link for link in links if not link.holds), None)


def _follow(estate: Estate, host: Facts, group: Facts, protocol: str | None) -> Iterator[Link]:
    yield Link(
        "port group",
        not group.get("config.uplink"),
        f"{group.name}" + (" is an uplink port group" if group.get("config.uplink") else ""),
        "choose a port group for virtual machines",
    )
    switch = switch_of(estate, group)
    yield Link(
        "distributed switch",
        switch is not None,
        switch.name if switch else f"the switch of {group.name} cannot be read",
        "grant System.Read on the distributed switch",
    )
    if switch is None:
        return
    proxy = next((p for p in host.get("config.network.proxySwitch", ()) if p["dvsUuid"] == switch.get("uuid")), None)
    yield Link(
        "host is a member of the switch",
        proxy is not None,
        f"{host.name} in {switch.name}: " + ("yes" if proxy else "no"),
        f"add {host.name} to {switch.name} with its RDMA NIC as uplink",
    )
    if proxy is None:
        return
    uplinks = _active_uplinks(group)
    yield Link(
        "active uplink of the port group",
        len(uplinks) == 1,
        f"{', '.join(uplinks) or 'none'}",
        "PVRDMA does not team: name exactly one active uplink in the port group's teaming policy",
    )
    if len(uplinks) != 1:
        return
    pnic = _pnic_of(host, proxy, uplinks[0])
    yield Link(
        "physical NIC of that uplink",
        pnic is not None,
        f"{uplinks[0]} -> " + (pnic["device"] if pnic else "no NIC"),
        f"assign the RDMA NIC to {uplinks[0]} on {host.name}",
    )
    if pnic is None:
        return
    yield from _rdma(host, proxy, pnic, protocol)


def _rdma(host: Facts, proxy: Mapping[str, Any], pnic: Mapping[str, Any], protocol: str | None) -> Iterator[Link]:
    device = next(
        (
            d
            for d in host.get("config.network.rdmaDevice", ())
            if (d.get("backing") or {}).get("pairedUplink") == pnic["key"]
        ),
        None,
    )
    yield Link(
        "RDMA device of that NIC",
        device is not None,
        f"{pnic['device']} -> " + (device["device"] if device else "no RDMA device"),
        "use a RoCE-capable NIC whose RDMA driver is loaded (esxcli rdma device list)",
    )
    if device is None:
        return
    state = device["connectionInfo"]["state"]
    yield Link(
        "RDMA device is active",
        state in STATES_UP,
        f"{device['device']} is {state}",
        "check the cable, the switch port and the NIC's link state",
    )
    can = device["capability"]
    able = {"rocev1": can.get("roceV1Capable"), "rocev2": can.get("roceV2Capable")}
    names = ", ".join(k for k, v in able.items() if v) or "no RoCE"
    yield Link(
        "RoCE protocol",
        bool(able[protocol] if protocol else any(able.values())),
        f"{device['device']} speaks {names}",
        f"write protocol: {names}" if any(able.values()) else "use a RoCE-capable NIC",
    )
    others = [n for n in proxy.get("pnic", ()) if n != pnic["key"]]
    yield Link(
        "RDMA NIC is the switch's only uplink",
        not others,
        f"{proxy['dvsName']} on {host.name} also has " + ", ".join(_device(host, n) for n in others)
        if others
        else f"{pnic['device']} alone",
        "PVRDMA needs the HCA as the only uplink of its switch: move the other NICs to another switch",
    )


def _active_uplinks(group: Facts) -> tuple[str, ...]:
    config = group.get("config.defaultPortConfig") or {}
    order = (config.get("uplinkTeamingPolicy") or {}).get("uplinkPortOrder") or {}
    return tuple(order.get("activeUplinkPort", ()))


def _pnic_of(host: Facts, proxy: Mapping[str, Any], uplink: str) -> Mapping[str, Any] | None:
    ports = {kv["key"] for kv in proxy.get("uplinkPort", ()) if kv["value"] == uplink}
    backing = (proxy.get("spec") or {}).get("backing") or {}
    device = next((s["pnicDevice"] for s in backing.get("pnicSpec", ()) if s.get("uplinkPortKey") in ports), None)
    return next((p for p in host.get("config.network.pnic", ()) if p["device"] == device), None)


def _device(host: Facts, key: str) -> str:
    return next((p["device"] for p in host.get("config.network.pnic", ()) if p.get("key") == key), key)
