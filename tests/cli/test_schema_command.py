"""`vsphere-ai schema`: what it prints and writes, and which files it keeps."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from support.places import ROOT

from tools.docgen.schemas.__main__ import SCHEMAS
from vsphere_ai.app.project.schemas import OF_FILES, schemas
from vsphere_ai.cli.reference.schema import command
from vsphere_ai.errors import UsageError

FOLDER = ROOT / "docs" / "schemas"


def run(*arguments):
    done = CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*arguments):
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False, standalone_mode=False)
    return caught.value


def test_every_published_schema_is_listed():
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.schema.json" for name in SCHEMAS}
    assert list(schemas()) == [*(n for n in SCHEMAS if n in OF_FILES), *sorted(n for n in SCHEMAS if n not in OF_FILES)]
    assert all(schemas().values()), "each says what it is of"
    assert [line.split()[0] for line in run().splitlines()] == list(schemas())


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_printed_as_published(name):
    assert run(name) == (FOLDER / f"{name}.schema.json").read_text("utf-8")


def test_a_schema_is_written_and_its_older_version_replaced(tmp_path):
    path = tmp_path / "playbook.json"
    run("playbook", "--to", path)
    assert path.read_text("utf-8") == run("playbook")
    assert "already" in run("playbook", "--to", path)
    path.write_text(json.dumps(json.loads(run("playbook")) | {"type": "object"}, indent=2), "utf-8")
    run("playbook", "--to", path)
    assert path.read_text("utf-8") == run("playbook")


@pytest.mark.parametrize("content", [b"- hosts: all\n", b"", b"\xff\xfe", b'{"title": "Playbook of vsphere-ai"}'])
def test_another_file_is_kept(content, tmp_path):
    path = tmp_path / "playbook.yml"
    path.write_bytes(content)
    error = refused("playbook", "--to", path)
    assert error.rule in ("usage.not-overwritten", "usage.schema")
    assert error.exit_code == 64
    assert path.read_bytes() == content


def test_the_schema_of_something_else_is_kept(tmp_path):
    path = tmp_path / "schema.json"
    run("inventory", "--to", path)
    assert refused("playbook", "--to", path).rule == "usage.not-overwritten"
    assert path.read_text("utf-8") == run("inventory")


def test_what_cannot_be_written_is_said(tmp_path):
    assert refused("playbook", "--to", tmp_path / "none" / "a.json").rule == "usage.schema"


@pytest.mark.parametrize("arguments", [("playbok",), ("playbok", "--to", "a.json")])
def test_a_misspelt_name_is_answered_with_those_there_are(arguments):
    error = refused(*arguments)
    assert error.rule == "usage.schema"
    assert "playbook" in error.remedy
