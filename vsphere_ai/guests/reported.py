"""Addresses that VMware Tools report of a guest (``guest.net``), by MAC address, beside those that were planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from vsphere_ai.guests.cloud_init import missing_addresses
from vsphere_ai.model.plain import Plain, objects

SURE = (None, "preferred")
"""States of an address (IpAddressStatus) that is in use; one without a state is as well."""
Interface = IPv4Interface | IPv6Interface
Wanted = Sequence[tuple[str, Sequence[str]]]
"""MAC addresses with the addresses that are planned; none with DHCP."""


def reported(nets: Plain, mac: str, states: Sequence[str | None] = SURE) -> tuple[Interface, ...]:
    """Return the addresses that a guest reports for a MAC address; none of a link, none in conflict."""
    mine = (net for net in objects(nets) if str(net.get("macAddress", "")).lower() == mac)
    configs = (config for net in mine if isinstance(config := net.get("ipConfig"), Mapping))
    shown = (each for config in configs for each in objects(config.get("ipAddress")) if each.get("state") in states)
    found = (_interface(each) for each in shown)
    return tuple(each for each in found if each is not None and not each.ip.is_link_local)


def what_is_missing(nics: Wanted, nets: Plain) -> str:
    """Return which planned address a guest does not report, in words; empty where it reports all of them."""
    found = {mac: [str(each.ip) for each in reported(nets, mac, (*SURE, "unknown"))] for mac, _ in nics}
    for mac, address in missing_addresses(nics, found):
        return f"{mac} does not report {address}"
    return next((f"{mac} has no address yet" for mac, wanted in nics if not (wanted or found[mac])), "")


def _interface(shown: Mapping[str, Plain]) -> Interface | None:
    length = shown.get("prefixLength")
    try:
        return ip_interface(str(shown.get("ipAddress")) if length is None else f"{shown.get('ipAddress')}/{length}")
    except ValueError:
        return None
