"""What is named on the command line and is not there is a wrong command line; `--limit` narrows and says so."""

from __future__ import annotations

import re

import pytest
from support.places import INVENTORY, PLAYBOOKS

pytestmark = pytest.mark.lab
MISSION = PLAYBOOKS / "ai-ready-cluster.yml"


@pytest.mark.parametrize("command", ["plan", "apply", "verify", "check", "capacity"])
def test_a_playbook_that_is_not_there(cli, ledger, command, tmp_path):
    assert cli(command, tmp_path / "nofile.yml", "-i", INVENTORY) == 64
    assert cli.error == "usage.no-file"
    assert str(tmp_path / "nofile.yml") in cli.err
    assert ledger() == []


@pytest.mark.parametrize("command", [["plan", MISSION], ["show"], ["doctor"], ["trust", "host", "esx01.lab.local"]])
def test_an_inventory_that_is_not_there(cli, command, tmp_path):
    assert cli(*command, "-i", tmp_path / "nofile.yml") == 64
    assert cli.error == "usage.no-file"
    assert str(tmp_path / "nofile.yml") in cli.err


def test_a_saved_plan_that_is_not_there(cli, tmp_path):
    assert cli("apply", tmp_path / "plan.json") == 64
    assert cli.error == "usage.no-file"
    assert str(tmp_path / "plan.json") in cli.err


@pytest.mark.parametrize("command", [["plan", MISSION], ["apply", MISSION, "--yes"], ["show"], ["check", MISSION]])
def test_a_limit_that_means_nothing(cli, ledger, command):
    assert cli(*command, "--limit", "trian-01") == 64
    assert cli.error == "usage.limit"
    assert {"'trian-01'", "'train-01'"} <= set(re.findall(r"'[^']*'", cli.err)), "what was given, and what is near it"
    assert ledger() == []


@pytest.mark.parametrize("command", [("plan",), ("apply", "--yes"), ("verify",)])
def test_a_limit_that_leaves_nothing_of_the_playbook(cli, ledger, command):
    """It is there, and the playbook is not about it: "0 settings in the desired state" would be no answer."""
    playbook = cli.file("- hosts: esx01.lab.local\n  pvrdma_host: {firewall: true}\n")
    assert cli(command[0], playbook, *command[1:], "--limit", "infra-01") == 64
    assert cli.error == "usage.limit"
    assert "'infra-01'" in cli.err
    assert "esx01.lab.local" in cli.err
    assert ledger() == []


def test_a_limit_that_is_no_pattern(cli):
    assert cli("plan", MISSION, "--limit", "esx[1") == 64
    assert cli.error == "usage.limit"
    assert "'esx[1'" in cli.err


def test_a_broken_group_is_the_inventorys_fault_whoever_names_it(cli, tmp_path):
    text = INVENTORY.read_text(encoding="utf-8").replace("hosts:\n", "hosts:\n  odd: {cluster: nowhere}\n")
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(text, encoding="utf-8")
    assert cli("plan", MISSION, "-i", inventory, "--limit", "odd") == 65
    line = text[: text.index("odd:")].count("\n") + 1
    assert f"{inventory}:{line}:" in cli.err
    assert cli.error == "input"
    assert "'nowhere'" in cli.err


def test_vms_of_the_playbook_beyond_the_limit_are_not_called_strangers(cli):
    assert cli("plan", MISSION, "--limit", "esx01.lab.local") == 0, cli.out + cli.err
    impact = " ".join(cli.out.split("HOSTS")[0].split())
    assert "of these outside --limit: train-01, train-02" in impact
    assert "not in the playbook" not in impact
    assert cli("plan", MISSION) == 0
    assert "outside --limit" not in cli.out


SHARED = """
- datacenters: DC0
  switches: {dvs-rdma: {mtu: 1500}}
- hosts: esx01.lab.local,esx02.lab.local
  vmkernel: {dvpg-rdma: {mtu: 1500}}
"""


NAMED = "--limit: DC0, esx02.lab.local\n"


def test_what_is_left_out_is_said(cli):
    """An MTU that was to go down on both ends goes down on one only: nobody should find that out afterwards."""
    playbook = cli.file(SHARED)
    beyond = ["DC0", "esx02.lab.local"]
    plan = cli.plan(playbook, "--limit", "esx01*")
    assert sorted(t["name"] for t in plan["left_out"]) == beyond
    assert {i["target"]["name"] for i in plan["items"]} == {"esx01.lab.local"}
    whole = cli.plan(playbook)
    assert "DC0" in {i["target"]["name"] for i in whole["items"]}
    assert whole["left_out"] == []
    assert cli("plan", playbook) in (0, 1)
    assert NAMED not in cli.out
    assert cli("apply", playbook, "--limit", "esx01*", "--yes") == 0, cli.out + cli.err
    assert NAMED in cli.out, "before it is done"
    plan = cli.plan(playbook, "--limit", "esx01*")
    assert (sorted(t["name"] for t in plan["left_out"]), plan["steps"]) == (beyond, [])
    assert cli("plan", playbook, "--limit", "esx01*") == 0
    assert NAMED in cli.out, "also where there is nothing to do"


def test_a_datacenter_is_named_as_hosts_and_vms_are(cli, ledger):
    playbook = cli.file(SHARED.replace("1500", "9000").replace("dvs-rdma", "dvs-lan"))
    assert cli("apply", playbook, "--limit", "DC0", "--yes") == 0, cli.out + cli.err
    assert "--limit: esx01.lab.local, esx02.lab.local\n" in cli.out
    assert {e["object"] for e in ledger()} == {"dvs-lan"}
