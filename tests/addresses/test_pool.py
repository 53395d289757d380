"""Pools of an inventory: what may be given to VMs, and what is refused with a reason."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from vsphere_ai.addresses.pool import Pool, conflicts
from vsphere_ai.model.names.networks import address_range


def usable(**fields) -> list[str]:
    return [str(each) for each in Pool(**fields).usable()]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"subnet": "10.0.0.0/29"}, ["10.0.0.1-10.0.0.6"]),
        ({"subnet": "10.0.0.0/29", "gateway": "10.0.0.1"}, ["10.0.0.2-10.0.0.6"]),
        ({"subnet": "10.0.0.0/31"}, ["10.0.0.0-10.0.0.1"]),
        ({"subnet": "10.0.0.0/29", "exclude": ("10.0.0.3", "10.0.0.5-10.0.0.6")}, ["10.0.0.1-10.0.0.2", "10.0.0.4"]),
        ({"subnet": "10.0.0.0/24", "ranges": ("10.0.0.9", "10.0.0.7-10.0.0.8")}, ["10.0.0.7-10.0.0.9"]),
        ({"subnet": "fd00::/126"}, ["fd00::-fd00::3"]),
        ({"subnet": "10.0.0.0/26", "per_node": 27, "exclude": ("10.0.0.4",)}, ["10.0.0.32-10.0.0.63"]),
        ({"subnet": "fd00::/64", "per_node": 66, "gateway": "fd00::1"}, ["fd00::-fd00::ffff:ffff:ffff:ffff"]),
    ],
)  # fmt: skip
def test_what_may_be_given(fields, wanted):
    assert usable(**fields) == wanted


def test_reserved_addresses_are_never_given():
    pool = Pool(subnet="10.0.0.0/29")
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
        ({"subnet": "10.0.0.0/24", "per_node": 23}, "does not fit into"),
        ({"subnet": "10.0.0.0/24", "per_node": 33}, "does not fit into"),
        ({"subnet": "10.0.0.0/24", "per_node": 27, "ranges": ("10.0.0.1",)}, "exclude each other"),
    ],
)
def test_what_is_wrong_is_refused_with_the_reason(fields, words):
    with pytest.raises(ValidationError) as refused:
        Pool.model_validate(fields)
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
    first = Pool(subnet="10.0.0.0/24", ranges=("10.0.0.1-10.0.0.10",), default=True)
    found = list(conflicts({"one": first, "two": Pool.model_validate(other)}))
    assert [each.what for each in found] == ([rule] if rule else [])
