"""The shipped training set: one of its VMs is replaced, and its run is rolled back by what the refusal says."""

from __future__ import annotations

from importlib import resources

import pytest
from support.places import INVENTORY, PLAYBOOKS

pytestmark = pytest.mark.lab
SCENARIO = resources.files("vsphere_ai.lab").joinpath("scenarios", "training.yml").read_text(encoding="utf-8")
SET = PLAYBOOKS / "training-set.yml"


@pytest.fixture
def training(cli, make_lab, monkeypatch):
    lab = make_lab(SCENARIO)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    where = ("-i", INVENTORY.parent / "training.yml")
    assert cli("apply", SET, *where, "--yes") == 0, cli.out + cli.err
    cli.lab, cli.where = lab, where
    return cli


def test_a_vm_with_an_rdma_adapter_is_replaced(training):
    assert training("replace", SET, "train-02", *training.where, "--yes", "--destroy", 1) == 0, training.out
    assert training("plan", SET, *training.where, "--detailed-exitcode") == 0, training.out


def test_its_run_is_rolled_back_by_what_the_refusal_says(training):
    assert training("run", "list") == 0
    run = training.out.split()[0]
    assert training("rollback", run, "--yes") == 1
    assert "write rolling" not in training.out, "there is no playbook to edit"
    assert "vsphere-ai destroy" in training.out
    assert training("destroy", SET, *training.where, "--yes", "--destroy", 4) == 0, training.out + training.err
    assert training("rollback", run, "--yes") == 0, training.out + training.err
    assert {host["graphics"]["default"] for host in training.lab.get("/lab/farm")["hosts"]} == {"shared"}
