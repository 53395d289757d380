"""What machines read: the first line has the schema version, the last one is a summary, also when nothing was to do."""

from __future__ import annotations

import json

import pytest
from support.places import PLAYBOOKS

pytestmark = pytest.mark.lab
PLAYBOOK = PLAYBOOKS / "pvrdma-only.yml"


def test_apply_as_json_lines(cli, ledger):
    for round_ in (1, 2):
        assert cli("apply", PLAYBOOK, "--yes", "--format", "json") == 0, cli.err
        lines = [json.loads(line) for line in cli.out.splitlines()]
        assert lines[0]["type"] == "run"
        assert lines[0]["schema_version"] == 1
        assert lines[-1]["type"] == "summary"
        assert lines[-1]["exit_code"] == 0
        assert {line["type"] for line in lines[1:-1]} <= {"event"}
        assert bool(lines[1:-1]) == (round_ == 1), "the second time there is nothing to do"
    assert ledger()


def test_a_plan_as_json_has_everything_the_text_has(cli):
    plan = cli.plan(PLAYBOOK)
    assert plan["schema_version"] == 1
    assert {i["kind"] for i in plan["items"]} == {"pvrdma_host", "pvrdma"}
    assert sorted(s for wave in plan["waves"] for s in wave) == [s["id"] for s in plan["steps"]]
    assert {t["name"] for t in plan["impact"]["power_cycles"]} == {"train-01", "train-02", "train-03"}
