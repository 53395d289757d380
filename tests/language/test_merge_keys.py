"""Merge keys: shallow, own keys win, of a list the earlier; mistakes and marks where they are written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from language.variables_support import Files, stated

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.yaml_files.document import FaultCollector, parse
from vsphere_ai.language.yaml_files.merge_keys import load
from vsphere_ai.language.yaml_files.yaml import MAX_DEPTH


@pytest.fixture
def files(tmp_path, kinds):
    return Files(tmp_path, kinds)


@pytest.fixture
def read(tmp_path):
    def read(text):
        (tmp_path / "a.yml").write_text(text)
        faults = FaultCollector()
        document = load(tmp_path / "a.yml", faults)
        faults.raise_any()
        return document

    return read


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}", {"x": 3, "y": 2}),
        ("a: &a {x: 1, y: 2}\nb: {x: 3, <<: *a}", {"x": 3, "y": 2}),
        ("a: [&a {x: 1}, &b {x: 2, y: 3}]\nb: {<<: [*a, *b]}", {"x": 1, "y": 3}),
        ("a: &a {x: {p: 1, q: 2}}\nb: {<<: *a, x: {p: 3}}", {"x": {"p": 3}}),
        ("a: &a {x: 1}\nc: &c {<<: *a, y: 2}\nb: {<<: *c}", {"x": 1, "y": 2}),
        ("b: {<<: {x: 1}}", {"x": 1}),
        ("b: {<<: []}", {}),
    ],
)
def test_what_a_merge_key_means(read, text, data):
    assert read(text).data["b"] == data


def test_a_taken_key_and_its_value_are_where_they_are_written(read):
    document = read("a: &a\n  x: 1\nb:\n  <<: *a\n  y: 2\n")
    assert (document.mark_of_key(("b", "x")).line, document.mark_of(("b", "x")).column) == (2, 6)
    assert document.mark_of_key(("b", "y")).line == 5


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: {<<: 5}", "1:9", "'<<' takes a mapping, or a list of mappings, but this is the number 5"),
        ("a: {<<: [{b: 1}, x]}", "1:18", "but this is 'x'"),
        ("a: &a {b: 1}\nc: {<<: *a, <<: *a}", "2:13", "the key '<<' is given twice"),
        ("a: {<<: *b}", "1:9", "the alias *b has no anchor above it"),
        ("a: &a {<<: *a}", "1:12", "is inside of what it stands for"),
    ],
)
def test_a_mistake_is_named_at_its_place(read, text, place, message):
    with pytest.raises(InputError) as caught:
        read(text)
    (found,) = caught.value.diagnostics
    assert f"{found.mark.line}:{found.mark.column}" == place
    assert message in found.message
    if "twice" in message:
        assert "<<: [*one, *two]" in found.help


def test_a_fault_in_a_taken_value_is_named_where_it_is_written(files):
    text = "- x-vgpu: &a\n    version: high\n- vms: x\n  hardware:\n    <<: *a\n"
    assert files.faults(text)[0][0] == "play.yml:2:14"


def test_anchors_may_be_in_items_of_their_own_and_hold_variables(files):
    text = "- vars: {v: 19}\n- x-hardware: &a {version: '${v}', locked: true}\n"
    text += "- vms: x\n  hardware: {<<: *a, locked: false}\n"
    assert stated(files.read(text)) == {"hardware.version": 19, "hardware.locked": False}


def test_an_inventory_may_merge_and_hold_anchors(files):
    text = "x-a: &a {cluster: gpu-a}\nhosts: {one: {<<: *a}, two: {<<: *a, cluster: gpu-b}}\n"
    found = load_inventory(
        files.write("i.yml", f"lab: false\n{text}vcenters: {{v: {{address: a, username: u, password: 'env:V'}}}}\n")
    )
    assert [g.selector.cluster for g in found.hosts.values()] == [("gpu-a",), ("gpu-b",)]


def test_aliases_inside_of_aliases_are_not_deeper_than_anything_else():
    levels = "\n".join(f"a{n}: &a{n} [[[[[[*a{n - 1}]]]]]]" for n in range(1, 40))
    with pytest.raises(InputError) as caught:
        parse(f"a0: &a0 [x]\n{levels}\n", "deep.yml")
    assert f"more than {MAX_DEPTH} levels deep" in caught.value.diagnostics[0].message


MAPPINGS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), max_size=4)


@settings(max_examples=50, deadline=None)
@given(own=MAPPINGS, others=st.lists(MAPPINGS, max_size=3))
def test_merging_is_the_later_laid_below_the_earlier(tmp_path_factory, own, others):
    path = tmp_path_factory.mktemp("merge") / "a.yml"
    anchors = "".join(f"x{n}: &x{n} {each}\n" for n, each in enumerate(others))
    merge = f"<<: [{', '.join(f'*x{n}' for n in range(len(others)))}]"
    entries = ", ".join([merge, *(f"{key}: {value}" for key, value in own.items())])
    path.write_text(f"{anchors}all: {{{entries}}}\n".replace("'", '"'))
    wanted = {}
    for each in (*reversed(others), own):
        wanted |= each
    assert load(path, FaultCollector()).data["all"] == wanted
