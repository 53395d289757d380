"""The JSON Schemas: as committed, and of every playbook and inventory no stricter than the tool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from language.test_broken import BROKEN, EXPECTED
from language.test_fuzz_mistakes import INVENTORY, MISTAKES, PLAYBOOK
from language.test_mutations import INVENTORIES, PLAYBOOKS, QUICK, mutated

from tools.docgen.schemas.__main__ import SCHEMAS, text_of
from vsphere_ai.errors import InputError, UsageError
from vsphere_ai.language.document import Faults, load
from vsphere_ai.language.inventory import load_inventory
from vsphere_ai.language.playbook import load_playbook
from vsphere_ai.resources import kinds

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "schemas"
FENCE = re.compile(r"^```yaml (\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KEYWORDS_AFTER_DRAFT_7 = {
    *("$defs", "$anchor", "$dynamicRef", "dependentRequired", "dependentSchemas", "maxContains", "minContains"),
    *("prefixItems", "unevaluatedItems", "unevaluatedProperties"),
}
# what only the tool can find, and why
BY_MEANING = {
    "playbooks/out-of-range.yml": "broken for the kinds of the language's tests; the product takes hardware version 9",
}
MISTAKES_BY_MEANING = {
    "[3g.20g,": "which profiles there are, a board says",
    "[3g20gb,": "which profiles there are, a board says",
    "train-[01:4]": "a pattern has a grammar of its own",
    "train-[04:01]": "a pattern has a grammar of its own",
}


def validator(name):
    return jsonschema.Draft7Validator(json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8")))


VALIDATORS = {name: validator(name) for name in ("playbook", "inventory")}


def faults(name, path):
    """What a schema says against a file, as an editor would."""
    data = load(path, Faults()).data
    found = VALIDATORS[name].iter_errors(json.loads(json.dumps(data)))
    return [f"{list(each.absolute_path)}: {each.message[:300]}" for each in found]


def is_good(name, path):
    try:
        load_playbook(path, kinds()) if name == "playbook" else load_inventory(path)
    except UsageError:
        return True  # no lab runs
    except InputError:
        return False
    return True


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_as_committed(name):
    assert (FOLDER / f"{name}.schema.json").read_text("utf-8") == text_of(name), "run: make docs"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_of_draft_7(name):
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"

    def look(node):
        if isinstance(node, dict):
            assert not KEYWORDS_AFTER_DRAFT_7 & node.keys()
            assert "$ref" not in node or len(node) == 1, "draft-07 does not look beside a reference"
            if "$ref" in node:
                assert node["$ref"].removeprefix("#/definitions/") in schema["definitions"]
        for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            look(each)

    look(schema)


def blocks(name):
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        pytest.param(match[2], id=f"{page.stem}-{number}")
        for page in pages
        for number, match in enumerate(FENCE.finditer(page.read_text("utf-8")))
        if match[1] == name
    ]


@pytest.mark.parametrize("text", blocks("playbook"))
def test_the_playbooks_of_the_documentation_are_valid(text, tmp_path):
    (tmp_path / "block.yml").write_text(text, "utf-8")
    assert faults("playbook", tmp_path / "block.yml") == []


@pytest.mark.parametrize("text", blocks("inventory"))
def test_the_inventories_of_the_documentation_are_valid(text, tmp_path):
    (tmp_path / "block.yml").write_text(text, "utf-8")
    assert faults("inventory", tmp_path / "block.yml") == []


FILES = [
    *(("playbook", path) for path in sorted((ROOT / "playbooks").glob("*.yml"))),
    *(("inventory", path) for path in sorted((ROOT / "inventories").glob("*.yml"))),
]


@pytest.mark.parametrize(("name", "path"), FILES, ids=lambda v: getattr(v, "name", v))
def test_the_examples_are_valid(name, path):
    assert faults(name, path) == []


@pytest.mark.parametrize("file", EXPECTED)
def test_a_broken_file_is_refused_where_its_structure_is(file):
    name = "playbook" if file.startswith("playbooks/") else "inventory"
    try:
        load(BROKEN / file)
    except InputError:
        return  # it is no YAML that an editor would hand to a schema
    assert bool(faults(name, BROKEN / file)) == (file not in BY_MEANING), BY_MEANING.get(file)


def test_slips_of_the_hand_are_refused(tmp_path):
    missed = []
    for name, typed, meant, _ in MISTAKES:
        path = tmp_path / "file.yml"
        path.write_text((PLAYBOOK if name == "playbook" else INVENTORY).replace(meant, typed, 1), "utf-8")
        if not faults(name, path):
            missed.append(typed)
    assert missed == list(MISTAKES_BY_MEANING)


@QUICK
@given(content=mutated(PLAYBOOKS))
def test_a_playbook_that_the_tool_reads_is_valid(content, tmp_path):
    path = tmp_path / "playbook.yml"
    path.write_bytes(content)
    if is_good("playbook", path):
        assert faults("playbook", path) == []


@QUICK
@given(content=mutated(INVENTORIES))
def test_an_inventory_that_the_tool_reads_is_valid(content, tmp_path):
    path = tmp_path / "inventory.yml"
    path.write_bytes(content)
    if is_good("inventory", path):
        assert faults("inventory", path) == []
