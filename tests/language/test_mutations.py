"""Whatever is in a file, reading it ends in a value or in an InputError with a place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.inventories.patterns import PatternError
from vsphere_ai.language.inventories.patterns import parse as parse_pattern
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.yaml_files.document import parse

ROOT = Path(__file__).parents[2]
PLAYBOOKS = tuple(path.read_bytes() for path in sorted((ROOT / "playbooks").glob("*.yml")))
INVENTORIES = ((ROOT / "inventories/example.yml").read_bytes(),)
PIECES = tuple(
    text.encode()
    for text in (
        *"[]{}:,-?&*!|>'\"%@`#~\t\r\n\0\x7f\u2028",
        *(": ", "- ", "<<: *a", "&a ", "*a", "!!python/name:os ", "!x ", "---\n", "...\n", "null", "true", "0x", "1e9"),
        *(
            "2001-99-99",
            "9" * 400,
            "\\ud800",
            "\ufeff",
            "\U0001f600",
            "hosts: ",
            "vms: ",
            "mig: ",
            "[01:16]",
            "password: ",
        ),
    )
)
QUICK = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def mutated(draw, originals):
    text = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 40)))
        match draw(st.integers(0, 3)):
            case 0:
                text[at:at] = draw(st.sampled_from(PIECES))
            case 1:
                del text[at:end]
            case 2:
                text[at:end] = draw(st.binary(max_size=8))
            case _:
                text[at:at] = text[at:end]
    return bytes(text)


def faults_of(read):
    try:
        read()
    except InputError as error:
        return error.diagnostics or pytest.fail("an error without a fault")
    return ()


def check(read, path, content):
    path.write_bytes(content)
    for diagnostic in faults_of(lambda: read(path)):
        assert diagnostic.mark.file == str(path)
        assert diagnostic.message
        assert diagnostic.mark.line <= len(content.decode("utf-8", "replace").splitlines()) + 1


@QUICK
@given(content=mutated(PLAYBOOKS))
def test_a_mutated_playbook_is_read_or_refused(content, kinds, tmp_path):
    check(lambda path: load_playbook(path, kinds), tmp_path / "playbook.yml", content)


@QUICK
@given(content=mutated(INVENTORIES))
def test_a_mutated_inventory_is_read_or_refused(content, tmp_path):
    check(load_inventory, tmp_path / "inventory.yml", content.replace(b"lab: true", b""))


WORDS = [
    *("name", "hosts", "vms", "rolling", "power", "vcenter", "graphics", "mig", "layout", "mode", "gpus", "vgpu", "?"),
    *("profiles", "pvrdma", "port_group", "protocol", "hardware", "version", "timeout", "max_unavailable"),
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["all", "30m", "9"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=12,
)


@QUICK
@given(plays=st.lists(JSON, max_size=3))
def test_any_structure_is_read_or_refused(plays, kinds, tmp_path):
    check(lambda path: load_playbook(path, kinds), tmp_path / "playbook.yml", json.dumps(plays).encode())


@QUICK
@given(text=st.text(max_size=80))
def test_any_text_is_read_or_refused(text):
    assert all(d.message for d in faults_of(lambda: parse(text, "a.yml")))


@QUICK
@given(text=st.text(alphabet="ab01[]:,!&*?-. /", max_size=24))
def test_any_pattern_is_read_or_refused(text):
    try:
        terms = parse_pattern(text)
    except PatternError:
        return
    assert any(not term.sign for term in terms)
    assert all(term.name == term.name.strip() != "" for term in terms)


def test_a_long_pattern_is_refused_at_once():
    with pytest.raises(PatternError, match="longer than"):
        parse_pattern("[" * 100_000)
