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
