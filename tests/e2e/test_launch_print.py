"""`launch --print` on the lab: the nodes of a job are the VMs of its set as they are now."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import FARM, FULL, INVENTORY

pytestmark = pytest.mark.lab
JOB = """
training_job: ddp
nodes: {playbook: %s, set: train}
script: /shared/train.py
"""


@pytest.fixture
def sets(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    inventory = cli.file(INVENTORY, "inventory.yml")

    def run(command, *more):
        return cli(command, *more, "-i", inventory)

    run.lab = lab
    return run


def test_the_nodes_are_refused_before_apply_and_the_set_after_it(sets, cli):
    playbook = cli.file(FULL, "train.yml")
    job = cli.file(JOB % "train.yml", "job.yml")
    assert sets("launch", "env", "-f", job, "--print") == 64
    assert not cli.out

    assert sets("apply", playbook, "--yes") == 0
    assert sets("launch", "env", "-f", job, "--print", "--format", "json") == 0
    found = json.loads(cli.out)
    nodes = found["nodes"]
    assert [n["address"] for n in nodes] == [f"10.20.0.{n}" for n in range(11, 15)]
    assert [n["gpus"] for n in nodes] == [1] * 4
    assert {n["host"] for n in nodes} <= {"esx01.lab.local", "esx02.lab.local"}
    assert [p["env"]["RANK"] for n in nodes for p in n["processes"]] == ["0", "1", "2", "3"]
    assert {p["env"]["NCCL_SOCKET_IFNAME"] for n in nodes for p in n["processes"]} == {"=mgmt"}

    other = cli.file((JOB % "train.yml").replace("set: train", "set: train, nic: storage"), "other.yml")
    assert sets("launch", "torchrun", "-f", other, "--print", "--format", "json") == 0
    assert [n["address"] for n in json.loads(cli.out)["nodes"]] == [f"10.30.0.{n}" for n in range(11, 15)]


@pytest.mark.parametrize(
    ("defect", "words"),
    [({"kind": "gpu-missing", "vm": "train-03"}, "train-03"), ({"kind": "gpu-busy", "vm": "train-02"}, "train-02")],
)
def test_nothing_is_started_where_a_guest_is_not_fit(sets, cli, defect, words):
    assert sets("apply", cli.file(FULL, "train.yml"), "--yes") == 0
    job = cli.file(JOB % "train.yml", "job.yml")
    sets.lab.set_defects(defect)
    assert sets("launch", "env", "-f", job) == 1
    assert "refused" in cli.err
    assert words in cli.err
    assert "starting" not in cli.err


@pytest.mark.parametrize("words", ["set: trian", "set: train, nic: mgtm"])
def test_a_set_or_a_nic_that_is_not_there(sets, cli, words):
    cli.file(FULL, "train.yml")
    job = cli.file((JOB % "train.yml").replace("set: train", words), "job.yml")
    assert sets("launch", "env", "-f", job, "--print") == 64


def test_a_mode_that_is_not_there(sets, cli):
    assert sets("launch", "torchrn", "-f", "job.yml", "--print") == 64


def test_a_set_that_is_not_whole_is_not_launched(sets, cli):
    assert sets("apply", cli.file(FULL, "train.yml"), "--yes") == 0
    cli.file(FULL.replace("[01:04]", "[01:06]"), "grown.yml")
    assert sets("launch", "env", "-f", cli.file(JOB % "grown.yml", "job.yml"), "--print") == 1
    assert [name for name in ("train-04", "train-05", "train-06") if name in cli.err] == ["train-05", "train-06"]
