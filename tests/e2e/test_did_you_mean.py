"""A misspelt name, whatever it is of, is answered with the right one, or with all there are where they are few."""

from __future__ import annotations

import pytest
from support.places import INVENTORY, PLAYBOOKS

MISSION = PLAYBOOKS / "ai-ready-cluster.yml"
SET = PLAYBOOKS / "training-set.yml"
TYPED = {
    "command": (("paln", MISSION), "'plan'"),
    "command of a group": (("run", "clsoe"), "'close'"),
    "command of a group's group": (("lab", "faults", "lsit"), "'list'"),
    "mode": (("launch", "torchrum", "-f", "job.yml"), "'torchrun'"),
    "option": (("plan", "--limt", "x", MISSION), "'--limit'"),
    "choice": (("plan", "-o", "jsn", MISSION), "'text', 'json'"),
    "file": (("plan", PLAYBOOKS / "ai-redy-cluster.yml"), "'ai-ready-cluster.yml'"),
    "example": (("examples", "ai-redy-cluster"), "'ai-ready-cluster'"),
    "topic": (("explain", "pvdrma"), "'pvrdma'"),
    "key": (("explain", "mig.laoyut"), "'mig.layout'"),
    "rule": (("explain", "vm.rdma-pth"), "'vm.rdma-path'"),
    "schema": (("schema", "playbok"), "'playbook'"),
    "board": (("mig", "layouts", "a100-40g"), "a100-40gb"),
    "board of vGPU types": (("vgpu", "list", "a100-40g"), "a100-40gb"),
    "scenario": (("lab", "up", "--scenario", "trainin"), "training"),
    "method of a fault": (("lab", "faults", "add", "{on: ReconfigVM_Tsk, do: drop}"), "'ReconfigVM_Task'"),
    "fault": (("lab", "faults", "add", "{on: any, do: dorp}"), "'drop'"),
    "invariant": (("lab", "judge", "--skip", "powr"), "power"),
    "vCenter": (("plan", MISSION, "--vcenter", "lba"), "lab"),
    "pool": (("ipam", "show", "mgtm", "-i", INVENTORY.parent / "training.yml"), "'mgmt'"),
    "host": (("plan", MISSION, "--limit", "esx1.lab.local"), "'esx01.lab.local'"),
    "group": (("plan", MISSION, "--limit", "gpu_host"), "'gpu_hosts'"),
    "VM": (("rdma", "trace", "trian-01", "-i", INVENTORY), "'train-01'"),
    "VM of a set": (("replace", SET, "train-00001", "-i", INVENTORY), "'train-01'"),
}
WRITTEN = {
    "kind": ("- hosts: esx01.lab.local\n  grafics: {default_type: shared}\n", "'graphics'"),
    "key of a kind": ("- hosts: esx01.lab.local\n  mig: {mod: enabled}\n", "'mode'"),
    "key of a play": ("- hosts: esx01.lab.local\n  roling: {evacuate: power_off}\n", "'rolling'"),
    "value": ("- hosts: esx01.lab.local\n  mig: {mode: enabld}\n", "enabled"),
    "name": ("- hosts: esx1.lab.local\n  mig: {mode: enabled}\n", "'esx01.lab.local'"),
}


@pytest.mark.parametrize("of", TYPED)
def test_a_name_on_the_command_line(cli, of):
    words, meant = TYPED[of]
    assert cli(*words) in (64, 65)
    assert meant in cli.err


@pytest.mark.parametrize("of", WRITTEN)
def test_a_name_in_a_playbook(cli, of):
    text, meant = WRITTEN[of]
    assert cli("plan", cli.file(text)) == 65
    assert meant in cli.err


def test_a_run(cli):
    assert cli("apply", PLAYBOOKS / "pvrdma-only.yml", "--yes") == 0
    (run,) = {line.removeprefix("Run ").strip() for line in cli.err.splitlines() if line.startswith("Run ")}
    wrong = f"{run[:-1]}{'0' if run[-1] != '0' else '1'}"
    for command in (("run", "show"), ("run", "close"), ("resume",), ("rollback",)):
        assert cli(*command, wrong) == 64
        assert f"'{run}'" in cli.err
