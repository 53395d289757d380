"""Fragments of the CHANGELOG are read strictly and merged; the workflow runs on every supported Python."""

from __future__ import annotations

import re
from configparser import ConfigParser

import pytest
import yaml
from support.places import ROOT

from tools import changes

CHANGELOG = (
    "# Changelog\n\n## 0.2\n\nText.\n\n### GPUs\n\n- old\n\n### Lab\n\n- older\n\n## 0.1\n\n### GPUs\n\n- first\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "README.md").write_text("no fragment")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_the_fragments_here_are_some():
    assert changes.main(["--check"]) == 0


def test_items_come_first_in_their_section_of_the_newest_version(folder):
    (folder / "changes" / "b.md").write_text("### Lab\n\n- two\n  lines\n- more\n")
    (folder / "changes" / "a.md").write_text("### GPUs\n\n- new\n")
    assert changes.main([], folder) == 0
    expected = CHANGELOG.replace("- old\n", "- new\n- old\n").replace("- older\n", "- two\n  lines\n- more\n- older\n")
    assert (folder / "CHANGELOG.md").read_text() == expected
    assert [p.name for p in (folder / "changes").iterdir()] == ["README.md"]


def test_reading_alone_changes_nothing(folder):
    (folder / "changes" / "a.md").write_text("### GPUs\n\n- new\n")
    assert changes.main(["--check"], folder) == 0
    assert (folder / "CHANGELOG.md").read_text() == CHANGELOG
    assert (folder / "changes" / "a.md").exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "a.md:1: '' is no section"),
        ("### Clouds\n\n- x\n", "one of: GPUs, Lab"),
        ("GPUs are better\n\n- x\n", "is no section"),
        ("### GPUs\n- x\n", "a.md:2: a blank line"),
        ("### GPUs\n\nx\n", "begin each with"),
        ("### GPUs\n\n- x\ny\n", "a.md:4: this is no list item"),
        (f"### GPUs\n\n- {'x' * 130}\n", "a.md:3: 132 columns"),
    ],
)
def test_what_is_no_fragment_is_named_and_nothing_is_written(folder, capsys, text, fault):
    (folder / "changes" / "a.md").write_text(text)
    (folder / "changes" / "good.md").write_text("### GPUs\n\n- new\n")
    assert changes.main([], folder) == 1
    assert fault in capsys.readouterr().err
    assert (folder / "CHANGELOG.md").read_text() == CHANGELOG
    assert (folder / "changes" / "good.md").exists()


def test_the_workflow_runs_on_each_python_that_is_supported():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    job = workflow["jobs"]["run"]
    assert ".ci/run" in [step.get("run") for step in job["steps"]]
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert job["strategy"]["matrix"]["python"] == re.findall(r"Python :: (3\.\d+)", config["metadata"]["classifiers"])
