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
from vsphere_ai.app.training.benchmarks.parse import load_baseline
from vsphere_ai.app.training.health.checked import load_profile
from vsphere_ai.app.training.launch.job import load_job
from vsphere_ai.errors import InputError, UsageError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.language.yaml_files import merge_keys, variable_values
from vsphere_ai.language.yaml_files.document import FaultCollector, load
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
    "playbooks/merge-a-text.yml": "merge keys are read before a schema sees the file",
    "playbooks/include-missing.yml": "which files there are, a schema cannot know",
}
MISTAKES_BY_MEANING = {
    "[3g.20g,": "which profiles there are, a board says",
    "[3g20gb,": "which profiles there are, a board says",
    "train-[01:4]": "a pattern has a grammar of its own",
    "train-[04:01]": "a pattern has a grammar of its own",
}


def validator(name):
    return jsonschema.Draft7Validator(json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8")))


def read_values(path):
    """As `--vars-file` does: the form of the file, whatever a playbook declares."""
    faults = FaultCollector()
    read = load(path)
    for name in [n for n in read.root.value if n.startswith("x-")] if isinstance(read.root.value, dict) else ():
        del read.root.value[name]
    variable_values.read_values(read, (), "vars file", faults)
    faults.raise_any()


READERS = {
    "playbook": lambda path: load_playbook(path, kinds()),
    "inventory": load_inventory,
    "values": read_values,
    "job": load_job,
    "profile": load_profile,
    "baseline": load_baseline,
}
VALIDATORS = {name: validator(name) for name in READERS}


def faults(name, path):
    """What a schema says against a file, as an editor would."""
    data = merge_keys.load(path, FaultCollector()).data  # as the language server reads them
    found = VALIDATORS[name].iter_errors(json.loads(json.dumps(data)))
    return [f"{list(each.absolute_path)}: {each.message[:300]}" for each in found]


def is_good(name, path):
    try:
        READERS[name](path)
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
        (match[2], f"{page.stem}-{number}")
        for page in pages
        for number, match in enumerate(FENCE.finditer(page.read_text("utf-8")))
        if {"including": "playbook"}.get(match[1], match[1]) == name
    ]


BLOCKS = [(name, *block) for name in READERS for block in blocks(name)]


@pytest.mark.parametrize(("name", "text"), [b[:2] for b in BLOCKS], ids=[f"{b[0]}-{b[2]}" for b in BLOCKS])
def test_the_files_of_the_documentation_are_valid(name, text, tmp_path):
    (tmp_path / "block.yml").write_text(text, "utf-8")
    assert faults(name, tmp_path / "block.yml") == []


def test_the_documentation_shows_files_of_each_kind():
    assert {b[0] for b in BLOCKS} == {"playbook", "inventory", "values", "job"}


FILES = [
    *(("playbook", path) for path in sorted((ROOT / "playbooks").glob("*.yml"))),
    *(("inventory", path) for path in sorted((ROOT / "inventories").glob("*.yml"))),
    *(("values", ROOT / "playbooks" / "sites" / f"{site}.yml") for site in ("berlin", "munich")),
    ("playbook", ROOT / "playbooks" / "sites" / "time.yml"),
    *(("job", path) for path in sorted((ROOT / "playbooks").glob("*-job.yaml"))),
    *(("profile", path) for path in sorted((ROOT / "playbooks" / "profiles").glob("*.yml"))),
]


@pytest.mark.parametrize(("name", "path"), FILES, ids=lambda v: getattr(v, "name", v))
def test_the_examples_are_valid_and_name_their_schema(name, path):
    assert faults(name, path) == []
    first = path.read_text("utf-8").splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / first).resolve() == FOLDER / f"{name}.schema.json"


@pytest.mark.parametrize(("name", "path"), FILES, ids=lambda v: getattr(v, "name", v))
def test_an_unknown_key_is_refused_wherever_it_is(name, path, tmp_path):
    """In every mapping of an example that has keys of the tool; in the others keys are names."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    seen = 0
    for number, line in enumerate(lines):
        key = re.match(r"( *(?:- )?)([a-z_]+):( |$)", line)
        if key is None:
            continue
        indent = key[1].replace("- ", "  ")
        (tmp_path / "file.yml").write_text(
            "".join([*lines[: number + 1], f"{indent}unknown_key_x: {{}}\n", *lines[number + 1 :]])
        )
        try:
            load(tmp_path / "file.yml")
        except InputError:
            continue  # the key stands where YAML takes none
        if not is_good(name, tmp_path / "file.yml"):
            seen += 1
            assert faults(name, tmp_path / "file.yml"), number
    assert seen or name == "inventory"


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


JOBS = tuple(path.read_bytes() for path in sorted((ROOT / "playbooks").glob("*-job.yaml")))
JOBS += tuple(text.encode() for name, text, _ in BLOCKS if name == "job")


@QUICK
@given(content=mutated(JOBS))
def test_a_job_that_the_tool_reads_is_valid(content, tmp_path):
    path = tmp_path / "job.yml"
    path.write_bytes(content)
    if is_good("job", path):
        assert faults("job", path) == []


@pytest.mark.parametrize(
    "text",
    [
        "training_job: a\nnodes: {playbook: a.yml, set: a}\n",
        "training_job: a\nnodes: {playbook: a.yml, set: a}\nscript: /a.py\nmodule: b\n",
        "training_job: a\nnodes: {playbook: a.yml, set: a}\nscript: a.py\n",
        "training_job: a\nnodes: []\nscript: /a.py\n",
        "training_job: a\nnodes: {playbook: a.yml, set: a}\nscript: /a.py\ngrace: 10\n",
        "training_job: a\nnodes: {playbook: a.yml, set: a}\nscript: /a.py\nenv: {1A: b}\n",
        "training_job: a\nnodes: {playbook: a.yml, set: a}\nscript: /a.py\ntorchrun: {elastic: 2-4}\n",
    ],
)
def test_a_broken_job_is_refused(text, tmp_path):
    (tmp_path / "job.yml").write_text(text, "utf-8")
    assert not is_good("job", tmp_path / "job.yml")
    assert faults("job", tmp_path / "job.yml")


VALUES = (
    b"time_servers: [10.10.0.1, 10.10.0.2]\ncpu_mhz: 4000\nsite: Berlin\nfull: true\nx-a: &a {b: [1]}\nshare: 0.5\n",
)


@QUICK
@given(content=mutated(VALUES))
def test_a_file_of_values_that_the_tool_reads_is_valid(content, tmp_path):
    path = tmp_path / "values.yml"
    path.write_bytes(content)
    if is_good("values", path):
        assert faults("values", path) == []


@pytest.mark.parametrize(
    "text", ["- a\n", "a: {b: 1}\n", "a: [[1]]\n", "A: 1\n", "a: null\n", "a: [1, null]\n", "a-b: 1\n"]
)
def test_a_broken_file_of_values_is_refused(text, tmp_path):
    (tmp_path / "values.yml").write_text(text, "utf-8")
    assert not is_good("values", tmp_path / "values.yml")
    assert faults("values", tmp_path / "values.yml")
