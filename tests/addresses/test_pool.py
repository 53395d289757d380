"""Pools of an inventory: what may be given to VMs, and what is refused with a reason."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from vsphere_ai.addresses.pool import AddressPool, conflicts
from vsphere_ai.guests.netplan import GuestNic
from vsphere_ai.guests.network_problems import network_problems
from vsphere_ai.model.names.networks import AddressRange, address_range, addresses
from vsphere_ai.model.state import Target


def usable(**fields) -> list[str]:
    return [str(each) for each in AddressPool(**fields).usable()]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"subnet": "10.0.0.0/29"}, ["10.0.0.1-10.0.0.6"]),
        ({"subnet": "10.0.0.0/29", "gateway": "10.0.0.1"}, ["10.0.0.2-10.0.0.6"]),
        ({"subnet": "10.0.0.0/31"}, ["10.0.0.0-10.0.0.1"]),
        ({"subnet": "10.0.0.0/29", "exclude": ("10.0.0.3", "10.0.0.5-10.0.0.6")}, ["10.0.0.1-10.0.0.2", "10.0.0.4"]),
        ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.9", "10.0.0.7-10.0.0.8")}, ["10.0.0.7-10.0.0.9"]),
        ({"subnet": "fd00::/126"}, ["fd00::1-fd00::3"]),
        ({"subnet": "10.0.0.0/26", "per_node": 27, "exclude": ("10.0.0.4",)}, ["10.0.0.0-10.0.0.63"]),
        ({"subnet": "fd00::/64", "per_node": 66, "gateway": "fd00::1"}, ["fd00::-fd00::ffff:ffff:ffff:ffff"]),
        # whereabouts: the first address of a range of IPv6 is ::1; a /127 has both (RFC 6164), a /128 its only one
        ({"subnet": "fd00:20::/64", "gateway": "fd00:20::1"}, ["fd00:20::2-fd00:20::ffff:ffff:ffff:ffff"]),
        ({"subnet": "fd00::/127"}, ["fd00::-fd00::1"]),
        ({"subnet": "fd00::/128"}, ["fd00::"]),
        ({"subnet": "10.0.0.0/32"}, ["10.0.0.0"]),
        ({"subnet": "10.0.0.0/30"}, ["10.0.0.1-10.0.0.2"]),
        # ranges that hold the ends of the subnet: no host is given them (Spiderpool, IPPool webhook)
        ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.0-10.0.0.255",)}, ["10.0.0.1-10.0.0.254"]),
        ({"subnet": "fd00::/64", "ranges": ("fd00::-fd00::9",)}, ["fd00::1-fd00::9"]),
        # exclude: addresses, ranges, subnets (whereabouts takes the last)
        ({"subnet": "10.0.0.0/24", "exclude": ("10.0.0.0/25", "10.0.0.192/26")}, ["10.0.0.128-10.0.0.191"]),
        ({"subnet": "fd00::/64", "exclude": ("fd00::/65",)}, ["fd00::8000:0:0:0-fd00::ffff:ffff:ffff:ffff"]),
        # nv-ipam: a block that is excluded wholly gives nothing, one that is so in part gives the rest
        ({"subnet": "10.0.0.0/26", "per_node": 27, "exclude": ("10.0.0.0/27",)}, ["10.0.0.32-10.0.0.63"]),
        ({"subnet": "10.0.0.0/26", "per_node": 27, "exclude": ("10.0.0.1-10.0.0.30",)}, ["10.0.0.32-10.0.0.63"]),
        ({"subnet": "10.0.0.0/24", "per_node": 27, "exclude": ("10.0.0.40-10.0.0.200",)},
         ["10.0.0.0-10.0.0.63", "10.0.0.192-10.0.0.255"]),
        ({"subnet": "10.0.0.0/29", "per_node": 32}, ["10.0.0.1-10.0.0.6"]),
        ({"subnet": "fd00::/125", "per_node": 128}, ["fd00::1-fd00::7"]),
        ({"subnet": "fd00::/126", "per_node": 127}, ["fd00::-fd00::3"]),
    ],
)  # fmt: skip
def test_what_may_be_given(fields, wanted):
    assert usable(**fields) == wanted


@pytest.mark.parametrize(
    ("fields", "index", "own", "inner"),
    [
        ({"subnet": "10.0.0.0/24", "per_node": 27}, 0, "10.0.0.1", ["10.0.0.1-10.0.0.30"]),
        ({"subnet": "10.0.0.0/24", "per_node": 27, "node_gateway": 1}, 1, "10.0.0.34", ["10.0.0.34-10.0.0.62"]),
        ({"subnet": "10.0.0.0/24", "per_node": 27, "exclude": ("10.0.0.33",)}, 1, "10.0.0.34", ["10.0.0.34-10.0.0.62"]),
        ({"subnet": "10.0.0.0/24", "per_node": 31}, 0, "10.0.0.1", ["10.0.0.1"]),
        ({"subnet": "10.0.0.0/24", "per_node": 31}, 1, "10.0.0.2", ["10.0.0.2-10.0.0.3"]),
        ({"subnet": "fd00::/64", "per_node": 126}, 1, "fd00::5", ["fd00::5-fd00::7"]),
        ({"subnet": "fd00::/64", "per_node": 126, "node_gateway": 3}, 0, "fd00::1", ["fd00::1-fd00::2"]),
        ({"subnet": "fd00::/64", "per_node": 127}, 0, "fd00::1", ["fd00::1"]),
    ],
)  # fmt: skip
def test_what_a_block_has_for_its_vm(fields, index, own, inner):
    pool = AddressPool(**fields)
    first = int(pool.network.network_address) + index * pool.block
    block = AddressRange(pool.version, first, first + pool.block - 1)
    assert str(pool.own_address(block)) == own
    assert [str(each) for each in pool.inner(block)] == inner


@pytest.mark.parametrize("subnet", ["10.0.0.0/29", "10.0.0.0/31", "fd00::/125", "fd00::/127"])
@pytest.mark.parametrize("more", [{}, {"per_node": True}, {"ranges": True}])
def test_each_address_that_a_pool_calls_usable_is_accepted_for_a_guest(subnet, more):
    network = ip_network(subnet)
    per_node = {"per_node": network.max_prefixlen} if "per_node" in more else {}
    ranges = {"ranges": (f"{network[0]}-{network[-1]}",)} if "ranges" in more else {}
    pool = AddressPool(subnet=subnet, **per_node, **ranges)
    given = [AddressRange(pool.version, n, n) for each in pool.usable() for n in range(each.first, each.last + 1)]
    assert given
    for each in given:
        nic = GuestNic("ens192", mac="00:50:56:00:00:01", addresses=(f"{each}/{pool.prefix}",))
        assert not [
            p for p in network_problems(Target("VirtualMachine:vm-1", "a", "vm"), [nic]) if p.rule == "guest.address"
        ]


BASES = {4: ("10.0.0.0", 32), 6: ("fd00:20::", 128)}


def not_of_hosts(network) -> set[int]:
    """Reference: the ends of a network of IPv4, the routers' anycast of IPv6; a network of two addresses has none."""
    if network.num_addresses <= 2:
        return set()
    return {int(network[0]), int(network[-1])} if network.version == 4 else {int(network[0])}


@settings(deadline=None, max_examples=200)
@given(st.sampled_from([4, 6]), st.data())
def test_what_is_usable_is_what_counting_address_by_address_leaves(version, data):
    """Addresses, ranges and subnets that are excluded, gateways, ranges and blocks, in both families."""
    base, bits = BASES[version]
    network = ip_network(f"{base}/{data.draw(st.integers(bits - 6, bits))}")
    every = [int(address) for address in network]
    place = st.integers(0, len(every) - 1)

    def text(first: int, last: int) -> str:
        return str(AddressRange(version, every[min(first, last)], every[max(first, last)]))

    def subnet(at: int, length: int) -> str:
        return str(ip_network((every[at], length), strict=False))

    one = st.builds(text, place, place) | place.map(lambda at: text(at, at))
    excluded = data.draw(st.lists(one | st.builds(subnet, place, st.integers(network.prefixlen, bits)), max_size=4))
    withheld = {n for each in map(addresses, excluded) for n in range(each.first, each.last + 1)} | not_of_hosts(
        network
    )
    gateway = data.draw(st.none() | place)
    withheld |= set() if gateway is None else {every[gateway]}
    fields = {"subnet": str(network), "exclude": tuple(excluded)}
    fields |= {} if gateway is None else {"gateway": text(gateway, gateway)}
    length = data.draw(st.none() | st.integers(network.prefixlen, bits))
    if length is None:
        ranges = data.draw(st.lists(one, max_size=2))
        given = {n for each in map(address_range, ranges) for n in range(each.first, each.last + 1)} or set(every)
        if gateway is not None and ranges and every[gateway] in given - (withheld - {every[gateway]}):
            ranges, given = [], set(every)  # refused: the gateway would be one of the ranges
        wanted = given - withheld
        fields["ranges"] = tuple(ranges)
    else:
        fields["per_node"] = length
        blocks = list(network.subnets(new_prefix=length))
        with_room = [b for b in blocks if {int(a) for a in b} - withheld - not_of_hosts(b)]
        wanted = {int(a) for block in with_room for a in block}
    pool = AddressPool(**fields)
    assert {n for each in pool.usable() for n in range(each.first, each.last + 1)} == wanted


def test_a_pool_that_no_nic_can_have_is_refused():
    for subnet in ("fe80::/64", "ff02::/64", "127.0.0.0/8", "224.0.0.0/24", "169.254.0.0/16"):
        with pytest.raises(ValidationError, match="no NIC can be given"):
            AddressPool(subnet=subnet)


def test_reserved_addresses_are_never_given():
    pool = AddressPool(subnet="10.0.0.0/29")
    assert [str(each) for each in pool.usable([address_range("10.0.0.2-10.0.0.9")])] == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"subnet": "10.0.0.1/24"}, "has host bits set"),
        ({"subnet": "10.0.0.0"}, "has no prefix length"),
        ({"subnet": "10.0.0.0/33"}, "not a subnet"),
        ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.9-10.0.1.9",)}, "is not inside of"),
        ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.9-10.0.0.1",)}, "ends before it begins"),
        ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.256",)}, "is not an IP address"),
        ({"subnet": "10.0.0.0/24", "exclude": ("10.0.1.1",)}, "is not inside of"),
        ({"subnet": "10.0.0.0/24", "gateway": "10.0.1.1"}, "is not inside of"),
        ({"subnet": "10.0.0.0/24", "gateway": "fd00::1"}, "is not inside of"),
        ({"subnet": "10.0.0.0/24", "gateway": "10.0.0.5", "ranges": ("10.0.0.1-10.0.0.9",)}, "is one of the ranges"),
        ({"subnet": "10.0.0.0/24", "routes": ({"to": "0.0.0.0/0", "via": "10.0.0.1"},)}, "is the default route"),
        ({"subnet": "10.0.0.0/24", "routes": ({"to": "10.1.0.0/16", "via": "10.1.0.1"},)}, "is not inside of"),
        ({"subnet": "10.0.0.0/24", "gateway": "10.0.0.1", "routes": ({"to": "fd00::/64"},)}, "is no network of IPv4"),
        ({"subnet": "fd00::/64", "gateway": "fd00::1", "routes": ({"to": "10.0.0.0/8"},)}, "is no network of IPv6"),
        ({"subnet": "10.0.0.0/24", "per_node": 23}, "does not fit into"),
        ({"subnet": "10.0.0.0/24", "per_node": 33}, "does not fit into"),
        ({"subnet": "10.0.0.0/24", "per_node": 27, "ranges": ("10.0.0.1",)}, "exclude each other"),
    ],
)
def test_what_is_wrong_is_refused_with_the_reason(fields, words):
    with pytest.raises(ValidationError) as refused:
        AddressPool.model_validate(fields)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("other", "rule"),
    [
        ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.20-10.0.0.30",)}, ""),
        ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.10-10.0.0.30",)}, "addresses"),
        ({"subnet": "10.0.0.0/16"}, "subnets"),
        ({"subnet": "10.0.0.0/16", "domain": "rail2"}, ""),
        ({"subnet": "10.0.1.0/24"}, ""),
        ({"subnet": "10.0.1.0/24", "default": True}, "defaults"),
        ({"subnet": "fd00::/64", "default": True}, ""),
    ],
)
def test_two_pools_of_a_domain_lie_apart(other, rule):
    first = AddressPool(subnet="10.0.0.0/24", ranges=("10.0.0.1-10.0.0.10",), default=True)
    found = list(conflicts({"one": first, "two": AddressPool.model_validate(other)}))
    assert [each.what for each in found] == ([rule] if rule else [])
