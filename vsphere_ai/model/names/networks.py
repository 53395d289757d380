"""Subnets, ranges and gateways as text of a manifest, read strictly; IPv4 and IPv6."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, order=True)
class AddressRange:
    """Addresses from `first` to `last`, both included, as numbers of one family."""

    version: int
    first: int
    last: int

    def __contains__(self, address: Address) -> bool:
        return address.version == self.version and self.first <= int(address) <= self.last

    def overlaps(self, other: AddressRange) -> bool:
        """Return whether an address lies in both."""
        return self.version == other.version and self.first <= other.last and other.first <= self.last

    def within(self, network: Network) -> bool:
        """Return whether all addresses lie in a network."""
        bounds = range_of(network)
        return bounds.version == self.version and bounds.first <= self.first and self.last <= bounds.last

    @property
    def size(self) -> int:
        """Return how many addresses it holds."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        kind = IPv4Address if self.version == 4 else IPv6Address
        first, last = str(kind(self.first)), str(kind(self.last))
        return first if first == last else f"{first}-{last}"


def address(text: str) -> Address:
    """Return an address; `ValueError` with a sentence for anything else."""
    try:
        return ip_address(text)
    except ValueError:
        raise ValueError(f"'{text}' is not an IP address\nwrite for example 10.20.0.11 or fd00:20::11") from None


def network(text: str) -> Network:
    """Return a network; `ValueError` with a sentence when it is none, or has host bits set."""
    loose = network_of(text)
    if has_host_bits(text, loose):
        raise ValueError(f"'{text}' has host bits set\nwrite {loose}")
    return loose


def network_of(text: str) -> Network:
    """Return the network of a CIDR whose host bits may be set; `ValueError` with a sentence when it is none."""
    try:
        loose = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"'{text}' is not a subnet in CIDR notation\nwrite for example 10.20.0.0/24") from None
    if "/" not in text:
        raise ValueError(f"'{text}' has no prefix length\nwrite e.g. {loose}")
    return loose


def address_or_network(text: str) -> Address | Network:
    """Return an address or, where there is a prefix length, a network; `ValueError` with a sentence when it is none."""
    return network_of(text) if "/" in text else address(text)


def has_host_bits(text: str, loose: Network) -> bool:
    """Return whether the address of a CIDR is another than that of its network."""
    return ip_address(text.partition("/")[0]) != loose.network_address


def address_range(text: str) -> AddressRange:
    """Return the range of ``10.0.0.1-10.0.0.9`` or of a single address; `ValueError` with a sentence."""
    first, dash, last = text.partition("-")
    low, high = address(first.strip()), address((last if dash else first).strip())
    if low.version != high.version:
        raise ValueError(f"'{text}' begins with IPv{low.version} and ends with IPv{high.version}\nwrite two ranges")
    if int(low) > int(high):
        raise ValueError(f"'{text}' ends before it begins\nwrite the lower address first")
    return AddressRange(low.version, int(low), int(high))


def addresses(text: str) -> AddressRange:
    """Return the range of ``10.0.0.1-10.0.0.9``, of a single address or of a subnet; `ValueError` with a sentence."""
    return range_of(network(text)) if "/" in text else address_range(text)


def not_for_hosts(network: Network) -> list[AddressRange]:
    """Return the addresses of a network that no host has: in IPv4 its own and broadcast, in IPv6 the routers' anycast.

    Point-to-point networks have none. Sources: RFC 3021 (/31), RFC 4291 2.6.1 (subnet-router anycast), RFC 6164 (/127).
    """
    if network.max_prefixlen - network.prefixlen < 2:
        return []
    bounds = range_of(network)
    ends = (bounds.first, bounds.last) if network.version == 4 else (bounds.first,)
    return [AddressRange(network.version, end, end) for end in ends]


def range_of(network: Network) -> AddressRange:
    """Return all addresses of a network, the network's own and the broadcast address included."""
    return AddressRange(network.version, int(network.network_address), int(network.broadcast_address))


def without(ranges: list[AddressRange], excluded: list[AddressRange]) -> list[AddressRange]:
    """Return ranges without the excluded addresses, in ascending order and merged where they touch."""
    left: list[AddressRange] = []
    for each in merged(ranges):
        first = each.first
        for gap in merged([e for e in excluded if e.overlaps(each)]):
            if gap.first > first:
                left.append(AddressRange(each.version, first, gap.first - 1))
            first = max(first, gap.last + 1)
        if first <= each.last:
            left.append(AddressRange(each.version, first, each.last))
    return left


def merged(ranges: list[AddressRange]) -> list[AddressRange]:
    """Return ranges in ascending order; those that overlap or touch are one."""
    found: list[AddressRange] = []
    for each in sorted(ranges):
        before = found[-1] if found else None
        if before is not None and before.version == each.version and each.first <= before.last + 1:
            found[-1] = AddressRange(each.version, before.first, max(before.last, each.last))
        else:
            found.append(each)
    return found
