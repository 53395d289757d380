"""One playbook for two sites on the lab: planned, saved and applied with its values, and nothing a second time."""

from __future__ import annotations

import json

import pytest
from support.places import INVENTORY, PLAYBOOKS

pytestmark = pytest.mark.lab
SITES = PLAYBOOKS / "two-sites.yml"
BERLIN, MUNICH = (
    ("--vars-file", PLAYBOOKS / "sites" / "berlin.yml"),
    ("--vars-file", PLAYBOOKS / "sites" / "munich.yml"),
)


def document(cli):
    return json.loads(cli.out)


def test_two_sites_from_one_playbook(cli, ledger, tmp_path):
    for site, host, servers in ((BERLIN, "esx01.lab.local", "10.10.0.1"), (MUNICH, "esx02.lab.local", "10.20.0.1")):
        assert cli("plan", SITES, *site, "-o", "json") == 0
        found = document(cli)
        assert {i["target"]["name"] for i in found["items"] if i["target"]["kind"] == "host"} == {host}
        value = next(v for v in found["variables"] if v["name"] == "time_servers")
        assert (value["value"], value["level"]) == ([servers], "vars file")
        assert value["place"].startswith(f"{site[1]}:")
        assert cli("apply", SITES, *site, "--yes") == 0
        assert cli("verify", SITES, *site) == 0
        done = len(ledger())
        assert cli("apply", SITES, *site, "--yes") == 0
        assert len(ledger()) == done, "applied again, it changes nothing"
    assert cli("verify", SITES, *BERLIN, "--var", "cpu_mhz=4001") == 2

    plan = tmp_path / "plan.json"
    assert cli("plan", SITES, *BERLIN, "--var", "cpu_mhz=5000", "--to", plan) == 0
    assert "--var cpu_mhz" not in cli.err, "a saved plan has its values"
    assert {v["name"]: v["value"] for v in json.loads(plan.read_text())["variables"]}["cpu_mhz"] == 5000
    assert cli("apply", plan, "--var", "cpu_mhz=6000", "--yes") == 64
    assert cli.error == "usage.var"
    assert cli("apply", plan, "--yes") == 0
    assert cli("verify", SITES, *BERLIN, "--var", "cpu_mhz=5000") == 0


def test_hosts_have_values_of_their_own_and_a_saved_plan_keeps_them(cli, tmp_path):
    inventory, playbook, plan = tmp_path / "i.yml", tmp_path / "p.yml", tmp_path / "plan.json"
    groups = "hosts: {both: {names: ['esx[01:02].lab.local'], vars: {server: 10.0.0.7}}}\n"
    inventory.write_text(f"lab: true\n{groups}host_vars: {{esx02.lab.local: {{server: 10.0.0.8}}}}\n")
    playbook.write_text("- vars: {server: {type: text}}\n- hosts: both\n  ntp: {servers: ['${server}']}\n")
    assert cli("plan", playbook, "-i", inventory, "--to", plan) == 0
    assert "server = 10.0.0.8 for esx02.lab.local" in cli.out
    assert cli("apply", plan, "-i", inventory, "--yes") == 0
    assert cli("show", "esx0[1:2].lab.local", "-i", inventory) == 0
    assert "10.0.0.7" in cli.out
    assert "10.0.0.8" in cli.out
    assert cli("verify", playbook, "-i", inventory) == 0
    inventory.write_text(inventory.read_text().replace("esx02.lab.local:", "esx20.lab.local:"))
    assert cli("plan", playbook, "-i", inventory) == 0
    assert f"there is no host 'esx20.lab.local'  ({inventory}:3:" in cli.err
    assert "'esx02.lab.local'" in cli.text("variable.no-host").partition("did you mean")[2]
    assert cli("plan", playbook, "-i", INVENTORY) == 65
    assert "'server'" in cli.err


@pytest.mark.parametrize("command", ["plan", "apply", "verify", "check", "capacity", "assess", "destroy", "health"])
def test_a_wrong_value_is_refused_by_every_command_before_a_vcenter_is_asked(cli, ledger, command):
    assert cli(command, SITES, "--var", "cpu_mz=1") == 64
    assert cli.error == "usage.var"
    assert "'cpu_mhz'" in cli.err
    assert ledger() == []


@pytest.mark.parametrize("command", [["check"], ["capacity"], ["assess"], ["destroy", "train"], ["health", "train-01"]])
def test_without_a_playbook_there_are_no_variables(cli, command):
    assert cli(*command, "--var", "a=1") == 64
    assert cli.error == "usage.var"


def test_a_variable_that_is_not_used_is_said(cli, tmp_path):
    playbook = tmp_path / "p.yml"
    playbook.write_text("- vars: {spare: 1}\n- hosts: esx01.lab.local\n  ntp: {servers: [10.0.0.9]}\n")
    assert cli("plan", playbook) == 0
    assert f"the variable 'spare' is not used  ({playbook}:1:17)" in cli.err


SEVERAL = """\
- vars: {servers: [10.0.0.1], mhz: 2000, switch: dvs-lan, spare: 1, mtu: 1500}
- name: times
  hosts: gpu_hosts
  ntp: {servers: "${servers}"}
  vmkernel: {dvpg-rdma: {mtu: "${mtu}"}}
- name: others
  vms: train-01
  vars: {mhz: 3000}
  hardware: {cpu_reservation_mhz: "${mhz}"}
"""
OF_HOSTS = """\
lab: true
hosts: {gpu_hosts: {names: ["esx[01:02].lab.local"]}, hall: {names: [esx01.lab.local], vars: {servers: [10.1.0.1]}}}
host_vars: {esx02.lab.local: {servers: [10.2.0.1]}}
"""


@pytest.mark.parametrize(
    ("narrow", "shown"),
    [
        ((), ["servers 10.1.0.1", "servers 10.2.0.1", "mhz 2000", "mhz 3000", "mtu 1500"]),
        (("--limit", "esx01.lab.local"), ["servers 10.1.0.1", "mtu 1500"]),
        (("--limit", "train-01"), ["mhz 2000", "mhz 3000"]),
        (("--limit", "gpu_hosts", "--kind", "ntp"), ["servers 10.1.0.1", "servers 10.2.0.1"]),
        (("--kind", "hardware"), ["mhz 2000", "mhz 3000"]),
    ],
)
def test_the_values_shown_are_those_of_what_limit_and_kind_leave(cli, tmp_path, narrow, shown):
    playbook, inventory = tmp_path / "p.yml", tmp_path / "i.yml"
    playbook.write_text(SEVERAL)
    inventory.write_text(OF_HOSTS)
    assert cli("plan", playbook, "-i", inventory, *narrow, "-o", "json") in (0, 1), cli.err
    found = [v for v in document(cli)["variables"] if v["used"]]
    assert [f"{v['name']} {v['value'][0] if v['name'] == 'servers' else v['value']}" for v in found] == shown
    assert all(v["targets"] for v in found if v["name"] == "servers"), "no host takes the default"


def test_values_of_hosts_are_those_of_the_hosts_that_limit_leaves(cli, tmp_path):
    playbook, inventory = tmp_path / "p.yml", tmp_path / "i.yml"
    playbook.write_text("- vars: {servers: [10.0.0.1]}\n- hosts: gpu_hosts\n  ntp: {servers: '${servers}'}\n")
    inventory.write_text(OF_HOSTS.replace("host_vars", "x-none"))
    for limit, level in (("esx01.lab.local", "group hall"), ("esx02.lab.local", "default")):
        assert cli("plan", playbook, "-i", inventory, "--limit", limit, "-o", "json") == 0, cli.err
        assert [v["level"] for v in document(cli)["variables"]] == [level]


@pytest.mark.parametrize(
    ("place", "near"),
    [
        ("vars: {server: [10.9.0.1]}", "servers"),
        ("hosts: {gpu_hosts: {cluster: gpu-a, vars: {servrs: [10.9.0.1]}}}", "servers"),
        ("host_vars: {esx01.lab.local: {serverss: [10.9.0.1]}}", "servers"),
        ("vars: {dns_names: [a], rack_3: b}", ""),
        ("vars: {server: [10.9.0.1], servers: [10.9.0.2]}", ""),
    ],
)
def test_a_misspelt_variable_of_the_inventory_is_said(cli, tmp_path, place, near):
    playbook, inventory = tmp_path / "p.yml", tmp_path / "i.yml"
    playbook.write_text(
        "- vars: {servers: [10.0.0.1], rack_1: c}\n- hosts: esx01.lab.local\n"
        "  ntp: {servers: '${servers}'}\n- name: '${rack_1}'\n  vms: train-01\n  hardware: {version: 19}\n"
    )
    inventory.write_text(f"lab: true\n{place}\n")
    assert cli("plan", playbook, "-i", inventory) == 0, cli.err
    assert ("variable.misspelt" in cli.rules) == bool(near)
    if near:
        assert f"did you mean '{near}'" in cli.text("variable.misspelt")
        assert f"{inventory}:2:" in cli.text("variable.misspelt")


def test_a_part_of_the_kinds_is_planned_for_hosts_with_different_values(cli, tmp_path, ledger):
    playbook, inventory = tmp_path / "p.yml", tmp_path / "i.yml"
    playbook.write_text(SEVERAL)
    inventory.write_text(OF_HOSTS)
    assert cli("apply", playbook, "-i", inventory, "--kind", "ntp", "--yes") == 0, cli.out + cli.err
    assert {e["object"] for e in ledger()} == {"esx01.lab.local", "esx02.lab.local"}
    assert cli("show", "gpu_hosts", "-i", inventory, "--kind", "ntp") == 0
    assert "10.1.0.1" in cli.out
    assert "10.2.0.1" in cli.out
    assert "10.0.0.1" not in cli.out
    assert cli("verify", playbook, "-i", inventory, "--kind", "ntp") == 0, cli.out
    assert cli("verify", playbook, "-i", inventory) == 2
