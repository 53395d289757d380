"""Address pools of an inventory: a subnet of one family, and which of its addresses may be given to VMs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from ipaddress import ip_address, ip_network
from itertools import combinations
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from vsphere_ai.model.names.networks import (
    AddressRange,
    Network,
    address,
    address_range,
    addresses,
    merged,
    network,
    not_for_hosts,
    range_of,
    without,
)
from vsphere_ai.security.secret_ref import require_reference

AUTO, DHCP = "auto", "dhcp"
"""Stand in a playbook in place of names of pools: those that fit; none."""


def _checked_subnet(text: str) -> str:
    network(text)
    return text


def _checked_address(text: str) -> str:
    address(text)
    return text


def _checked_range(text: str) -> str:
    address_range(text)
    return text


def _checked_addresses(text: str) -> str:
    addresses(text)
    return text


Subnet = Annotated[str, AfterValidator(_checked_subnet)]
IpAddress = Annotated[str, AfterValidator(_checked_address)]
IpRange = Annotated[str, AfterValidator(_checked_range)]
Addresses = Annotated[str, AfterValidator(_checked_addresses)]


class PoolPart(BaseModel):
    """A part of the inventory's `pools:`."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)


class PoolRoute(PoolPart):
    """A route of the NICs with an address of the pool: destination in CIDR notation, and its gateway in the subnet.

    Without `via` it goes by the gateway of the pool, or of the VM's own block.
    """

    to: Subnet
    via: IpAddress | None = None


def _checked_reference(text: str) -> str:
    return require_reference(text, "secret")


class Backend(PoolPart):
    """A program that gives the addresses of a pool: ``exec`` is it and its arguments, run beside the inventory.

    `env`: environment variables with secrets that it gets, as references; `timeout` in seconds.
    """

    exec: Annotated[tuple[str, ...], Field(min_length=1)]
    env: dict[str, Annotated[str, AfterValidator(_checked_reference)]] = {}
    timeout: Annotated[float, Field(gt=0, le=600)] = 30.0


class Affinity(PoolPart):
    """For which VMs a pool is: names or globs of VMs, sets and groups; of hosts, folders, port groups; empty: any."""

    vms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    portgroups: tuple[str, ...] = ()

    def matches(self, place: AffinityPlace) -> tuple[bool, bool, bool, bool] | None:
        """Return in which of the four a place is named, in the order of precedence; None where it is excluded."""
        given = (place.vms, place.hosts, place.folders, place.portgroups)
        found = []
        for patterns, names in zip((self.vms, self.hosts, self.folders, self.portgroups), given, strict=True):
            named = any(fnmatchcase(name, pattern) for name in names if name for pattern in patterns)
            if patterns and not named:
                return None
            found.append(named)
        vms, hosts, folders, portgroups = found
        return vms, hosts, folders, portgroups

    def has_network(self, network: str) -> bool:
        """Return whether a network may be one of `portgroups`; of some, only the name without the switch is known."""
        names = {network, network.rpartition("/")[2]}
        bare = {pattern.rpartition("/")[2] for pattern in self.portgroups} if "/" not in network else set()
        return bool(network) and any(fnmatchcase(n, pattern) for n in names for pattern in (*self.portgroups, *bare))


@dataclass(frozen=True)
class AffinityPlace:
    """Where a VM is or will be: its name and those of its set and groups; its host and groups of it; its folders.

    `folders` are those that it is in, inner ones first, and then its path in the tree of VMs, ``ai/training``.
    `portgroups` is what its port group may be called: its name first, then ``SWITCH/NAME`` and inventory paths.
    """

    vms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    portgroups: tuple[str, ...] = ()


class AddressPool(PoolPart):
    """Addresses of one family in one subnet.

    `ranges` are what may be given to VMs, without `exclude` and the gateway; none: all of the subnet. What no host may
    have is never given: in IPv4 the first and last address of the subnet, in IPv6 the first, which is the routers'
    anycast. `per_node`: a prefix length; each VM gets a whole block of that size, for pods on it.
    """

    subnet: Subnet
    ranges: tuple[IpRange, ...] = ()
    exclude: tuple[Addresses, ...] = ()
    gateway: IpAddress | None = None
    routes: tuple[PoolRoute, ...] = ()
    per_node: Annotated[int, Field(ge=1, le=128)] | None = None
    node_gateway: Annotated[int, Field(ge=0)] | None = None
    """With `per_node`: each block is a subnet of its own, and this one of its addresses, from 0, is its gateway."""
    affinity: Affinity = Affinity.model_construct()
    backend: Backend | None = None
    """Who gives the addresses; without it they are computed, and the ledger alone knows them."""
    default: bool = False
    disabled: bool = False
    domain: str = ""
    """Networks that do not reach each other may repeat addresses: pools of one domain may not."""
    quarantine: Annotated[int, Field(ge=0)] = 600
    """Seconds for which a released address is given to no other VM: neighbours keep its old MAC address for a while."""

    @field_validator("routes")
    @classmethod
    def _no_default_route(cls, routes: tuple[PoolRoute, ...]) -> tuple[PoolRoute, ...]:
        seen = set()
        for route in routes:
            if ip_network(route.to).prefixlen == 0:
                raise ValueError(f"{route.to} is the default route\nset 'gateway' of the pool instead")
            if route.to in seen:
                raise ValueError(f"there are two routes to {route.to}\nkeep one of them")
            seen.add(route.to)
        return routes

    @model_validator(mode="after")
    def _inside(self) -> AddressPool:
        if any(getattr(self.network, kind) for kind in ("is_multicast", "is_loopback", "is_link_local")):
            raise ValueError(f"{self.subnet} is multicast, loopback or link-local\nno NIC can be given such an address")
        for text in (*self.ranges, *self.exclude):
            if not addresses(text).within(self.network):
                raise ValueError(f"{text} is not inside of {self.subnet}\nits addresses are {range_of(self.network)}")
        for text in (t for t in (self.gateway, *(route.via for route in self.routes)) if t):
            if address(text) not in self.network:
                raise ValueError(
                    f"the gateway {text} is not inside of {self.subnet}\nits addresses are {range_of(self.network)}"
                )
        for route in self.routes:
            if ip_network(route.to).version != self.version:
                raise ValueError(
                    f"{route.to} is no network of IPv{self.version}, as {self.subnet} is\n"
                    f"write the route in a pool of IPv{ip_network(route.to).version}"
                )
        if self.gateway and self.ranges and any(address(self.gateway) in r for r in self._given()):
            raise ValueError(f"the gateway {self.gateway} is one of the ranges\nadd it to 'exclude'")
        if self.per_node is not None and not self.network.prefixlen <= self.per_node <= self.network.max_prefixlen:
            raise ValueError(
                f"a block /{self.per_node} does not fit into {self.subnet}\n"
                f"give {self.network.prefixlen} to {self.network.max_prefixlen}"
            )
        if self.per_node is not None and self.ranges:
            raise ValueError("'per_node' and 'ranges' exclude each other\nblocks are cut from the whole subnet")
        if self.node_gateway is not None:
            self._check_node_gateway(self.node_gateway)
        elif not self.gateway and any(route.via is None for route in self.routes):
            raise ValueError("a route has no 'via', and the pool has no gateway\nadd 'gateway', or 'via' to the route")
        return self

    def _check_node_gateway(self, index: int) -> None:
        if self.per_node is None or self.gateway:
            raise ValueError("'node_gateway' is the gateway of blocks\nadd 'per_node', and leave out 'gateway'")
        first = range_of(self.network).first
        block = AddressRange(self.version, first, first + self.block - 1)
        free = without([block], [*self._ends(block), *not_for_hosts(self.network)])
        gateway = AddressRange(self.version, first + index, first + index)
        if index >= self.block or without([gateway], free) or not without(free, [gateway]):
            last = free[-1].last - first if free else 0
            raise ValueError(
                f"{index} is no address for a gateway in a block /{self.per_node}\n"
                f"give {free[0].first - first if free else 0} to {last}, and leave room for a VM"
            )

    @cached_property
    def network(self) -> Network:
        """The subnet."""
        return ip_network(self.subnet)

    @property
    def version(self) -> Literal[4, 6]:
        """The family."""
        return self.network.version

    @cached_property
    def block(self) -> int:
        """How many addresses one VM gets: 1, or a block of `per_node`."""
        return 1 if self.per_node is None else 1 << (self.network.max_prefixlen - self.per_node)

    @property
    def prefix(self) -> int:
        """The prefix length that a NIC with an address of the pool is set to."""
        own = self.per_node if self.node_gateway is not None else None
        return self.network.prefixlen if own is None else own

    def gateway_of(self, block: AddressRange) -> str | None:
        """Return the gateway of the VM that was given a block, or a single address."""
        if self.node_gateway is None:
            return self.gateway
        at = block.first + self.node_gateway
        return str(AddressRange(block.version, at, at))

    def usable(self, reserved: Sequence[AddressRange] = ()) -> list[AddressRange]:
        """Return what may be given to VMs, in ascending order; with `per_node` whole blocks only.

        `reserved` are addresses that no pool gives away.
        """
        whole = [range_of(self.network)]
        if self.per_node is not None:
            return list(self.blocks(without(without(whole, list(self._full_blocks())), list(reserved))))
        given = [address_range(text) for text in self.ranges] or whole
        return without(given, [*self.withheld, *reserved])

    def inner(self, block: AddressRange) -> list[AddressRange]:
        """Return the addresses of a block for its VM and what runs on it, without ends, gateway and `exclude`."""
        own = AddressRange(block.version, block.first, block.first + self.block - 1)
        gateway = self.gateway_of(block)
        withheld = [*self._ends(own), *self.withheld, *([address_range(gateway)] if gateway else [])]
        return without([own], withheld)

    @cached_property
    def withheld(self) -> tuple[AddressRange, ...]:
        """The addresses of the subnet that no VM is given."""
        gateway = (address_range(self.gateway),) if self.gateway else ()
        return (*map(addresses, self.exclude), *gateway, *not_for_hosts(self.network))

    def _ends(self, block: AddressRange) -> list[AddressRange]:
        """Return the addresses of a block of several that no host has: its own, and its broadcast address."""
        if self.per_node is None:
            return []
        first = ip_address(str(AddressRange(block.version, block.first, block.first)))
        # what is held may be of a pool that had other blocks
        return not_for_hosts(ip_network(f"{first}/{self.per_node}", strict=False))

    def _full_blocks(self) -> Iterator[AddressRange]:
        """Yield the blocks without an address for a VM; only those at the ends of what is withheld are looked into."""
        size, base = self.block, int(self.network.network_address)
        for gap in merged(list(self.withheld)):
            first, last = (base + (at - base) // size * size for at in (gap.first, gap.last))
            for start in {first, last}:
                block = AddressRange(self.version, start, start + size - 1)
                if not self.inner(block):
                    yield block
            if last - first > size:
                yield AddressRange(self.version, first + size, last - 1)

    def own_address(self, block: AddressRange) -> AddressRange:
        """Return the address of a VM's own NIC in what it was given: the first one that is for use."""
        first = next((each.first for each in self.inner(block)), block.first)
        return AddressRange(block.version, first, first)

    def _given(self) -> list[AddressRange]:
        return without([address_range(text) for text in self.ranges], [addresses(text) for text in self.exclude])

    def blocks(self, ranges: Sequence[AddressRange]) -> Iterator[AddressRange]:
        """Yield the part of each range that is made of whole blocks at their own boundaries."""
        size, base = self.block, int(self.network.network_address)
        for each in ranges:
            first = base + -(-(each.first - base) // size) * size
            last = base + (each.last + 1 - base) // size * size - 1
            if first <= last:
                yield AddressRange(each.version, first, last)


@dataclass(frozen=True)
class PoolConflict:
    """Two pools that cannot both be there: their `subnets` overlap, they have `addresses` in common, or `defaults`."""

    first: str
    second: str
    what: Literal["subnets", "addresses", "defaults"]
    detail: str


def conflicts(pools: Mapping[str, AddressPool]) -> Iterator[PoolConflict]:
    """Yield pools that cannot both be there. Those of one domain share a subnet or lie apart, and no address twice."""
    for (one, first), (two, second) in combinations(pools.items(), 2):
        if first.version == second.version and first.default and second.default:
            yield PoolConflict(one, two, "defaults", f"both are the default for IPv{first.version}")
        if first.domain != second.domain or not range_of(first.network).overlaps(range_of(second.network)):
            continue
        if first.network != second.network:
            yield PoolConflict(one, two, "subnets", f"{first.subnet} and {second.subnet} overlap")
            continue
        shared = next((f"{a} and {b}" for a in first.usable() for b in second.usable() if a.overlaps(b)), "")
        if shared:
            yield PoolConflict(one, two, "addresses", f"{shared} have addresses in common")
