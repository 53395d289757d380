"""Cases of whereabouts, nv-ipam and Spiderpool: the same addresses, or a line of decision 31 that says why not.

Facts of their tests, counted one by one: whereabouts 3a262bd0 (pkg/iphelpers, pkg/allocate), nv-ipam 3ce4a34
(api/v1alpha1, pkg/ip, pkg/ipam-node/allocator, pkg/ipam-controller/allocator), Spiderpool a7fbd3b (pkg/ip,
pkg/ippoolmanager, pkg/reservedipmanager).
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.places import ROOT

from vsphere_ai.addresses.holding import AddressLedger
from vsphere_ai.addresses.leasing import lease
from vsphere_ai.addresses.pool import AddressPool, conflicts
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest
from vsphere_ai.model.names.networks import address_range

DECISION = ROOT / "docs" / "decisions" / "0031-pool-arithmetic.md"


def leased(count, *pools, reserved=()):
    """Return the addresses of so many VMs, a pool after the other; fewer where the pools have no more."""
    named = {f"p{n}": AddressPool(**fields) for n, fields in enumerate(pools)}
    settings = PoolSettings(named, 0, tuple(map(address_range, reserved)))
    for number in range(count, 0, -1):
        request = SetRequest("s", number, (NicRequest("nic", tuple(named)),))
        result = lease(AddressLedger(), settings, [request])
        if not result.problems:
            return [each.address for each in result.leases]
    return []


USABLE = [
    # whereabouts, GetIPRange and the first and last usable address
    ("whereabouts", {"subnet": "192.168.21.100/30"}, "192.168.21.101-192.168.21.102"),
    ("whereabouts", {"subnet": "192.168.0.0/30"}, "192.168.0.1-192.168.0.2"),
    ("whereabouts", {"subnet": "192.168.0.0/23"}, "192.168.0.1-192.168.1.254"),
    ("whereabouts", {"subnet": "192.168.2.192/27"}, "192.168.2.193-192.168.2.222"),
    ("whereabouts", {"subnet": "192.168.2.0/24"}, "192.168.2.1-192.168.2.254"),
    ("whereabouts", {"subnet": "192.168.2.0/24", "ranges": ("192.168.2.23-192.168.2.254",)},
     "192.168.2.23-192.168.2.254"),
    ("whereabouts", {"subnet": "192.168.2.0/24", "ranges": ("192.168.2.50-192.168.2.100",)},
     "192.168.2.50-192.168.2.100"),
    ("whereabouts", {"subnet": "192.168.2.0/24", "ranges": ("192.168.2.50",)}, "192.168.2.50"),
    ("whereabouts", {"subnet": "2001:db8:abcd:12::/64", "ranges": ("2001:db8:abcd:12::50-2001:db8:abcd:12::100",)},
     "2001:db8:abcd:12::50-2001:db8:abcd:12::100"),
    ("whereabouts", {"subnet": "2001:db8:abcd:12::/64", "ranges": ("2001:db8:abcd:12::100",)},
     "2001:db8:abcd:12::100"),
    ("whereabouts", {"subnet": "2001:db8:480:603d::/64",
                     "ranges": ("2001:db8:480:603d:304:403::-2001:db8:480:603d:304:403:0:4",)},
     "2001:db8:480:603d:304:403::-2001:db8:480:603d:304:403:0:4"),
    # nv-ipam, Range.Canonicalize and Contains
    ("nv-ipam", {"subnet": "192.0.2.0/24"}, "192.0.2.1-192.0.2.254"),
    ("nv-ipam", {"subnet": "192.0.2.0/25"}, "192.0.2.1-192.0.2.126"),
    ("nv-ipam", {"subnet": "192.0.2.0/31"}, "192.0.2.0-192.0.2.1"),
    ("nv-ipam", {"subnet": "192.0.2.10/32"}, "192.0.2.10"),
    ("nv-ipam", {"subnet": "2001:db8:1::/64"}, "2001:db8:1::1-2001:db8:1:0:ffff:ffff:ffff:ffff"),
    ("nv-ipam", {"subnet": "2001:db8:1::/127"}, "2001:db8:1::-2001:db8:1::1"),
    ("nv-ipam", {"subnet": "2001:db8:1::10/128"}, "2001:db8:1::10"),
    ("nv-ipam", {"subnet": "192.0.2.0/24", "ranges": ("192.0.2.40-192.0.2.50",), "gateway": "192.0.2.254"},
     "192.0.2.40-192.0.2.50"),
    ("nv-ipam", {"subnet": "192.0.2.0/24", "ranges": ("192.0.2.10",), "gateway": "192.0.2.1"}, "192.0.2.10"),
    ("nv-ipam", {"subnet": "192.0.2.2/31", "gateway": "192.0.2.3"}, "192.0.2.2"),
    ("nv-ipam", {"subnet": "2001:db8:1::2/127", "gateway": "2001:db8:1::3"}, "2001:db8:1::2"),
    ("nv-ipam", {"subnet": "10.10.10.10/32", "gateway": "10.10.10.10"}, ""),
    ("nv-ipam", {"subnet": "192.168.0.0/29", "exclude": ("192.168.0.2-192.168.0.3", "192.168.0.5")},
     "192.168.0.1, 192.168.0.4, 192.168.0.6"),
    # Spiderpool, MergeIPRanges and the assembly of a pool's addresses
    ("Spiderpool", {"subnet": "172.18.40.0/24",
                    "ranges": ("172.18.40.10", "172.18.40.1-172.18.40.2", "172.18.40.2-172.18.40.3")},
     "172.18.40.1-172.18.40.3, 172.18.40.10"),
    ("Spiderpool", {"subnet": "abcd:1234::/120",
                    "ranges": ("abcd:1234::a", "abcd:1234::1-abcd:1234::2", "abcd:1234::2-abcd:1234::3")},
     "abcd:1234::1-abcd:1234::3, abcd:1234::a"),
    ("Spiderpool", {"subnet": "172.18.40.0/24", "ranges": ("172.18.40.1-172.18.40.10",),
                    "exclude": ("172.18.40.10", "172.18.40.1-172.18.40.2", "172.18.40.2-172.18.40.3")},
     "172.18.40.4-172.18.40.9"),
    ("Spiderpool", {"subnet": "abcd:1234::/120", "ranges": ("abcd:1234::1-abcd:1234::a",),
                    "exclude": ("abcd:1234::a", "abcd:1234::1-abcd:1234::3")}, "abcd:1234::4-abcd:1234::9"),
]  # fmt: skip


@pytest.mark.parametrize(("who", "fields", "wanted"), USABLE, ids=lambda value: str(value)[:60])
def test_the_same_addresses_are_usable(who, fields, wanted):
    assert ", ".join(map(str, AddressPool(**fields).usable())) == wanted


LEASED = [
    # whereabouts, IterateForAssignment: the first address that is free
    ("whereabouts", [{"subnet": "192.168.1.0/24"}], 1, ["192.168.1.1"], ()),
    ("whereabouts", [{"subnet": "caa5::/112"}], 1, ["caa5::1"], ()),
    ("whereabouts", [{"subnet": "fd::/116"}], 1, ["fd::1"], ()),
    ("whereabouts", [{"subnet": "100::2:0/126"}], 1, ["100::2:1"], ()),
    ("whereabouts", [{"subnet": "192.168.0.0/29", "exclude": ("192.168.0.0/30",)}], 1, ["192.168.0.4"], ()),
    ("whereabouts", [{"subnet": "192.168.0.0/29", "exclude": ("192.168.0.1",)}], 1, ["192.168.0.2"], ()),
    ("whereabouts", [{"subnet": "100::2:0/125", "exclude": ("100::2:0/126",)}], 1, ["100::2:4"], ()),
    ("whereabouts", [{"subnet": "100::2:0/125", "exclude": ("100::2:1",)}], 1, ["100::2:2"], ()),
    ("whereabouts", [{"subnet": "2001:db8::/30", "exclude": ("2001:db8::/32",)}], 1, ["2001:db9::"], ()),
    ("whereabouts", [{"subnet": "192.168.0.0/28", "exclude": ("192.168.0.0/30", "192.168.0.6/31", "192.168.0.8/31",
                                                             "192.168.0.4/30")}], 1, ["192.168.0.10"], ()),
    ("whereabouts", [{"subnet": "192.168.0.0/28", "exclude": ("192.168.0.0/30", "192.168.0.14/31", "192.168.0.4/30",
                                                             "192.168.0.6/31", "192.168.0.8/31")}],
     1, ["192.168.0.10"], ()),
    ("whereabouts", [{"subnet": "192.168.0.0/29", "exclude": ("192.168.0.0/30",)}], 1, [],
     ("192.168.0.4-192.168.0.6",)),
    ("whereabouts", [{"subnet": "192.168.0.0/29", "exclude": ("192.168.0.4/30",)}], 1, [],
     ("192.168.0.1-192.168.0.3",)),
    ("whereabouts", [{"subnet": "100::2:0/125", "exclude": ("100::2:4/126",)}], 1, [], ("100::2:1-100::2:3",)),
    ("whereabouts", [{"subnet": "192.168.0.0/28", "ranges": ("192.168.0.1-192.168.0.6",),
                      "exclude": ("192.168.0.4/30",)}], 1, [], ("192.168.0.1-192.168.0.3",)),
    ("whereabouts", [{"subnet": "192.168.0.0/28", "ranges": ("192.168.0.1-192.168.0.6",)}], 1, ["192.168.0.4"],
     ("192.168.0.1-192.168.0.3",)),
    ("whereabouts", [{"subnet": "192.168.0.0/28", "ranges": ("192.168.0.1-192.168.0.6",)}], 1, ["192.168.0.3"],
     ("192.168.0.1-192.168.0.2", "192.168.0.5")),
    # nv-ipam, Allocate
    ("nv-ipam", [{"subnet": "192.168.1.0/29", "gateway": "192.168.1.1"}], 6,
     [f"192.168.1.{n}" for n in range(2, 7)], ()),
    ("nv-ipam", [{"subnet": "10.0.0.0/30", "gateway": "10.0.0.1"}], 2, ["10.0.0.2"], ()),
    ("nv-ipam", [{"subnet": "2001:db8:1::/64", "gateway": "2001:db8:1::1"}], 1, ["2001:db8:1::2"], ()),
    ("nv-ipam", [{"subnet": "10.0.0.0/29", "gateway": "10.0.0.1"}], 1, ["10.0.0.3"], ("10.0.0.2",)),
    ("nv-ipam", [{"subnet": "255.255.255.0/24", "gateway": "255.255.255.1"}], 1, ["255.255.255.2"], ()),
    ("nv-ipam", [{"subnet": "10.0.0.0/30", "gateway": "10.0.0.1"}, {"subnet": "10.0.1.0/30", "gateway": "10.0.1.1"}],
     3, ["10.0.0.2", "10.0.1.2"], ()),
    ("nv-ipam", [{"subnet": "192.168.1.0/30"}, {"subnet": "192.168.1.4/30"}], 3,
     ["192.168.1.1", "192.168.1.2", "192.168.1.5"], ()),
    ("nv-ipam", [{"subnet": "192.168.1.0/31"}], 3, ["192.168.1.0", "192.168.1.1"], ()),
    ("nv-ipam", [{"subnet": "192.168.1.10/32"}], 2, ["192.168.1.10"], ()),
    ("nv-ipam", [{"subnet": "192.168.1.0/24", "ranges": ("192.168.1.100",)}], 2, ["192.168.1.100"], ()),
    ("nv-ipam", [{"subnet": "10.0.0.0/30", "gateway": "10.0.0.1"}], 1, [], ("10.0.0.2",)),
    ("nv-ipam", [{"subnet": "10.0.0.0/29", "gateway": "10.0.0.1"}], 1, [], ("10.0.0.2-10.0.0.6",)),
]  # fmt: skip


@pytest.mark.parametrize(("who", "pools", "count", "wanted", "reserved"), LEASED, ids=lambda value: str(value)[:60])
def test_vms_get_the_same_addresses(who, pools, count, wanted, reserved):
    assert leased(count, *pools, reserved=reserved) == wanted


BLOCKS = [
    # nv-ipam, GetSubnetGen: the subnets of a size, in order, and their end
    ("192.168.0.0/24", 24, ["192.168.0.0/24"], True),
    ("2002:0:0:1234::/64", 64, ["2002:0:0:1234::/64"], True),
    ("192.168.4.0/23", 25, ["192.168.4.0/25", "192.168.4.128/25", "192.168.5.0/25", "192.168.5.128/25"], True),
    ("2002:0:0:1234::/64", 124, ["2002:0:0:1234::/124", "2002:0:0:1234::10/124", "2002:0:0:1234::20/124"], False),
    ("192.168.0.0/31", 32, ["192.168.0.0/32", "192.168.0.1/32"], True),
    ("10.10.10.10/31", 31, ["10.10.10.10/31"], True),
]


@pytest.mark.parametrize(("subnet", "size", "wanted", "all_of_them"), BLOCKS)
def test_blocks_are_the_same(subnet, size, wanted, all_of_them):
    pool = AddressPool(subnet=subnet, per_node=size)
    count = len(wanted) + all_of_them
    request = SetRequest("s", len(wanted), (NicRequest("nic", ("p",)),))
    settings = PoolSettings({"p": pool}, 0)
    result = lease(AddressLedger(), settings, [request])
    bounds = [(str(each.given).split("-")[0], each.given.size) for each in result.leases]
    assert bounds == [(text.split("/")[0], pool.block) for text in wanted]
    more = lease(AddressLedger(), settings, [SetRequest("s", count, request.nics)])
    assert bool(more.problems) == all_of_them


EXCLUDED_BLOCKS = [
    # nv-ipam, Allocate with exclusions; their blocks of ten are blocks of 16 here
    (("192.168.0.3-192.168.0.5",), "192.168.0.0"),
    (("192.168.0.0-192.168.0.15",), "192.168.0.16"),
    (("192.168.0.0-192.168.0.20",), "192.168.0.16"),
    (("192.168.0.1-192.168.0.8", "192.168.0.7-192.168.0.14"), "192.168.0.16"),
    (("192.168.0.1-192.168.0.3", "192.168.0.5-192.168.0.14"), "192.168.0.0"),
    (("192.168.0.100-192.168.0.110",), "192.168.0.0"),
]


@pytest.mark.parametrize(("exclude", "first"), EXCLUDED_BLOCKS)
def test_a_block_that_is_excluded_in_part_is_given_and_one_that_is_excluded_wholly_is_not(exclude, first):
    pool = AddressPool(subnet="192.168.0.0/24", per_node=28, exclude=exclude)
    result = lease(AddressLedger(), PoolSettings({"p": pool}, 0), [SetRequest("s", 1, (NicRequest("nic", ("p",)),))])
    assert str(result.leases[0].given).startswith(f"{first}-")


REFUSED = [
    ("whereabouts", {"subnet": "192.168.0.0/29", "exclude": ("192.168.0.1/123",)}),
    ("whereabouts", {"subnet": "100::2:0/125", "exclude": ("100::2::1",)}),
    ("nv-ipam", {"subnet": "192.0.2.12/24"}),
    ("nv-ipam", {"subnet": "2001:db8:1::24:19ff:fee1:c44a/64"}),
    ("nv-ipam", {"subnet": "2001:db8:24:19ff::/63"}),
    ("nv-ipam", {"subnet": "192.168.127.0/23"}),
    ("nv-ipam", {"subnet": "192.0.2.0/24", "ranges": ("192.0.3.0",)}),
    ("nv-ipam", {"subnet": "192.0.2.0/24", "ranges": ("192.0.2.50-192.0.2.40",)}),
    ("nv-ipam", {"subnet": "192.0.2.2/31", "ranges": ("192.0.2.1",)}),
    ("nv-ipam", {"subnet": "192.0.2.2/32", "ranges": ("192.0.2.3",)}),
    ("nv-ipam", {"subnet": "192.168.0.0/24", "exclude": ("10.10.10.10-10.10.10.20",)}),
    ("nv-ipam", {"subnet": "192.168.0.0/16", "gateway": "10.0.0.1"}),
    ("nv-ipam", {"subnet": "192.168.0.0/16", "routes": ({"to": "192.168.0.0/24"},)}),
    ("nv-ipam", {"subnet": "192.168.0.0/16", "gateway": "192.168.0.1", "routes": ({"to": "192.168.0"},)}),
    ("nv-ipam", {"subnet": "192.168.0.0/16", "gateway": "192.168.0.1", "routes": ({"to": "2001:db8:3333::/64"},)}),
    ("nv-ipam", {"subnet": "2001:db8:3333::/64", "gateway": "2001:db8:3333::1", "routes": ({"to": "::/0"},)}),
    ("nv-ipam", {"subnet": "192.168.0.0/16", "per_node": 0}),
    ("nv-ipam", {"subnet": "192.168.0.0/16", "per_node": -10}),
    ("nv-ipam", {"subnet": "192.168.0.0/16", "per_node": 8}),
    ("nv-ipam", {"subnet": "192.168.0.0/16", "per_node": 24, "node_gateway": -10}),
    ("nv-ipam", {"subnet": "192.168.0.0/16", "per_node": 24, "node_gateway": 255}),
    ("Spiderpool", {"subnet": "172.18.40.0/24", "ranges": ("172.18.40.1-172.18.40.2", "172.18.41.10")}),
    ("Spiderpool", {"subnet": "172.18.40.0/24", "ranges": ("172.18.40.1-172.18.40.2-172.18.40.3",)}),
    ("Spiderpool", {"subnet": "172.18.40.0/24", "ranges": ("172.18.40.254-172.18.41.1",)}),
    ("Spiderpool", {"subnet": "abcd:1234::/120", "ranges": ("abcd:1234::fd-abcd:1234::101",)}),
    ("Spiderpool", {"subnet": "172.18.40.0/24", "gateway": "172.18.41.1"}),
    ("Spiderpool", {"subnet": "172.18.40.0/24", "gateway": "172.18.40.1", "ranges": ("172.18.40.1-172.18.40.2",)}),
]


@pytest.mark.parametrize(("who", "fields"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_they_refuse_is_refused(who, fields):
    with pytest.raises(ValidationError):
        AddressPool.model_validate(fields)


ACCEPTED = [
    {"subnet": "192.168.0.0/16", "per_node": 25, "exclude": ("192.168.0.100-192.168.0.110",), "gateway": "192.168.0.1"},
    {"subnet": "192.168.0.0/16", "per_node": 24, "node_gateway": 100},
    {"subnet": "192.168.0.0/16", "per_node": 24, "node_gateway": 1},
    {"subnet": "192.168.0.0/16", "per_node": 24, "node_gateway": 2},
    {"subnet": "192.168.0.0/16", "per_node": 32},
    {"subnet": "2001:db8:3333:4444::/64", "per_node": 128},
    {"subnet": "192.168.0.0/16", "per_node": 16},
    {"subnet": "2001:db8:3333:4444::/64", "per_node": 64},
    {"subnet": "fdf8:6aef:d1fe::/48", "per_node": 120, "node_gateway": 5, "exclude": ("fdf8:6aef:d1fe::5",)},
    {"subnet": "192.168.0.0/16", "gateway": "192.168.0.1", "routes": ({"to": "5.5.0.0/16"},)},
]


@pytest.mark.parametrize("fields", ACCEPTED, ids=lambda value: str(value)[:60])
def test_what_nv_ipam_admits_is_admitted(fields):
    assert AddressPool.model_validate(fields).usable()


OVERLAPS = [
    ({"subnet": "10.0.0.0/24"}, {"subnet": "10.0.1.0/24"}, False),
    ({"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/24"}, False),
    ({"subnet": "10.0.0.0/24"}, {"subnet": "10.0.0.0/24"}, True),
    ({"subnet": "10.0.0.0/20"}, {"subnet": "10.0.1.0/24"}, True),
    ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.1-10.0.0.127",)},
     {"subnet": "10.0.0.0/24", "ranges": ("10.0.0.128-10.0.0.254",)}, False),
    ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.1-10.0.0.127",)},
     {"subnet": "10.0.0.0/24", "ranges": ("10.0.0.127-10.0.0.254",)}, True),
    ({"subnet": "172.18.40.0/24", "ranges": ("172.18.40.40",)}, {"subnet": "172.18.40.0/25"}, True),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two", "overlap"), OVERLAPS)
def test_pools_that_overlap_are_the_same(one, two, overlap):
    for pair in ((one, two), (two, one)):
        refusals = conflicts({str(n): AddressPool.model_validate(fields) for n, fields in enumerate(pair)})
        assert bool(list(refusals)) == overlap


def refused(fields):
    try:
        AddressPool.model_validate(fields)
    except ValidationError:
        return True
    return False


OTHERWISE = {
    "whereabouts withholds the last address of an IPv6 subnet": lambda: (
        leased(9, {"subnet": "fd00::/125"})[-1] == "fd00::7"
    ),
    "whereabouts refuses /31, /32, /127 and /128": lambda: leased(2, {"subnet": "fd00::/127"}) == ["fd00::", "fd00::1"],
    "whereabouts takes a subnet with host bits": lambda: refused({"subnet": "192.168.2.200/24"}),
    "whereabouts leaves out an end of a range that lies outside": lambda: refused(
        {"subnet": "192.168.2.0/24", "ranges": ("192.168.1.150-192.168.3.100",)}
    ),
    "whereabouts ignores the end of an inverted range": lambda: refused(
        {"subnet": "192.168.2.0/24", "ranges": ("192.168.2.100-192.168.2.50",)}
    ),
    "nv-ipam gives the address behind the last one that it gave": lambda: (
        leased(2, {"subnet": "10.0.0.0/29"}) == ["10.0.0.1", "10.0.0.2"]
    ),
    "nv-ipam cuts blocks of any size": lambda: refused({"subnet": "192.168.0.0/24", "per_node": 200}),
    "nv-ipam gives ends of a subnet that a range names": lambda: (
        leased(9, {"subnet": "192.168.1.0/30", "ranges": ("192.168.1.0-192.168.1.3",)})
        == ["192.168.1.1", "192.168.1.2"]
    ),
    "nv-ipam has exclusions by the index in each block": lambda: refused(
        {"subnet": "192.168.0.0/16", "per_node": 25, "per_node_exclusions": ("0-10",)}
    ),
    "a reserved address withholds its block": lambda: (
        str(AddressPool(subnet="10.0.0.0/26", per_node=27).usable([address_range("10.0.0.4")])[0])
        == "10.0.0.32-10.0.0.63"
    ),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_what_differs_is_in_the_decision(what):
    assert OTHERWISE[what]()
    assert f"| {what} |" in DECISION.read_text("utf-8")


def test_there_are_more_than_sixty_cases():
    same = len(USABLE) + len(LEASED) + len(BLOCKS) + len(EXCLUDED_BLOCKS) + len(REFUSED) + len(ACCEPTED) + len(OVERLAPS)
    assert same > 100
