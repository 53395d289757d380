"""JSON of commands that set up: each document is as its schema says, and says what was done."""

from __future__ import annotations

import json

import pytest
from support.printed import judge

from vsphere_ai.cli.main import main


@pytest.fixture
def document(capsys, tmp_path, monkeypatch):
    """Run a command with `-o json`; return the document, which its schema has judged."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))

    def run(*words, code=0):
        line = [*map(str, words), "-o", "json"]
        assert main(line) == code
        out = capsys.readouterr().out
        judge(line, out)
        return json.loads(out)

    return run


def states(document):
    return [each["state"] for each in document["files"]]


def test_examples_are_listed_with_their_first_sentence_and_one_is_given_as_text(document, capsys):
    listed = document("examples", "playbooks")["examples"]
    assert main(["examples", "playbooks", "-o", "name"]) == 0
    assert capsys.readouterr().out.splitlines() == [each["name"] for each in listed]
    assert all(each["about"] and each["text"] is None for each in listed)
    [one] = document("examples", "pvrdma-only")["examples"]
    assert main(["examples", "pvrdma-only"]) == 0
    assert one == {**next(e for e in listed if e["name"] == one["name"]), "text": capsys.readouterr().out}


def test_files_that_are_written_say_whether_they_were_there(document, tmp_path):
    first = document("examples", "pvrdma-only", "--to", tmp_path / "try")
    assert set(states(first)) == {"written"}
    again = document("examples", "pvrdma-only", "--to", tmp_path / "try")
    assert set(states(again)) == {"unchanged"}
    assert [each["path"] for each in first["files"]] == [each["path"] for each in again["files"]]
    path = tmp_path / "job.json"
    assert states(document("schema", "job", "--to", path)) == ["written"]
    assert states(document("schema", "job", "--to", path)) == ["unchanged"]
    assert states(document("completion", "install", "fish", "--dry-run")) == ["would-be-written"]
    [installed] = document("completion", "install", "fish")["files"]
    assert installed["state"] == "written"
    assert "vsphere-ai" in (tmp_path / installed["path"]).read_text("utf-8")


def test_schemas_are_listed_and_one_is_printed_as_it_is(document, capsys):
    names = [each["name"] for each in document("schema")["schemas"]]
    assert {"playbook", "examples", "trust-host", "lab-up"} <= set(names)
    assert main(["schema", "job", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Training job of vsphere-ai"


def test_certificates_say_what_was_made_and_until_when(document, tmp_path):
    tried = document("fleet", "certificates", tmp_path / "pki", "site-a", "--dry-run")["certificates"]
    assert [each["state"] for each in tried] == ["would-be-made", "would-be-made"]
    made = document("fleet", "certificates", tmp_path / "pki", "site-a")["certificates"]
    assert [(each["name"], each["state"]) for each in made] == [("ca", "made"), ("site-a", "made")]
    assert all((tmp_path / "pki" / each["key"]).exists() for each in made)
    more = document("fleet", "certificates", tmp_path / "pki", "site-b")["certificates"]
    assert [each["state"] for each in more] == ["kept", "made"]
    assert more[0]["expires"] == made[0]["expires"]
