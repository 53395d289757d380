"""`launch --dry-run` on the lab: the nodes of a job are the VMs of its set as they are now."""

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
    assert sets("launch", "env", "-f", job, "--dry-run") == 64
    assert not cli.out

    assert sets("apply", playbook, "--yes") == 0
    assert sets("launch", "env", "-f", job, "--dry-run", "-o", "json") == 0
    found = json.loads(cli.out)
    nodes = found["nodes"]
    assert [n["address"] for n in nodes] == [f"10.20.0.{n}" for n in range(11, 15)]
    assert [n["gpus"] for n in nodes] == [1] * 4
    assert {n["host"] for n in nodes} <= {"esx01.lab.local", "esx02.lab.local"}
    assert [p["env"]["RANK"] for n in nodes for p in n["processes"]] == ["0", "1", "2", "3"]
    assert {p["env"]["NCCL_SOCKET_IFNAME"] for n in nodes for p in n["processes"]} == {"=mgmt"}

    other = cli.file((JOB % "train.yml").replace("set: train", "set: train, nic: storage"), "other.yml")
    assert sets("launch", "torchrun", "-f", other, "--dry-run", "-o", "json") == 0
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
    assert sets("launch", "env", "-f", job, "--dry-run") == 64


def test_a_mode_that_is_not_there(sets, cli):
    assert sets("launch", "torchrn", "-f", "job.yml", "--dry-run") == 64


def test_a_set_that_is_not_whole_is_not_launched(sets, cli):
    assert sets("apply", cli.file(FULL, "train.yml"), "--yes") == 0
    cli.file(FULL.replace("[01:04]", "[01:06]"), "grown.yml")
    assert sets("launch", "env", "-f", cli.file(JOB % "grown.yml", "job.yml"), "--dry-run") == 1
    assert [name for name in ("train-04", "train-05", "train-06") if name in cli.err] == ["train-05", "train-06"]


def test_what_is_printed_and_written_has_the_rdma_devices_of_guests(sets, cli):
    assert sets("apply", cli.file(FULL, "train.yml"), "--yes") == 0
    job = cli.file(JOB % "train.yml" + "nccl: {gid_index: set}\n", "job.yml")

    def printed(*more):
        assert sets("launch", "env", "-f", job, "--dry-run", "-o", "json", *more) == 0
        found = json.loads(cli.out)
        return [n["processes"][0]["env"] for n in found["nodes"]], found["notes"]

    asked, notes = printed()
    assert notes == []
    assert all(env["NCCL_IB_HCA"].startswith("=roces") and env["NCCL_IB_HCA"].endswith(":1") for env in asked)
    assert {env["NCCL_IB_GID_INDEX"] for env in asked} == {"1"}
    assert sets("render", "nccl-env", "-f", job) == 0
    assert [line for line in cli.out.splitlines() if line.startswith("NCCL_IB_HCA=")] == list(
        dict.fromkeys(f"NCCL_IB_HCA={env['NCCL_IB_HCA']}" for env in asked)
    )
    assert sets("render", "ansible", "-f", job) == 0
    assert cli.out.count('"NCCL_IB_HCA": "=roces') == 4

    # the PCI slots of adapters, which vCenter has of VMs that run, name the devices; only guests know their GIDs
    offline, notes = printed("--no-preflight")
    assert [env["NCCL_IB_HCA"] for env in offline] == [env["NCCL_IB_HCA"] for env in asked]
    assert not any("NCCL_IB_GID_INDEX" in env for env in offline)
    (note,) = notes
    assert "NCCL_IB_GID_INDEX on train-[01:04]" in note
    assert "NCCL_IB_HCA" not in note

    known = sets.lab.directory / "known_hosts"
    known.write_text("")
    offline, notes = printed()
    assert not any("NCCL_IB_GID_INDEX" in env for env in offline)
    assert notes
    assert all("not asked here" in note for note in notes)
    assert sets("render", "nccl-env", "-f", job) == 0
    assert "NCCL_IB_GID_INDEX, not set" in cli.out
    assert "NCCL_IB_GID_INDEX on train-" in cli.err


def test_an_elastic_job_starts_without_vms_that_are_off_while_enough_are_on(sets, cli):
    from conftest import Client

    assert sets("apply", cli.file(FULL, "train.yml"), "--yes") == 0
    job = cli.file(JOB % "train.yml" + "torchrun: {elastic: '2:4'}\n", "job.yml")
    client = Client(sets.lab)

    def off(vm):
        client.wait(client.vm(vm).PowerOffVM_Task())

    def printed(mode="torchrun"):
        code = sets("launch", mode, "-f", job, "--dry-run", "--no-preflight", "-o", "json")
        return code, [n["vm"] for n in json.loads(cli.out)["nodes"]] if code == 0 else cli.err

    off("train-01")
    assert printed() == (0, ["train-02", "train-03", "train-04"])
    assert "train-01 on esx0" in cli.err
    code, said = printed("env")
    assert code == 1
    assert "train-01 on esx0" in said
    off("train-03")
    assert printed() == (0, ["train-02", "train-04"])
    off("train-04")
    code, said = printed()
    assert code == 1
    assert [vm for vm in ("train-01", "train-02", "train-03", "train-04") if f"{vm} on esx0" in said] == [
        "train-01",
        "train-03",
        "train-04",
    ]
