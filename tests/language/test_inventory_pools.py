"""Sections `pools:` and `reserved_addresses:`: every fault with its place."""

from __future__ import annotations

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventory import load_inventory

HEAD = """\
vcenters: {v: {address: v.example.com, username: u, password: "env:VSPHERE_AI_PASSWORD"}}
pools:
"""


def read(tmp_path, text):
    path = tmp_path / "inventory.yml"
    path.write_text(HEAD + text, "utf-8")
    return load_inventory(path)


def test_pools_and_reserved_addresses_are_read(tmp_path):
    text = "  a: {subnet: 10.0.0.0/24, gateway: 10.0.0.1}\n  b: fd00::/64\nreserved_addresses: [10.0.0.9-10.0.0.12]\n"
    found = read(tmp_path, text)
    assert [pool.subnet for pool in found.pools.values()] == ["10.0.0.0/24", "fd00::/64"]
    assert list(map(str, found.reserved)) == ["10.0.0.9-10.0.0.12"]
    assert [str(each) for each in found.pools["a"].usable(found.reserved)] == [
        "10.0.0.2-10.0.0.8",
        "10.0.0.13-10.0.0.254",
    ]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("  a: {subnet: 10.0.0.1/24}\n", "3:15", "host bits"),
        ("  a: 10.0.0.1/24\n", "3:6", "host bits"),
        ("  a: {subnets: 10.0.0.0/24}\n", "3:7", "unknown key 'subnets'"),
        ("  a: {subnet: 10.0.0.0/24, ranges: 10.0.0.9}\n", "3:36", "expected a list"),
        ("  a: {subnet: 10.0.0.0/24, per_node: 20}\n", "3:6", "larger than"),
        ("  a: 10.0.0.0/24\n  b: 10.0.0.0/16\n", "4:3", "conflict"),
        ("  a b: 10.0.0.0/24\n", "3:3", "cannot be a name"),
        ("  a: 10.0.0.0/24\nreserved_addresses: [10.0.0.300]\n", "4:22", "is not an IP address"),
        ("  a: 10.0.0.0/24\nreserved_addresses: [5]\n", "4:22", "this is no address"),
    ],
)
def test_a_fault_has_its_place(tmp_path, text, place, words):
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    (found,) = (each for each in refused.value.diagnostics if words in each.message)
    assert str(found.mark).endswith(f":{place}")
