"""Example playbooks of sets, on the scenario they name: one clone, reconfigure and power-on per VM, then nothing."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from support.places import ROOT, SET_PLAYBOOKS
from support.vm_sets import Sets

from vsphere_ai.lab.scenario_file import shipped

pytestmark = pytest.mark.lab
POOLS = ROOT / "inventories" / "training.yml"
QUICK = "timing: {boot_seconds: 0.3, task_seconds: 0.01, shutdown_seconds: 0.05, guest_seconds: 0.1}"
ONCE = {
    "training-set": ("CloneVM_Task", "UpgradeVM_Task", "ReconfigVM_Task", "PowerOnVM_Task"),
    "hand-over": ("CloneVM_Task", "UpgradeVM_Task", "ReconfigVM_Task", "PowerOnVM_Task"),
    "vm-set": ("CloneVM_Task", "PowerOnVM_Task"),
    "prepared-guests": ("CloneVM_Task", "PowerOnVM_Task"),
}


@pytest.fixture
def training(cli, make_lab, monkeypatch):
    quick, changed = re.subn(r"(?m)^timing: .*$", QUICK, shipped()["training"].read_text("utf-8"))
    assert changed == 1
    lab = make_lab(quick)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    return lab


@pytest.mark.parametrize("playbook", SET_PLAYBOOKS, ids=lambda p: p.stem)
def test_an_example_converges_and_leaves_nothing_behind(training, cli, playbook):
    def vms():
        return {vm["name"]: vm["power"] for vm in training.get("/lab/farm")["vms"]}

    sets, before = Sets(cli, training, POOLS), vms()
    assert sets("plan", playbook, "--detailed-exitcode") == 2, cli.out
    sets.applied(playbook.read_text("utf-8"))
    made = vms().keys() - before.keys()
    calls = Counter((e["object"], e["call"]) for e in sets.ledger() if e["object"] in made)
    assert calls == {(name, call): 1 for name in made for call in ONCE[playbook.stem]}
    assert sets("verify", playbook) == 0
    assert {index for _, index, _ in sets.addresses()} == set(range(1, len(made) + 1))
    assert sets("ipam", "verify") == 0
    assert sets("destroy", playbook, "--yes", "--destroy", len(made)) == 0, cli.out + cli.err
    assert vms() == before
    assert sets.addresses() == {}


def test_an_inventory_without_the_pools_of_a_set_is_refused(training, cli, tmp_path):
    playbook, other = SET_PLAYBOOKS[1], tmp_path / "other.yml"
    other.write_text("lab: true\npools: {new: {subnet: 10.99.0.0/24, default: true}}\n", "utf-8")
    assert cli("apply", playbook, "-i", POOLS, "--yes") == 0, cli.out + cli.err
    found = cli.plan(playbook, "-i", other)["problems"]
    assert {p["rule"] for p in found} >= {"addresses.out-of-range", "vm_set.rebuild"}
    changed = [p["message"] for p in found if p["rule"] == "vm_set.rebuild" and "10.20.0." in p["message"]]
    assert len(changed) == 2
    assert not any(mark in text for text in changed for mark in "{}'")


def test_a_scenario_is_named_or_is_a_file(cli):
    assert cli("lab", "up", "--scenario", "missing") == 64
    assert "default, training" in cli.err
