"""Network of a guest as its VM's advanced settings show it: names of interfaces, addresses, gateways.

Source: cloud-init's DataSourceVMware (doc/rtd/reference/datasources/vmware.rst) and netplan's version 2. A guest can
write its own ``guestinfo.*`` settings: what they hold is read with bounds, and a part that cannot be read is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface

from vsphere_ai.guests.cloud_init import given_metadata, given_network
from vsphere_ai.model.names.networks import Address
from vsphere_ai.model.plain import Plain, PlainObject, objects

INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")
"""A name of an interface: at most 15 characters in Linux (IFNAMSIZ without its zero)."""
Interface = IPv4Interface | IPv6Interface


@dataclass(frozen=True)
class Ethernet:
    """A NIC of a network file, known by its MAC address in lower case; what is not said is empty or None."""

    mac: str
    name: str = ""
    addresses: tuple[Interface, ...] = ()
    gateways: tuple[Address, ...] = ()
    mtu: int | None = None


@dataclass(frozen=True)
class GuestFile:
    """What cloud-init is given: the host name, and the NICs by MAC address."""

    hostname: str = ""
    ethernets: Mapping[str, Ethernet] | None = None


def guest_file(options: Sequence[PlainObject]) -> GuestFile:
    """Return what a VM's advanced settings (``config.extraConfig``) give to cloud-init; empty where there is none."""
    settings = {str(option.get("key")): str(option.get("value")) for option in options}
    metadata: Mapping[str, Plain] = {}
    config: Mapping[str, Plain] | None = None
    with suppress(ValueError):
        metadata = given_metadata(settings)
        config = given_network(settings)
    found = config.get("ethernets") if config else None
    ethernets = [_ethernet(each) for each in found.values()] if isinstance(found, Mapping) else []
    hostname = metadata.get("local-hostname")
    known = {each.mac: each for each in ethernets if each is not None}
    return GuestFile(hostname if isinstance(hostname, str) else "", known)


def _ethernet(each: Plain) -> Ethernet | None:
    match = each.get("match") if isinstance(each, Mapping) else None
    if not isinstance(each, Mapping) or not isinstance(match, Mapping):
        return None
    name, mtu = each.get("set-name"), each.get("mtu")
    return Ethernet(
        mac=str(match.get("macaddress", "")).lower(),
        name=name if isinstance(name, str) and INTERFACE.fullmatch(name) else "",
        addresses=tuple(i for text in _texts(each.get("addresses")) if (i := _interface(text)) is not None),
        gateways=tuple(dict.fromkeys(_gateways(each.get("routes")))),
        mtu=mtu if isinstance(mtu, int) and not isinstance(mtu, bool) else None,
    )


def _gateways(routes: Plain) -> Iterator[Address]:
    for route in objects(routes):
        try:
            yield ip_address(str(route.get("via")))
        except ValueError:
            continue


def _texts(values: Plain) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list | tuple) else []


def _interface(text: str) -> Interface | None:
    try:
        return ip_interface(text)
    except ValueError:
        return None
