"""Network of a guest as its VM's advanced settings and VMware Tools show it: names of interfaces, addresses, gateways.

Source: cloud-init's DataSourceVMware (doc/rtd/reference/datasources/vmware.rst) and netplan's version 2. A guest can
write its own ``guestinfo.*`` settings: what they hold is read with bounds, and a part that cannot be read is left out.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface

from vsphere_ai.errors import InputError
from vsphere_ai.language.document import Faults, parse_stream
from vsphere_ai.model.networks import Address
from vsphere_ai.model.plain import Plain, PlainObject, objects

METADATA = "guestinfo.metadata"
MOST_BYTES, MOST_VALUES = 1 << 20, 20_000
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
    metadata = _document(settings.get(METADATA, ""), settings.get(f"{METADATA}.encoding", ""))
    config = metadata.get("network")
    if isinstance(config, str):
        config = _document(config, str(metadata.get("network.encoding") or ""))
    found = config.get("ethernets") if isinstance(config, Mapping) else None
    ethernets = [_ethernet(each) for each in found.values()] if isinstance(found, Mapping) else []
    hostname = metadata.get("local-hostname")
    known = {each.mac: each for each in ethernets if each is not None}
    return GuestFile(hostname if isinstance(hostname, str) else "", known)


def reported(nets: Sequence[PlainObject], mac: str) -> tuple[Interface, ...]:
    """Return the addresses that a guest reports (``guest.net``) for a MAC address; none of a link, none in conflict."""
    mine = (net for net in nets if str(net.get("macAddress", "")).lower() == mac)
    configs = (config for net in mine if isinstance(config := net.get("ipConfig"), Mapping))
    shown = (each for config in configs for each in objects(config.get("ipAddress")))
    found = (
        _interface(f"{each.get('ipAddress')}/{each.get('prefixLength')}")
        for each in shown
        if each.get("state") in (None, "preferred")
    )
    return tuple(each for each in found if each is not None and not each.ip.is_link_local)


def _document(value: str, encoding: str) -> Mapping[str, Plain]:
    """Return the mapping that a setting holds; empty where a guest could not read it."""
    try:
        raw = base64.b64decode(value, validate=True) if encoding else value.encode()
        if encoding in ("gzip+base64", "gz+b64"):
            raw = zlib.decompressobj(wbits=31).decompress(raw, MOST_BYTES)
        found = _parsed(raw[:MOST_BYTES].decode())
    except (ValueError, zlib.error, InputError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _parsed(text: str) -> object:
    """Return the value of a text in JSON, or in YAML: not every escape of JSON is one of YAML."""
    try:
        return json.loads(text)
    except ValueError:
        (document,) = parse_stream(text, METADATA, Faults(), MOST_VALUES)
        return document.data


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
