"""Sections `pools:` and `reserved_addresses:`: every fault with its place."""

from __future__ import annotations

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import load_inventory

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
        ("  a: {subnet: 10.0.0.0/24, per_node: 20}\n", "3:6", "does not fit into"),
        ("  a: 10.0.0.0/24\n  b: 10.0.0.0/16\n", "4:3", "conflict"),
        ("  a b: 10.0.0.0/24\n", "3:3", "cannot be a name"),
        ("  auto: 10.0.0.0/24\n", "3:3", "cannot be a name"),
        ("  dhcp: 10.0.0.0/24\n", "3:3", "cannot be a name"),
        ("  a: 10.0.0.0/24\nreserved_addresses: [10.0.0.300]\n", "4:22", "is not an IP address"),
        ("  a: 10.0.0.0/24\nreserved_addresses: [5]\n", "4:22", "this is no address"),
    ],
)
def test_a_fault_has_its_place(tmp_path, text, place, words):
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    (found,) = (each for each in refused.value.diagnostics if words in each.message)
    assert str(found.mark).endswith(f":{place}")


def test_a_pool_of_a_program_has_references_to_secrets_only(tmp_path):
    head = "  a:\n    subnet: 10.0.0.0/24\n    backend: {exec: [./netbox.py, --all], timeout: 20, env: {TOKEN: "
    backend = read(tmp_path, f'{head}"env:NETBOX_TOKEN"}}}}\n').pools["a"].backend
    assert (backend.exec, backend.timeout, backend.env) == (("./netbox.py", "--all"), 20, {"TOKEN": "env:NETBOX_TOKEN"})
    with pytest.raises(InputError) as refused:
        read(tmp_path, f"{head}hunter2hunter2}}}}\n")
    (found,) = refused.value.diagnostics
    assert "must not be in the file" in found.message
    assert "hunter2" not in f"{found.message} {found.help} {found.excerpt}"


@pytest.mark.parametrize(
    "value", ["{exec: []}", "{}", "{exec: program}", "{exec: [a], timeout: 0}", "{exec: [a], url: b}"]
)
def test_a_program_that_cannot_be_run_is_refused(tmp_path, value):
    with pytest.raises(InputError):
        read(tmp_path, f"  a: {{subnet: 10.0.0.0/24, backend: {value}}}\n")


def test_affinity_and_gateways_of_blocks_are_read(tmp_path):
    text = (
        "  a: {subnet: 10.0.0.0/24, per_node: 28, node_gateway: 1, affinity: {hosts: [esx01], portgroups: [rail*]}}\n"
    )
    pool = read(tmp_path, text).pools["a"]
    assert (pool.node_gateway, pool.affinity.hosts, pool.affinity.portgroups) == (1, ("esx01",), ("rail*",))
    for wrong in ("node_gateway: 1", "per_node: 28, node_gateway: 15", "affinity: {host: [a]}"):
        with pytest.raises(InputError):
            read(tmp_path, f"  a: {{subnet: 10.0.0.0/24, {wrong}}}\n")
