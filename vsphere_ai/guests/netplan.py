"""Network file of a guest: addresses, MTU and policy routing of each NIC, as netplan's version 2.

Source: netplan's reference (https://netplan.readthedocs.io/en/stable/netplan-yaml/). cloud-init hands it to netplan as
it is; its own schema knows neither `table` nor `routing-policy`, so `cloud-init schema` warns of them. Other renderers
drop them (`image.RENDERERS`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface, ip_network

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vsphere_ai.model.bounded import yaml_value

try:  # libyaml, where PyYAML was built with it
    from yaml import CSafeDumper as Dumper
except ImportError:
    from yaml import SafeDumper as Dumper  # type: ignore[assignment]

FIRST_TABLE = 101
"""Routing table of the first NIC that has one; below 100 distributions have their own, 253 to 255 are the kernel's."""
MOST_TABLES = 150
FIRST_PRIORITY = 2000
"""Priority of the first rule: before that of the main table, 32766."""
DEFAULTS: Mapping[int, str] = {4: "0.0.0.0/0", 6: "::/0"}
"""Default route by family. `to: default` is the same, but netplan before 0.103 may not know it (unverified)."""


@dataclass(frozen=True)
class NetplanRoute:
    """A network in CIDR notation and the gateway to it."""

    to: str
    via: str


@dataclass(frozen=True)
class GuestNic:
    """A NIC as the guest has it. It is known by its MAC address (lower case), and gets `name`.

    `addresses` have their prefix length: ``10.0.0.5/24``. The `primary` NIC has the default routes by its `gateways`;
    any other one has a routing table of its own for its gateways and `routes`, which what its addresses send uses.
    `nameservers` are addresses of DNS servers, `search` the domains that complete a short name. `mtu` is in bytes.
    """

    name: str
    mac: str
    addresses: tuple[str, ...] = ()
    mtu: int | None = None
    gateways: tuple[str, ...] = ()
    routes: tuple[NetplanRoute, ...] = ()
    primary: bool = False
    nameservers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    dhcp: bool = False
    """Its IPv4 address comes from DHCP; routes from there are only taken by the primary NIC."""


def tables(nics: Sequence[GuestNic]) -> list[int | None]:
    """Return the routing table of each NIC, in their order: from 101 up, None for the primary NIC's main table."""
    numbers = iter(range(FIRST_TABLE, FIRST_TABLE + MOST_TABLES))
    return [None if nic.primary else next(numbers) for nic in nics]


def network_config(nics: Sequence[GuestNic]) -> dict[str, object]:
    """Return the content of the network file, in the order of the NICs."""
    pairs = zip(nics, tables(nics), strict=True)
    return {"version": 2, "ethernets": {nic.name: _ethernet(nic, table) for nic, table in pairs}}


def network_text(nics: Sequence[GuestNic]) -> str:
    """Return the network file; `read_network` reads it back."""
    return file_text(network_config(nics))


def file_text(config: Mapping[str, object]) -> str:
    """Return a network file with a content such as `network_config` returns."""
    return yaml.dump({"network": config}, Dumper=Dumper, sort_keys=False, default_flow_style=False, width=120)


def summary(nics: Sequence[GuestNic], *, routed: bool = True) -> list[str]:
    """Return a line per NIC for a plan: name, MAC address, addresses, MTU, table, gateways, routes, DNS servers.

    `routed`: a NIC that is not primary has a routing table of its own.
    """
    own = tables(nics) if routed else [None] * len(nics)
    return ["  ".join(_words(nic, table)) for nic, table in zip(nics, own, strict=True)]


def read_network(text: str) -> tuple[GuestNic, ...]:
    """Return the NICs of a network file that `network_text` wrote; `ValueError` for any other one."""
    try:
        found = _Document.model_validate(yaml_value(text))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the file"
        raise ValueError(f"this is not a network file as this tool writes it: {where}: {fault['msg']}") from None
    except ValueError as error:
        raise ValueError(f"this is not YAML: {error}") from None
    return tuple(_nic(name, each) for name, each in found.network.ethernets.items())


def _words(nic: GuestNic, table: int | None) -> Iterator[str]:
    yield from (nic.name, nic.mac, ", ".join((*nic.addresses, *(["DHCP"] if nic.dhcp else []))) or "no address")
    if nic.mtu:
        yield f"MTU {nic.mtu}"
    if table is not None and nic.addresses:
        yield f"table {table}"
    if nic.gateways:
        yield f"{'default' if nic.primary else 'gateway'} via {', '.join(nic.gateways)}"
    yield from (f"{route.to} via {route.via}" for route in nic.routes)
    if nic.nameservers:
        yield f"DNS {', '.join(nic.nameservers)}"


def _ethernet(nic: GuestNic, table: int | None) -> dict[str, object]:
    made: dict[str, object] = {"match": {"macaddress": nic.mac}, "set-name": nic.name}
    made |= {"mtu": nic.mtu} if nic.mtu else {}
    made |= {"dhcp4": nic.dhcp, "dhcp6": False, "accept-ra": False}
    made |= {"dhcp4-overrides": {"use-routes": False}} if nic.dhcp and table is not None else {}
    made |= {"addresses": list(nic.addresses)} if nic.addresses else {}
    servers = {"addresses": list(nic.nameservers), "search": list(nic.search)}
    made |= {"nameservers": {k: v for k, v in servers.items() if v}} if nic.nameservers or nic.search else {}
    own = {} if table is None else {"table": table}
    routes: list[dict[str, object]] = []
    if table is not None:
        networks = dict.fromkeys(str(ip_interface(text).network) for text in nic.addresses)
        routes += [{"to": network, "scope": "link", **own} for network in networks]
    routes += [{"to": DEFAULTS[ip_interface(g).version], "via": g, **own} for g in nic.gateways]
    routes += [{"to": route.to, "via": route.via, **own} for route in nic.routes]
    made |= {"routes": routes} if routes else {}
    if table is not None and nic.addresses:
        own_addresses = (ip_interface(text) for text in nic.addresses)
        made["routing-policy"] = [
            {"from": f"{each.ip}/{each.max_prefixlen}", "table": table, "priority": FIRST_PRIORITY + table}
            for each in own_addresses
        ]
    return made


class _NetplanPart(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class _Match(_NetplanPart):
    macaddress: str


class _Route(_NetplanPart):
    to: str
    via: str | None = None
    scope: str | None = None
    table: int | None = None


class _Rule(_NetplanPart):
    source: str = Field(alias="from")
    table: int
    priority: int


class _Nameservers(_NetplanPart):
    addresses: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


class _Overrides(_NetplanPart):
    routes: bool = Field(alias="use-routes")


class _Ethernet(_NetplanPart):
    match: _Match
    set_name: str = Field(alias="set-name")
    mtu: int | None = None
    dhcp4: bool
    dhcp6: bool
    overrides: _Overrides | None = Field(default=None, alias="dhcp4-overrides")
    accept_ra: bool = Field(alias="accept-ra")
    addresses: tuple[str, ...] = ()
    nameservers: _Nameservers = _Nameservers.model_construct()
    routes: tuple[_Route, ...] = ()
    policy: tuple[_Rule, ...] = Field(default=(), alias="routing-policy")


class _Network(_NetplanPart):
    version: int
    ethernets: dict[str, _Ethernet]


class _Document(_NetplanPart):
    network: _Network


def _nic(name: str, each: _Ethernet) -> GuestNic:
    own = [ip_interface(text) for text in each.addresses]
    if each.policy and {rule.source for rule in each.policy} != {f"{a.ip}/{a.max_prefixlen}" for a in own}:
        raise ValueError(f"{name}: its rules are not those of its addresses")
    used = {rule.table for rule in each.policy} | {route.table for route in each.routes}
    if len(used) > 1:
        raise ValueError(f"{name}: its rules and routes are of different tables")
    linked = {str(ip_network(route.to)) for route in each.routes if not route.via}
    if linked - {str(a.network) for a in own}:
        raise ValueError(f"{name}: it has a route without a gateway to a network that is not its own")
    defaults = tuple(DEFAULTS.values())
    return GuestNic(
        name=each.set_name,
        mac=each.match.macaddress,
        addresses=each.addresses,
        mtu=each.mtu,
        gateways=tuple(r.via for r in each.routes if r.to in defaults and r.via),
        routes=tuple(NetplanRoute(r.to, r.via) for r in each.routes if r.to not in defaults and r.via),
        primary=bool(own or each.dhcp4) and used in (set(), {None}) and each.overrides is None,
        nameservers=each.nameservers.addresses,
        search=each.nameservers.search,
        dhcp=each.dhcp4,
    )
