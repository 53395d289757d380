"""VMs in states in which a step would fail: the plan refuses and changes nothing; what only matters is warned of."""

from __future__ import annotations

import pytest
from support.states import DRAIN, states

pytestmark = pytest.mark.lab
PLAY = "- vms: odd\n  hardware: {version: 19}\n"
HOSTS = "- hosts: esx01.lab.local\n  graphics: {default_type: shared_direct}\n  rolling: {evacuate: power_off}\n"
REFUSED = {
    "power: suspended": "vm.suspended",
    "connection: orphaned": "vm.connected",
    "connection: inaccessible": "vm.connected",
    "connection: invalid": "vm.connected",
    "connection: disconnected": "vm.connected",
    "question: 'moved or copied?'": "vm.question",
    "ft: true, power: on, tools: running": "vm.fault-tolerance",
    "disabled_methods: [UpgradeVM_Task]": "vm.methods",
    "tpm: true, key_missing: true": "vm.encrypted",
}
WARNED = {
    "snapshots: [before]": "vm.snapshots",
    "tpm: true": "vm.encrypted",
    "vapp: shop": "vm.vapp",
}


@pytest.fixture
def on(make_lab, monkeypatch):
    def use(scenario):
        made = make_lab(scenario)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
        return made

    return use


@pytest.mark.parametrize("state", REFUSED)
def test_a_plan_that_could_not_be_carried_out_is_refused(cli, on, state):
    lab = on(states(f"name: odd, {state}"))
    play = cli.file(PLAY)
    plan = cli.plan(play)
    assert {(p["target"]["name"], p["rule"]) for p in plan["problems"]} >= {("odd", REFUSED[state])}
    assert cli("apply", play, "--yes") == 1
    assert lab.get("/lab/ledger")["entries"] == []


@pytest.mark.parametrize("state", WARNED)
def test_a_state_that_is_only_warned_of_can_be_carried_out(cli, on, state):
    lab = on(states(f"name: odd, {state}"))
    play = cli.file(PLAY)
    plan = cli.plan(play)
    assert plan["problems"] == []
    assert WARNED[state] in {f["rule"] for f in plan["findings"] if f["verdict"] == "warn"}
    assert cli("apply", play, "--yes") == 0, cli.err
    assert [e["call"] for e in lab.get("/lab/ledger")["entries"]] == ["UpgradeVM_Task"]


@pytest.mark.parametrize("state", ["connection: inaccessible", "question: 'moved or copied?'"])
def test_a_running_vm_that_could_not_leave_its_host_refuses_the_plan(cli, on, state):
    lab = on(DRAIN + f"  - {{name: odd, host: esx01.lab.local, power: on, {state}}}\n")
    play = cli.file(HOSTS)
    assert {p["target"]["name"] for p in cli.plan(play)["problems"]} == {"odd"}
    assert cli("apply", play, "--yes") == 1
    assert lab.get("/lab/ledger")["entries"] == []


def test_a_suspended_vm_is_no_obstacle_to_its_host(cli, on):
    lab = on(states("name: odd, power: suspended"))
    assert cli("apply", cli.file(HOSTS), "--yes") == 0, cli.err
    assert next(v["power"] for v in lab.get("/lab/farm")["vms"] if v["name"] == "odd") == "suspended"


def test_a_vm_that_drs_moved_since_planning_stays_on(cli, on, new_client, monkeypatch):
    lab = on(DRAIN)
    soap = new_client(lab)
    play = cli.file(HOSTS)
    from vsphere_ai.app.runs import apply_plan as command

    approve = command.approve

    def moved_meanwhile(*arguments, **more):
        vm, there = soap.vm("plain"), soap.host("esx02")
        soap.wait(vm.MigrateVM_Task(host=there, priority="defaultPriority"))
        return approve(*arguments, **more)

    monkeypatch.setattr(command, "approve", moved_meanwhile)
    assert cli("apply", play, "--yes") == 0, cli.err
    calls = [e["call"] for e in lab.get("/lab/ledger")["entries"] if e["object"] == "plain"]
    assert calls == ["MigrateVM_Task"]
