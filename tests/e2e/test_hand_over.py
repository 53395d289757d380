"""Examples of a hand-over, on the scenario they name: playbook, job and profile fit each other and the farm."""

from __future__ import annotations

import json

import pytest
from e2e.test_set_playbooks import POOLS, training  # noqa: F401
from support.places import PLAYBOOKS
from support.vm_sets import Sets

pytestmark = pytest.mark.lab
PLAYBOOK, JOB = PLAYBOOKS / "hand-over.yml", PLAYBOOKS / "hand-over-job.yaml"


def test_a_hand_over_from_the_playbook_to_the_certificate(training, cli):  # noqa: F811
    sets = Sets(cli, training, POOLS)
    sets.applied(PLAYBOOK.read_text("utf-8"))
    assert sets("plan", PLAYBOOK, "--detailed-exitcode") == 0, cli.out

    assert sets("launch", "torchrun", "-f", JOB, "--dry-run", "-o", "json") == 0, cli.err
    nodes = json.loads(cli.out)["nodes"]
    assert [node["vm"] for node in nodes] == [f"train-0{n}" for n in range(1, 5)]
    for node in nodes:
        (process,) = node["processes"]
        assert "--nnodes=2:4" in process["argv"]
        assert process["argv"][-1] == "{local_rank}"
        assert [file["name"] for file in node["files"]] == ["rank.py"]

    before = len(sets.ledger())
    assert sets("launch", "torchrun", "-f", JOB) == 1
    assert "the guests of the lab run no processes of a job" in cli.err, "it came through the pre-flight"
    training.set_defects({"kind": "port-rejected", "vm": "train-01", "port": 29400})
    assert sets("launch", "torchrun", "-f", JOB) == 1
    assert "the others do not reach it (10.20.0.11) on port 29400: connection refused" in cli.err
    training.set_defects()

    profile = cli.file((PLAYBOOKS / "profiles" / "hand-over.yml").read_text("utf-8") + "interval: 0\n", "profile.yml")
    certificate = cli.folder / "certificate.json"
    sets("accept", PLAYBOOK, "--profile", profile, "--certificate", certificate)
    statuses = json.loads(certificate.read_text("utf-8"))["statuses"]
    assert (statuses["health"], statuses["rdma"]) == ("pass", "pass"), cli.out
    assert len(sets.ledger()) == before
