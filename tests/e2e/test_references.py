"""Two playbooks, one of which takes values of the other: refused until they are true, and once they are not."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import FARM, INVENTORY, play

pytestmark = pytest.mark.lab
SERVERS = play("store-01", name="store", nics=1)
OUTPUTS = (
    "\n- outputs: {lan: '${store[1].nics.mgmt.port_group}', cpus: CPUS, address: '${store[1].nics.mgmt.address}'}\n"
)
WORKERS = play("train-01", nics=1, cpus="${ref:servers.cpus}").replace("dvpg-lan", "'${ref:servers.lan}'")


@pytest.fixture
def sets(cli, make_lab, monkeypatch):
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    inventory = cli.file(INVENTORY, "inventory.yml")
    return lambda command, *more: cli(command, *more, "-i", inventory)


def test_values_of_another_playbook(sets, cli):
    servers = cli.file(SERVERS + OUTPUTS.replace("CPUS", "4"), "servers.yml")
    workers = cli.file(WORKERS, "workers.yml")
    assert sets("plan", workers) == 65, "the other playbook is not applied"
    assert all(f"{name}.yml:" in cli.err for name in ("workers", "servers"))

    assert sets("apply", servers, "--yes") == 0
    plan = cli.folder / "workers.json"
    assert sets("plan", workers, "--to", plan) == 0
    (saved,) = [r for r in json.loads(plan.read_text())["desired"]["references"] if r["output"] == "cpus"]
    assert (saved["value"], saved["text"]) == (4, "${ref:servers.cpus}")

    cli.file(SERVERS + OUTPUTS.replace("CPUS", "6"), "servers.yml")
    assert (sets("apply", plan), cli.error) == (3, "plan.reference")
    assert sets("plan", workers, "--to", plan) == 0
    assert sets("apply", plan) == 0
    assert sets("plan", workers, "--detailed-exitcode") == 0

    cli.file(SERVERS + OUTPUTS.replace("CPUS", "many"), "servers.yml")
    assert sets("plan", workers) == 65, "a type that the field does not take"
    cli.file(SERVERS.replace("storage", "x") + "\n- outputs: {cpus: '${ref:workers.n}', lan: a}\n", "servers.yml")
    assert sets("plan", workers) == 65, "a circle"
    assert "circle" in cli.err
