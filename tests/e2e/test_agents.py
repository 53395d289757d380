"""vCLS and other agent VMs on a host that reboots: vCenter takes them off, and no run powers one off."""

from __future__ import annotations

import re

import pytest
from support.states import AGENTS, DRAIN

pytestmark = pytest.mark.lab
HOSTS = "- hosts: esx01.lab.local\n  graphics: {default_type: shared_direct}\n  rolling: {evacuate: power_off}\n"
CLOUD = '  - {name: cloud-01, host: "esx01.lab.local", power: on, agent: com.example.cloud, memory_gb: 1}\n'
POWER = ("PowerOffVM_Task", "ShutdownGuest", "PowerOnVM_Task", "SuspendVM_Task", "ReconfigVM_Task")


@pytest.fixture
def on(make_lab, monkeypatch):
    def use(scenario):
        made = make_lab(scenario)
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
        return made

    return use


def calls(lab, *names):
    return [(e["object"], e["call"]) for e in lab.get("/lab/ledger")["entries"] if e["object"] in names]


def test_a_run_leaves_the_agents_to_vcenter(cli, on):
    lab = on(DRAIN + AGENTS)
    play = cli.file(HOSTS)
    plan = cli.plan(play)
    assert [v["name"] for v in plan["impact"]["power_cycles"]] == ["plain"]
    assert {a["vm"]["name"] for a in plan["impact"]["agents"]} == {"vCLS (1)", "guard-01"}
    assert cli("apply", play, "--yes") == 0, cli.err
    assert not [call for _, call in calls(lab, "vCLS (1)", "guard-01") if call in POWER]
    vms = {v["name"]: v for v in lab.get("/lab/farm")["vms"]}
    assert {name: vms[name]["power"] for name in ("plain", "vCLS (1)", "guard-01")} == dict.fromkeys(
        ("plain", "vCLS (1)", "guard-01"), "poweredOn"
    )
    assert vms["vCLS (1)"]["host"] == "esx02.lab.local"
    assert lab.get("/lab/invariants")["ok"]


def test_all_vms_are_those_of_the_user_and_the_plan_says_so(cli, on):
    on(DRAIN + AGENTS + CLOUD)
    play = cli.file("- vms: all\n  hardware: {version: 19}\n")
    plan = cli.plan(play)
    assert {i["target"]["name"] for i in plan["items"]} == {"plain"}
    agents = {each["vm"]["name"]: each["by"] for each in plan["impact"]["agents"] if each["matched"]}
    assert set(agents) >= {"vCLS (1)", "cloud-01"}
    assert agents["cloud-01"] == "com.example.cloud"
    assert cli("plan", play) == 0
    assert {"vCLS (1)", "cloud-01"} <= set(re.findall(r"vCLS \(1\)|cloud-01", cli.out)), "shown"


def test_naming_an_agent_is_a_mistake_of_the_playbook(cli, on):
    on(DRAIN + AGENTS)
    assert cli("plan", cli.file('- vms: "vCLS (1)"\n  hardware: {version: 19}\n')) == 65
    assert cli.error == "input"
    assert {"vCLS (1)", "vSphere Cluster Services"} == {
        w for w in ("vCLS (1)", "vSphere Cluster Services") if w in cli.err
    }


def test_a_vm_of_an_extension_moves_or_refuses_the_plan(cli, on):
    lab = on(DRAIN + CLOUD)
    assert cli("apply", cli.file(HOSTS), "--yes") == 0, cli.err
    assert calls(lab, "cloud-01") == [("cloud-01", "DrsMigration")]
    lab = on((DRAIN + CLOUD).replace("name: gpu-a}", "name: gpu-a, drs: off}"))
    plan = cli.plan(cli.file(HOSTS))
    assert [(p["target"]["name"], p["rule"]) for p in plan["problems"]] == [("cloud-01", "vm.managed")]
    assert cli("plan", cli.file(HOSTS)) == 1
    assert lab.get("/lab/ledger")["entries"] == []
