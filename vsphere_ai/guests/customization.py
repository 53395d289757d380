"""Customization specification (LinuxPrep) of a guest whose image has no cloud-init with guestinfo, as plain data.

LinuxPrep gives a host name, DNS, and per NIC a static address and gateways; no MTU, no routes, no routing rules, no
users. Source: vSphere Web Services API, CustomizationSpec and CustomizationAdapterMapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from vsphere_ai.guests.cloud_init import METADATA, USERDATA, Guest, identity_problems
from vsphere_ai.guests.netplan import GuestNic
from vsphere_ai.guests.network_problems import network_problems
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.plain import Plain, PlainObject
from vsphere_ai.model.state import Target

ANY_ORDER = (8, 0)
"""First API version that maps NICs by MAC address in any order; 7.0 wants ascending PCI slots (KB 87648)."""
NO_DOMAIN = "localdomain"
"""The API wants a domain, also where there is none."""
FAILED = "guest.customization-failed"
HELP = "use an image with cloud-init 21.3 or later and netplan"


@dataclass(frozen=True)
class Card:
    """A network adapter that the VM has when it is customized: MAC address, device key, and PCI slot where known."""

    mac: str
    key: int
    slot: int | None = None


def linux_prep(guest: Guest, cards: Sequence[Card]) -> PlainObject:
    """Return the CustomizationSpec: one mapping per adapter of the VM, by MAC address, in the order of PCI slots.

    `ValueError` where `customization_problems` has something against it: another number of mappings than adapters ends
    in NicSettingMismatch.
    """
    by_mac = {nic.mac: nic for nic in guest.nics}
    if set(by_mac) != {card.mac.lower() for card in cards} or len(cards) != len(guest.nics):
        raise ValueError("the NICs of the guest are not the adapters of the VM")
    domain = next((name for nic in guest.nics for name in nic.search), NO_DOMAIN)
    dns = dict.fromkeys(text for nic in guest.nics for text in nic.nameservers)
    suffixes = dict.fromkeys(text for nic in guest.nics for text in nic.search)
    return {
        "_typeName": "CustomizationSpec",
        "identity": {
            "_typeName": "CustomizationLinuxPrep",
            "hostName": {"_typeName": "CustomizationFixedName", "name": guest.hostname},
            "domain": domain,
        },
        "globalIPSettings": {
            "_typeName": "CustomizationGlobalIPSettings",
            "dnsServerList": tuple(dns),
            "dnsSuffixList": tuple(suffixes),
        },
        "nicSettingMap": tuple(_mapping(by_mac[card.mac.lower()]) for card in _in_order(cards)),
    }


def customization_problems(
    target: Target, guest: Guest, cards: Sequence[Card], settings: Mapping[str, str], api: Sequence[int]
) -> Iterator[Problem]:
    """Yield why a guest cannot be customized so, each with a rule id ``customization.*``.

    `settings` are the VM's advanced settings with those it is given; `api` is the version of the vCenter's API.
    """
    basic = [*identity_problems(target, guest), *network_problems(target, guest.nics)]
    yield from basic
    nics = () if any(problem.rule == "guest.address" for problem in basic) else _of_nics(guest)
    for rule, words, help in (*_of_vm(guest, cards, settings, api), *nics):
        yield Finding.problem(target, f"customization.{rule}", words, help)


def _of_vm(
    guest: Guest, cards: Sequence[Card], settings: Mapping[str, str], api: Sequence[int]
) -> Iterator[tuple[str, str, str]]:
    planned, there = {nic.mac for nic in guest.nics}, {card.mac.lower() for card in cards}
    for mac in sorted(there - planned):
        help = "describe it as a NIC, or take the template's adapters out: each needs its settings"
        yield "nics", f"the adapter {mac} of the VM has no settings", help
    for mac in sorted(planned - there):
        yield "nics", f"the NIC {mac} is not an adapter of the VM", "add the adapter, or leave the NIC out"
    if tuple(api) < ANY_ORDER and len(cards) > 1 and any(card.slot is None for card in cards):
        words = "vSphere 7.0 maps addresses in the order of PCI slots, and they are not known yet"
        yield "slots", words, "give each adapter a PCI slot in the clone, or read the slots after it (KB 87648)"
    found = [name for name in (METADATA, USERDATA) if settings.get(name)]
    if found:
        words = f"the VM has {found[0]}: cloud-init and the customization would run beside each other"
        yield "guestinfo", words, "use one of the two (github.com/vmware/open-vm-tools issue 684)"
    if guest.users:
        yield "users", "LinuxPrep cannot give users or SSH keys", HELP


def _of_nics(guest: Guest) -> Iterator[tuple[str, str, str]]:
    for nic in guest.nics:
        count = sum(each.version == 4 for each in _interfaces(nic))
        if count != (0 if nic.dhcp else 1):
            words = f"NIC {nic.name}: LinuxPrep gives a NIC exactly one IPv4 address, and it has {count}"
            yield "ipv4", words, HELP
        if not nic.primary and nic.gateways:
            words = f"NIC {nic.name}: LinuxPrep has no routing tables; a second default route would take replies away"
            yield "policy-routing", words, f"leave out its gateway, or {HELP}"
        if nic.routes:
            yield "routes", f"NIC {nic.name}: LinuxPrep cannot give routes", f"leave them out, or {HELP}"
        if nic.mtu not in (None, 1500):
            yield "mtu", f"NIC {nic.name}: LinuxPrep cannot give an MTU of {nic.mtu}", f"leave it out, or {HELP}"


def _in_order(cards: Sequence[Card]) -> list[Card]:
    placed = sorted((card.slot, card.key, card) for card in cards if card.slot is not None)
    return [card for *_, card in placed] + sorted((c for c in cards if c.slot is None), key=lambda card: card.key)


def _interfaces(nic: GuestNic) -> list[IPv4Interface | IPv6Interface]:
    return [ip_interface(text) for text in nic.addresses]


def _mapping(nic: GuestNic) -> PlainObject:
    own = _interfaces(nic)
    four = next((each for each in own if each.version == 4), None)
    gateways = {version: [g for g in nic.gateways if (":" in g) == (version == 6)] for version in (4, 6)}
    adapter: dict[str, Plain] = {"_typeName": "CustomizationIPSettings"}
    if four is None:
        adapter["ip"] = {"_typeName": "CustomizationDhcpIpGenerator"}
    else:
        adapter["ip"] = {"_typeName": "CustomizationFixedIp", "ipAddress": str(four.ip)}
        adapter["subnetMask"] = str(four.netmask)
    if nic.primary and four is not None:
        adapter["gateway"] = tuple(gateways[4])
    six = [each for each in own if each.version == 6]
    if six:
        fixed: tuple[Plain, ...] = tuple(
            {"_typeName": "CustomizationFixedIpV6", "ipAddress": str(e.ip), "subnetMask": e.network.prefixlen}
            for e in six
        )
        spec: dict[str, Plain] = {"_typeName": "CustomizationIPSettingsIpV6AddressSpec", "ip": fixed}
        adapter["ipV6Spec"] = {**spec, "gateway": tuple(gateways[6])} if nic.primary else spec
    return {"_typeName": "CustomizationAdapterMapping", "macAddress": nic.mac, "adapter": adapter}
