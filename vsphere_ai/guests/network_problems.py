"""Problems of a guest's NICs: what a network file cannot say, or a Linux guest would refuse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface

from vsphere_ai.guests.netplan import MOST_TABLES, GuestNic
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.names.networks import Address, network, not_for_hosts
from vsphere_ai.model.state import Target

MOST_NAME = 15
"""Characters of an interface's name in Linux (IFNAMSIZ without its zero)."""
MTU = (68, 9000)
"""Least MTU of IPv4 (RFC 791), and the greatest of a vmxnet3 adapter."""
LEAST_MTU_6 = 1280
"""Least MTU of IPv6 (RFC 8200)."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_MAC = re.compile(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}")
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")

Interface = IPv4Interface | IPv6Interface


@dataclass(frozen=True)
class _Fault:
    rule: str
    words: str
    help: str = ""


def network_problems(target: Target, nics: Sequence[GuestNic]) -> Iterator[Problem]:
    """Yield the problems of these NICs of one guest, each with a rule id ``guest.*``."""
    for fault in _together(nics):
        yield Finding.problem(target, fault.rule, fault.words, fault.help)
    for nic in nics:
        for fault in _alone(nic):
            yield Finding.problem(target, fault.rule, f"NIC {nic.name}: {fault.words}", fault.help)


def _together(nics: Sequence[GuestNic]) -> Iterator[_Fault]:
    primary = [nic.name for nic in nics if nic.primary]
    if len(primary) != 1:
        words = f"{len(primary)} NICs are primary" + (f": {', '.join(primary)}" if primary else "")
        yield _Fault("guest.primary-nic", words, "mark exactly one NIC as primary: it has the default route")
    for field, values in (
        ("name", [nic.name for nic in nics]),
        ("MAC address", [nic.mac for nic in nics]),
        ("address", [text.partition("/")[0] for nic in nics for text in nic.addresses]),
    ):
        for value in (v for v, count in Counter(values).items() if count > 1):
            yield _Fault("guest.repeated", f"two NICs have the {field} {value}", "give each NIC its own")
    if len(nics) - len(primary) > MOST_TABLES:
        yield _Fault("guest.tables", f"more than {MOST_TABLES} NICs need a routing table of their own")


def _alone(nic: GuestNic) -> Iterator[_Fault]:
    if not _NAME.fullmatch(nic.name) or len(nic.name) > MOST_NAME:
        words = f"'{nic.name}' is not a valid interface name"
        yield _Fault("guest.nic-name", words, f"use at most {MOST_NAME} letters, digits, '_', '-' and '.'")
    if not _MAC.fullmatch(nic.mac):
        words = f"'{nic.mac}' is not the MAC address of one adapter in lower case"
        yield _Fault("guest.mac", words, "write six bytes such as 00:50:56:00:00:01")
    own = []
    for text in nic.addresses:
        reason, found = _own_address(text)
        if reason:
            yield _Fault("guest.address", f"{text} {reason}", "give the address of a host with its prefix length")
        own += [found] if found else []
    if nic.primary and not nic.addresses and not nic.dhcp:
        yield _Fault("guest.primary-nic", "the primary NIC has no address", "give it an address, or choose another NIC")
    yield from _mtu(nic, own)
    yield from _gateways(nic, own)
    yield from _routes(nic, own)
    yield from _dns(nic)


def _own_address(text: str) -> tuple[str, Interface | None]:
    try:
        found = ip_interface(text)
    except ValueError:
        return "is not an IP address", None
    if "/" not in text:
        return "has no prefix length", found
    ip, net = found.ip, found.network
    if ip.is_unspecified or ip.is_multicast or ip.is_loopback or ip.is_link_local:
        return "cannot be given to a NIC: it is unspecified, multicast, loopback or link-local", found
    if any(ip in end for end in not_for_hosts(net)):
        what = "the network's or the broadcast address" if net.version == 4 else "the routers' anycast address"
        return f"is {what} of {net}", found
    return "", found


def _mtu(nic: GuestNic, own: Sequence[Interface]) -> Iterator[_Fault]:
    if nic.mtu is None:
        return
    least, most = MTU
    if not least <= nic.mtu <= most:
        yield _Fault("guest.mtu", f"an MTU of {nic.mtu} is not possible", f"choose {least} to {most}")
    elif nic.mtu < LEAST_MTU_6 and any(each.version == 6 for each in own):
        words = f"an MTU of {nic.mtu} is too small for IPv6"
        yield _Fault("guest.mtu", words, f"choose at least {LEAST_MTU_6}, or give the NIC no IPv6 address")


def _gateways(nic: GuestNic, own: Sequence[Interface]) -> Iterator[_Fault]:
    for gateway in nic.gateways:
        yield from _gateway_fault(gateway, own)
    versions = Counter(found.version for text in nic.gateways if (found := _ip(text)))
    for version in (v for v, count in versions.items() if count > 1):
        yield _Fault("guest.gateway", f"it has two gateways for IPv{version}", "keep one of them")


def _gateway_fault(text: str, own: Sequence[Interface]) -> Iterator[_Fault]:
    found = _ip(text)
    if found is None:
        yield _Fault("guest.gateway", f"the gateway '{text}' is not an IP address")
    elif any(found == each.ip for each in own):
        yield _Fault("guest.gateway", f"the gateway {text} is its own address", "exclude the gateway from the pool")
    elif not any(found in each.network for each in own):
        words = f"the gateway {text} is in none of its networks"
        yield _Fault("guest.gateway", words, "choose a gateway in the subnet of one of its addresses")


def _routes(nic: GuestNic, own: Sequence[Interface]) -> Iterator[_Fault]:
    for route in nic.routes:
        yield from _gateway_fault(route.via, own)
        try:
            to = network(route.to)
        except ValueError as error:
            words, _, help = str(error).partition("\n")
            yield _Fault("guest.route", f"the destination {words}", help)
            continue
        via = _ip(route.via)
        if via is not None and via.version != to.version:
            yield _Fault("guest.route", f"the route to {route.to} has a gateway of the other family, {route.via}")
        if to.prefixlen == 0:
            yield _Fault("guest.route", f"{route.to} is the default route", "set the gateway instead")
    for to_text, count in Counter(route.to for route in nic.routes).items():
        if count > 1:
            yield _Fault("guest.route", f"there are two routes to {to_text}", "keep one of them")


def _dns(nic: GuestNic) -> Iterator[_Fault]:
    for text in nic.nameservers:
        if _ip(text) is None:
            yield _Fault(
                "guest.dns", f"the DNS server '{text}' is not an IP address", "write its address, not its name"
            )
    for text in nic.search:
        if not _DOMAIN.fullmatch(text):
            yield _Fault("guest.dns", f"'{text}' is not a domain name", "write a name such as example.com")


def _ip(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
