"""A fleet: one playbook in two vCenters, judged by the ledgers of their labs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support import fleets
from support.fleets import SITES, effects
from support.gates import LONG

pytestmark = pytest.mark.lab
PLAY = fleets.playbook()


@pytest.fixture
def sites(make_lab):
    return {site: make_lab(fleets.scenario(site)) for site in SITES}


@pytest.fixture
def both(cli, sites):
    return inventory(cli, sites)


def inventory(cli, sites):
    return cli.file(fleets.inventory(sites), "both.yml")


def test_one_playbook_is_planned_and_carried_out_in_all_vcenters(cli, sites, both):
    playbook = cli.file(PLAY)
    assert cli("fleet", "plan", playbook, "-i", both) == 0, cli.err
    assert "Fleet plan, 2 vCenters" in cli.out
    assert cli("fleet", "plan", playbook, "-i", both, "-o", "json") == 0
    plan = json.loads(cli.out)
    assert plan["totals"]["steps"] == sum(len(s["plan"]["steps"]) for s in plan["shards"]) > 0
    assert {s["vcenter"] for s in plan["shards"]} == set(SITES)
    assert cli("fleet", "apply", playbook, "-i", both, "--yes", "-o", "json") == 0, cli.err
    done = json.loads(cli.out)
    assert {s["vcenter"]: s["state"] for s in done["shards"]} == dict.fromkeys(SITES, "done")
    assert all(s["changed"] == s["verified"] == 4 for s in done["shards"])
    fleets.all_once(sites)
    assert cli("fleet", "status", done["fleet"], "-o", "json") == 0
    assert json.loads(cli.out)["fleets"][0]["shards"] == done["shards"], "by the journals alone"
    assert cli("fleet", "apply", playbook, "-i", both, "--yes") == 0
    assert cli("fleet", "resume", done["fleet"]) == 0, "it is over, and nothing is sent"
    fleets.all_once(sites)


def test_a_play_has_to_mean_something_somewhere(cli, sites, both):
    playbook = cli.file(f"{PLAY}- vms: berlon-01\n  hardware: {{version: 19}}\n")
    assert cli("fleet", "plan", playbook, "-i", both) == 65
    assert "berlon-01" in cli.err
    assert "berlin-01" in cli.err, "what is near"
    assert cli("fleet", "plan", cli.file(PLAY), "-i", both, "--vcenter", "hamburg") == 64
    assert "berlin, munich" in cli.err
    assert cli("fleet", "plan", cli.file(PLAY), "-i", both, "--vcenter", "munich") == 65, "the play of the other"


def test_one_stale_shard_refuses_all_of_a_saved_plan(cli, sites, both, tmp_path):
    playbook, saved = cli.file(PLAY), tmp_path / "fleet.json"
    assert cli("fleet", "plan", playbook, "-i", both, "--to", saved) == 0, cli.err
    alone = cli.file("- vms: munich-01\n  hardware: {version: 19}\n", "alone.yml")
    assert cli("apply", alone, "-i", both, "--vcenter", "munich", "--yes") == 0, cli.err
    assert cli("fleet", "apply", saved, "-i", both) == 3
    assert cli.error == "plan.stale"
    assert "munich" in cli.err
    assert effects(sites["berlin"]) == {}
    text = saved.read_text("utf-8").replace('"budget": null', '"budget": 7')
    saved.write_text(text, encoding="utf-8")
    assert cli("fleet", "apply", saved, "-i", both) == 3
    assert cli.error == "plan.edited"


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_killed_fleet_is_resumed_and_each_effect_is_made_once(cli, make_lab, after):
    """The whole process is killed when so many changes are in the ledgers; some are under way then."""
    sites = {site: make_lab(fleets.scenario(site, 0.3)) for site in SITES}
    both = inventory(cli, sites)
    arguments = ("fleet", "apply", cli.file(PLAY), "-i", both, "--yes", "--parallel", "2")
    process = subprocess.Popen(
        [sys.executable, "-m", "vsphere_ai", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seen, deadline = "", time.monotonic() + LONG
    while after == 0 and "  run " not in seen and time.monotonic() < deadline:
        seen += process.stdout.readline()
    while sum(sum(effects(lab).values()) for lab in sites.values()) < after and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert cli("fleet", "status", "-o", "json") == 0
    shards = json.loads(cli.out)["fleets"][0]["shards"]
    assert not all(s["state"] == "done" for s in shards), "it was killed in the middle"
    assert cli("fleet", "resume") == 0, cli.out + cli.err
    fleets.all_once(sites)
    assert cli("fleet", "status", "-o", "json") == 0
    again = json.loads(cli.out)["fleets"][0]["shards"]
    assert [s["run"] for s in again] == [s["run"] for s in shards], "in the runs that were named before"
    assert {s["state"] for s in again} == {"done"}
    assert [(s["changed"], s["verified"]) for s in again] == [(4, 4)] * 2, "also what was under way when it was killed"


def test_the_budget_counts_hosts_of_all_vcenters(cli, make_lab):
    sites = {site: make_lab(fleets.hosts(site)) for site in SITES}
    both, playbook = inventory(cli, sites), cli.file(fleets.FUNCTIONS)
    given = ("fleet", "apply", playbook, "-i", both, "--yes", "--budget", "1")
    assert cli(*given, "--reboot", "3") == 3, cli.out + cli.err
    assert cli.error == "reboot.other-number"
    assert cli(*given, "--reboot", "4") == 0, cli.out + cli.err
    assert len(fleets.one_at_a_time(sites)) == 4
