"""`--dry-run`: what would be changed is shown, nothing is changed, and no one is asked."""

from __future__ import annotations

import json

import pytest
from support.places import INVENTORY, PLAYBOOKS

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
PLAY = PLAYBOOKS / "pvrdma-only.yml"


def test_apply_shows_what_plan_shows(cli, ledger):
    assert cli("plan", PLAY, "-i", INVENTORY, "-o", "json") == 0
    planned = json.loads(cli.out)
    assert cli("apply", PLAY, "-i", INVENTORY, "--dry-run", "--yes", "-o", "json") == 0, cli.err
    assert json.loads(cli.out)["steps"] == planned["steps"]
    assert not ledger()
    assert not list(journal.every())


def test_a_saved_plan_is_compared_and_not_carried_out(cli, ledger, lab):
    saved = cli.folder / "plan.json"
    assert cli("plan", PLAY, "-i", INVENTORY, "--to", saved) == 0
    assert cli("apply", saved, "-i", INVENTORY, "--dry-run") == 0, cli.err
    assert not ledger()
    assert cli("apply", saved, "-i", INVENTORY, "--yes") == 0, cli.err
    made = ledger()
    assert cli("apply", saved, "-i", INVENTORY, "--dry-run") == 3, "it is not what would be done now"
    assert ledger() == made


def test_a_rollback_and_a_resume_are_shown(cli, ledger):
    assert cli("apply", PLAY, "-i", INVENTORY, "--yes") == 0, cli.err
    (record,) = journal.every()
    made = ledger()
    assert cli("rollback", record.id, "--dry-run", "--yes") == 0, cli.err
    assert "Nothing was changed." in cli.err
    assert ledger() == made
    (same,) = journal.every()
    assert same.run.rolled_back == record.run.rolled_back
    assert cli("resume", record.id, "--dry-run") == 0, cli.err
    assert ledger() == made


def test_other_runs_are_not_finished_first_in_a_dry_run(cli):
    assert cli("apply", PLAY, "-i", INVENTORY, "--dry-run", "--resume") == 64
    assert "--resume" in cli.err


def test_records_stay(cli):
    assert cli("apply", PLAY, "-i", INVENTORY, "--yes") == 0, cli.err
    (record,) = journal.every()
    assert cli("run", "prune", "--older-than", "0h", "--dry-run") == 0
    assert record.id in cli.out
    assert [each.id for each in journal.every()] == [record.id]
    assert cli("run", "unlock", "-i", INVENTORY, "--dry-run") == 0


def test_the_lab_and_its_faults_stay_as_they_are(cli, lab, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    lab.set_faults("{on: PowerOnVM_Task, nth: 2, do: lost-reply}")
    lab.set_defects({"kind": "gpu-busy", "vm": "trn-01"})
    rules = cli.file("[{on: PowerOffVM_Task, nth: 1, do: lost-reply}]", "faults.yml")

    def state():
        farm = lab.get("/lab/farm")
        return lab.get("/lab/faults"), lab.get("/lab/defects"), farm

    before = state()
    for words, shown in (
        (("reset",), "would go back to the start"),
        (("down",), "would stop"),
        (("mark",), "would start after change"),
        (("plant", "{kind: gpu-slow, vm: trn-02, factor: 0.5}"), "gpu-slow: vm trn-02, factor 0.5"),
        (("plant", "--clear"), "There are no defects."),
        (("faults", "set", rules), "1 rule for faults would replace those of the lab."),
        (("faults", "add", "{on: RebootHost_Task, nth: 1, do: lost-reply}"), "would be added"),
        (("faults", "release", 1), "Rule 1 would be released"),
        (("faults", "clear"), "1 rule would be removed"),
    ):
        assert cli("lab", *words, "--dry-run") == 0, (words, cli.err)
        assert shown in cli.out, words
        assert state() == before, words
    for words in (("plant", "{kind: no-such}"), ("faults", "add", "{on: NoSuchMethod_Task, do: what}")):
        assert cli("lab", *words, "--dry-run") in (64, 65), words


def test_a_project_is_shown_and_not_written(cli, lab, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    folder = cli.folder / "project"
    assert cli("init", folder, "--lab", "--dry-run") == 0, cli.err
    assert "lab: true" in cli.out
    assert "Nothing was written." in cli.err
    assert not folder.exists()
