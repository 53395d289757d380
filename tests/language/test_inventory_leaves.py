"""Section `leaves:` of an inventory: leaf switches and the hosts that they connect."""

from __future__ import annotations

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import load_inventory

HEAD = """\
vcenters: {v: {address: v.example.com, username: u, password: "env:VSPHERE_AI_PASSWORD"}}
leaves:
"""


def read(tmp_path, text):
    path = tmp_path / "inventory.yml"
    path.write_text(HEAD + text, "utf-8")
    return load_inventory(path)


def test_leaves_are_read_in_both_forms(tmp_path):
    text = (
        "  a: esx[01:04]\n  b: [esx05, gpu_hosts]\n"
        "  c: {hosts: esx06, rails: [0, 1], switches: [dvs], vmnics: [vmnic4]}\n"
    )
    found = read(tmp_path, text).leaves
    assert [leaf.hosts for leaf in found.values()] == [("esx[01:04]",), ("esx05", "gpu_hosts"), ("esx06",)]
    assert (found["c"].rails, found["c"].switches, found["c"].vmnics) == ((0, 1), ("dvs",), ("vmnic4",))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("  a b: esx01\n", "3:3", "cannot be a name"),
        ("  a: {rails: [1]}\n", "3:6", "hosts"),
        ("  a: {hosts: esx01, rails: [99]}\n", "3:29", "out of range"),
        ("  a: {hosts: esx01, rail: 1}\n", "3:21", "unknown key 'rail'"),
        ("  a: esx[01\n", "3:6", "esx[01"),
    ],
)
def test_a_fault_has_its_place(tmp_path, text, place, words):
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    (found,) = refused.value.diagnostics
    assert words in found.message
    assert str(found.mark).endswith(f":{place}")
