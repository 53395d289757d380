"""One form of a thing: what this tool keeps in its state folder, and every shape of JSON, is a model in `documents`."""

from __future__ import annotations

import ast

import pytest
from test_architecture import imports, modules, tree

OF_STATE, OF_FILES = "vsphere_ai.security.state_dir.", "vsphere_ai.security.files."
OPENS_STATE = (
    {f"{OF_STATE}own_folder"},
    {f"{OF_STATE}state_dir", f"{OF_FILES}read_bytes"},
    {f"{OF_STATE}state_dir", f"{OF_FILES}reading"},
    {f"{OF_STATE}state_dir", f"{OF_FILES}write_private"},
)
BY_HAND = {
    "json",
    "vsphere_ai.model.bounded.json_value",
    "vsphere_ai.model.bounded.yaml_value",
    "pydantic.TypeAdapter",
    "typing.TypedDict",
    "typing_extensions.TypedDict",
}


def state_modules():
    """Modules that open files of the state folder, but for that of the lab, which is a program of its own."""
    for name in modules():
        imported = {full for full, _ in imports(name)}
        if any(each <= imported for each in OPENS_STATE) and name.split(".")[0] != "lab":
            yield name


def test_who_opens_the_state_folder_leaves_its_json_to_documents():
    found = [f"{name}:{line} {full}" for name in state_modules() for full, line in imports(name) if full in BY_HAND]
    assert found == [], "read and write it by runs/state_files and a model in documents/"
    assert len(list(state_modules())) > 8, "the modules are found by what they import"


def test_no_shape_of_json_is_declared_beside_documents():
    """A TypedDict that pydantic reads is a second declaration of what a model in `documents` says."""
    found = [
        f"{name}:{line}"
        for name in modules()
        for full, line in imports(name)
        if full == "typing_extensions.TypedDict"  # the only one of which pydantic reads on Python 3.11
    ]
    assert found == []


@pytest.mark.parametrize("room", ["report", "cli", "web"])
def test_who_shows_json_reads_none_by_hand(room):
    """`json.loads` in a room that shows things is a second reader of what a model reads."""
    found = [
        f"{name}:{node.lineno}"
        for name in modules()
        if name == room or name.startswith(f"{room}.")
        for node in ast.walk(tree(modules()[name]))
        if isinstance(node, ast.Attribute) and node.attr in ("loads", "load")
        if isinstance(node.value, ast.Name) and node.value.id == "json"
    ]
    assert found == []
