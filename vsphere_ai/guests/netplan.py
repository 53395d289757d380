"""Network file of a guest: addresses, MTU and policy routing of each NIC, as netplan's version 2.

Source: netplan's reference (https://netplan.readthedocs.io/en/stable/netplan-yaml/). cloud-init hands it to netplan as
it is; its own schema knows neither `table` nor `routing-policy`, so `cloud-init schema` warns of them. Other renderers
(sysconfig, NetworkManager, eni) drop them: github.com/canonical/cloud-init issue 4862.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

FIRST_TABLE = 101
"""Routing table of the first NIC that has one; below 100 distributions have their own, 253 to 255 are the kernel's."""
MOST_TABLES = 150
FIRST_PRIORITY = 2000
"""Priority of the first rule: before that of the main table, 32766."""
MOST_NAME = 15
"""Characters of an interface's name in Linux (IFNAMSIZ without its zero)."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


@dataclass(frozen=True)
class Route:
    """A network in CIDR notation and the gateway to it."""

    to: str
    via: str


@dataclass(frozen=True)
class GuestNic:
    """A NIC as the guest has it. It is known by its MAC address (lower case), and gets `name`.

    `addresses` have their prefix length: ``10.0.0.5/24``. The `primary` NIC has the default routes by its `gateways`;
    any other one has a routing table of its own for its gateways and `routes`, which what its addresses send uses.
    """

    name: str
    mac: str
    addresses: tuple[str, ...] = ()
    mtu: int | None = None
    gateways: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    primary: bool = False


def faults(nics: Sequence[GuestNic]) -> Iterator[str]:
    """Yield what a network file of these NICs cannot say, a sentence each."""
    if len([nic for nic in nics if nic.primary]) != 1:
        yield "one NIC, and only one, has to be the primary one: it has the default route"
    for field, values in (("name", [n.name for n in nics]), ("MAC address", [n.mac for n in nics])):
        for value in sorted({v for v in values if values.count(v) > 1}):
            yield f"two NICs have the {field} {value}"
    for nic in nics:
        if not _NAME.fullmatch(nic.name) or len(nic.name) > MOST_NAME:
            yield f"'{nic.name}' is no name of an interface: at most {MOST_NAME} letters, digits, '_', '-' and '.'"
        if not _MAC.fullmatch(nic.mac):
            yield f"{nic.name}: '{nic.mac}' is no MAC address in lower case"
        yield from (f"{nic.name}: {words}" for words in _unreachable(nic))
    if len([nic for nic in nics if not nic.primary]) > MOST_TABLES:
        yield f"more than {MOST_TABLES} NICs have a routing table of their own"


def network_config(nics: Sequence[GuestNic]) -> dict[str, object]:
    """Return the content of the network file, in the order of the NICs."""
    tables = iter(range(FIRST_TABLE, FIRST_TABLE + MOST_TABLES))
    return {
        "version": 2,
        "ethernets": {nic.name: _ethernet(nic, None if nic.primary else next(tables)) for nic in nics},
    }


def network_text(nics: Sequence[GuestNic]) -> str:
    """Return the network file; `read_network` reads it back."""
    return yaml.safe_dump({"network": network_config(nics)}, sort_keys=False, default_flow_style=False, width=120)


def summary(nics: Sequence[GuestNic]) -> list[str]:
    """Return a line per NIC for a plan: name, addresses, MTU, and which routes it has."""
    tables = iter(range(FIRST_TABLE, FIRST_TABLE + MOST_TABLES))
    lines = []
    for nic in nics:
        table = None if nic.primary else next(tables)
        parts = [nic.name, nic.mac, ", ".join(nic.addresses) or "no address", f"MTU {nic.mtu}" if nic.mtu else ""]
        parts.append(f"default via {', '.join(nic.gateways)}" if nic.primary and nic.gateways else "")
        parts.append(f"table {table}" if table is not None and nic.addresses else "")
        lines.append("  ".join(part for part in parts if part))
    return lines


def read_network(text: str) -> tuple[GuestNic, ...]:
    """Return the NICs of a network file that `network_text` wrote; `ValueError` for any other one."""
    try:
        found = _Document.model_validate(yaml.safe_load(text))
    except (ValidationError, yaml.YAMLError) as error:
        raise ValueError(f"this is not a network file of netplan: {error}") from None
    return tuple(_nic(name, each) for name, each in found.network.ethernets.items())


def _unreachable(nic: GuestNic) -> Iterator[str]:
    networks = [ip_interface(text).network for text in nic.addresses]
    for gateway in (*nic.gateways, *(route.via for route in nic.routes)):
        if not any(ip_interface(gateway).ip in each for each in networks):
            yield f"its gateway {gateway} is in none of its networks"
    for version in (4, 6):
        if len([g for g in nic.gateways if ip_interface(g).version == version]) > 1:
            yield f"it has two gateways for IPv{version}"


def _ethernet(nic: GuestNic, table: int | None) -> dict[str, object]:
    made: dict[str, object] = {"match": {"macaddress": nic.mac}, "set-name": nic.name}
    made |= {"mtu": nic.mtu} if nic.mtu else {}
    made |= {"dhcp4": False, "dhcp6": False, "accept-ra": False}
    made |= {"addresses": list(nic.addresses)} if nic.addresses else {}
    own = {} if table is None else {"table": table}
    routes: list[dict[str, object]] = []
    if table is not None:
        networks = dict.fromkeys(str(ip_interface(text).network) for text in nic.addresses)
        routes += [{"to": network, "scope": "link", **own} for network in networks]
    routes += [{"to": "0.0.0.0/0" if ip_interface(g).version == 4 else "::/0", "via": g, **own} for g in nic.gateways]
    routes += [{"to": route.to, "via": route.via, **own} for route in nic.routes]
    made |= {"routes": routes} if routes else {}
    if table is not None and nic.addresses:
        own_addresses = (ip_interface(text) for text in nic.addresses)
        made["routing-policy"] = [
            {"from": f"{each.ip}/{each.max_prefixlen}", "table": table, "priority": FIRST_PRIORITY + table}
            for each in own_addresses
        ]
    return made


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Match(_Part):
    macaddress: str


class _Route(_Part):
    to: str
    via: str | None = None
    scope: str | None = None
    table: int | None = None


class _Rule(_Part):
    source: str = Field(alias="from")
    table: int
    priority: int


class _Ethernet(_Part):
    match: _Match
    set_name: str = Field(alias="set-name")
    mtu: int | None = None
    dhcp4: bool
    dhcp6: bool
    accept_ra: bool = Field(alias="accept-ra")
    addresses: tuple[str, ...] = ()
    routes: tuple[_Route, ...] = ()
    policy: tuple[_Rule, ...] = Field(default=(), alias="routing-policy")


class _Network(_Part):
    version: int
    ethernets: dict[str, _Ethernet]


class _Document(_Part):
    network: _Network


def _nic(name: str, each: _Ethernet) -> GuestNic:
    sources = {f"{a.ip}/{a.max_prefixlen}" for a in map(ip_interface, each.addresses)}
    if each.policy and {rule.source for rule in each.policy} != sources:
        raise ValueError(f"{name}: its rules are not of its addresses")
    tables = {rule.table for rule in each.policy} | {route.table for route in each.routes}
    if len(tables) > 1:
        raise ValueError(f"{name}: its rules and routes are of different tables")
    defaults = ("0.0.0.0/0", "::/0")
    return GuestNic(
        name=each.set_name,
        mac=each.match.macaddress,
        addresses=each.addresses,
        mtu=each.mtu,
        gateways=tuple(r.via for r in each.routes if r.to in defaults and r.via),
        routes=tuple(Route(r.to, r.via) for r in each.routes if r.to not in defaults and r.via),
        primary=tables in (set(), {None}) and not each.policy,
    )
