"""A fleet plan shows each setting as a plan of one vCenter does; `--limit`; hosts of one name in two vCenters."""

from __future__ import annotations

import json

import pytest
from support import fleets
from support.fleets import SITES, effects

pytestmark = pytest.mark.lab
ESX = """
name: {0}
timing: {{boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1}}
clusters: [{{name: gpu}}]
hosts: [{{name: "esx[01:02].lab.local", cluster: gpu, nvidia_driver: 470.256.02, ssh: {{running: true, policy: on}}, gpus: [{{pci: 0000:3b:00.0, board: a100-40gb}}]}}]
"""  # noqa: E501
MIG = "- hosts: esx*\n  mig: {mode: enabled}\n  rolling: {reboot: ssh}\n"


@pytest.fixture
def sites(make_lab):
    return {site: make_lab(fleets.scenario(site)) for site in SITES}


@pytest.fixture
def both(cli, sites):
    return cli.file(fleets.inventory(sites), "both.yml")


def test_each_setting_and_step_is_shown_and_equal_plans_once(cli, make_lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    sites = {site: make_lab(ESX.format("one")) for site in SITES}
    both, playbook = cli.file(fleets.inventory(sites, ssh=True), "both.yml"), cli.file(MIG)
    assert cli("plan", playbook, "-i", both, "--vcenter", "berlin") == 0, cli.err
    alone = cli.out.split("\n\n", 1)[1].split("\n\nDISRUPTED\n")[0]
    assert "mig         0000:3b:00.0 mode" in alone
    assert cli("fleet", "plan", playbook, "-i", both) == 0, cli.err
    assert cli.out.count(alone) == 1, "both vCenters have the same plan"
    assert "IN berlin, munich: 2 vCenters, each with this plan" in cli.out
    assert "berlin, munich: 2 hosts reboot: esx01.lab.local, esx02.lab.local" in cli.out
    assert cli("fleet", "plan", playbook, "-i", both, "--full") == 0
    assert cli.out.count("esx02.lab.local      reboot") == 1, "each host has its own steps"


def test_a_setting_that_differs_is_shown_in_both(cli, sites, both):
    playbook = cli.file(fleets.playbook().replace("19", "18", 1))
    assert cli("fleet", "plan", playbook, "-i", both) == 0, cli.err
    assert "17 → 18" in cli.out
    assert "17 → 19" in cli.out
    assert "0 to add, 8 to change, 0 to remove" in cli.out


def test_a_limit_leaves_vcenters_out_and_is_part_of_the_saved_plan(cli, sites, both, tmp_path):
    playbook, saved = cli.file(fleets.playbook()), tmp_path / "fleet.json"
    assert cli("fleet", "plan", playbook, "-i", both, "--limit", "nowhere-*") == 64
    assert "berlin: --limit" in cli.err
    assert "munich: --limit" in cli.err
    assert cli("fleet", "plan", playbook, "-i", both, "--limit", "berlin-0[1:2]", "--to", saved) == 0, cli.err
    assert "fleet.nothing" in cli.rules
    assert "berlin-01, berlin-02" in cli.out
    assert "munich-" not in cli.out
    assert cli("fleet", "apply", saved, "-i", both, "--limit", "berlin-01") == 64
    assert cli.error == "usage.saved-plan"
    assert cli("fleet", "apply", saved, "-i", both, "--yes") == 0, cli.err
    assert effects(sites["berlin"]) == {"berlin-01": 1, "berlin-02": 1}
    assert effects(sites["munich"]) == {}


def test_kinds_and_a_limit_of_a_playbook_are_carried_out(cli, sites, both):
    playbook = cli.file(fleets.playbook())
    given = ("fleet", "apply", playbook, "-i", both, "--yes", "--kind", "hardware", "--limit", "munich-04")
    assert cli(*given) == 0, cli.err
    assert effects(sites["munich"]) == {"munich-04": 1}


def test_hosts_of_one_name_are_reached_with_the_ssh_section_of_their_vcenter(cli, make_lab):
    sites = {site: make_lab(ESX.format("one")) for site in SITES}
    both = cli.file(fleets.inventory(sites, ssh=True), "both.yml")
    playbook = cli.file(MIG)
    assert cli("fleet", "apply", playbook, "-i", both, "--yes", "-o", "json") == 0, cli.err
    assert {s["state"] for s in json.loads(cli.out)["shards"]} == {"done"}
    for lab in sites.values():
        gpus = [gpu for host in lab.get("/lab/farm")["hosts"] for gpu in host["gpus"]]
        assert [gpu["mig"]["current"] for gpu in gpus] == [True, True]


def test_another_vcenter_is_not_reached_with_the_section_of_one(cli, make_lab):
    sites = {site: make_lab(ESX.format("one")) for site in SITES}
    text = fleets.inventory(sites, ssh=True)
    swapped = text.replace(
        str(sites["berlin"].directory / "ssh_password"), str(sites["munich"].directory / "ssh_password")
    )
    playbook = cli.file(MIG)
    assert cli("plan", playbook, "-i", cli.file(swapped, "both.yml"), "--vcenter", "munich") == 0, cli.err
    assert cli("plan", playbook, "-i", cli.file(swapped, "both.yml"), "--vcenter", "berlin") == 4, "berlin has another"
