"""Examples out of the package: all of the repository's are there, and copies are never written over other files."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from support.places import ROOT

from vsphere_ai.app.project.example_files import copy_examples, example, examples
from vsphere_ai.cli.setup.examples import command
from vsphere_ai.errors import UsageError

FOLDERS = ("playbooks", "inventories", "integrations")


def files():
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return {str(p.relative_to(ROOT)) for p in found if p.is_file() and p.suffix != ".pyc"}


def test_every_example_is_listed_with_a_sentence():
    assert {each.name for each in examples()} == files()
    assert [each.name for each in examples() if not 8 < len(each.about) < 160] == []
    listed = CliRunner().invoke(command, []).output.splitlines()
    assert listed[0].startswith("playbooks/")
    assert len(listed) == 2 * len(files())


def test_a_folder_is_listed_and_copied(tmp_path):
    inside = {name for name in files() if name.startswith("integrations/ci/")}
    assert {each.name for each in examples("integrations/ci/")} == inside
    assert CliRunner().invoke(command, ["integrations/ci"]).output.count("\n") == 2 * len(inside)
    assert {str(each.path.relative_to(tmp_path)) for each in copy_examples("integrations/ci", tmp_path)} == inside
    assert examples("integrations/c") == []


def test_an_example_is_found_by_its_path_or_its_only_name():
    assert example("playbooks/fabric.yml") == example("fabric") == (ROOT / "playbooks" / "fabric.yml").read_text()
    with pytest.raises(UsageError, match="3 examples called 'hand-over'"):
        example("hand-over")
    with pytest.raises(UsageError) as caught:
        example("../docs/index.md")
    assert caught.value.rule == "usage.example"


def test_all_are_copied_with_their_schemas(tmp_path):
    copied = copy_examples("", tmp_path)
    assert not any(each.unchanged for each in copied)
    assert {str(each.path.relative_to(tmp_path)) for each in copied} > files()
    for name in files():
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()
        for schema in re.findall(r"\$schema=(\S+)", (tmp_path / name).read_text("utf-8")):
            assert (tmp_path / name).parent.joinpath(schema).resolve().is_file()
    assert all(each.unchanged for each in copy_examples("", tmp_path))


def test_another_file_is_kept_and_nothing_is_written(tmp_path):
    there = tmp_path / "playbooks" / "time.yml"
    there.parent.mkdir()
    there.write_text("- mine\n")
    with pytest.raises(UsageError) as caught:
        copy_examples("", tmp_path)
    assert caught.value.rule == "usage.not-overwritten"
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [there]
    assert there.read_text() == "- mine\n"


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        copy_examples("fabric", tmp_path / "file")
