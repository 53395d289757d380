"""Rings and interrupt coalescing of NICs on the simulated farm: set, read back, set again after a restart."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = pytest.mark.lab
ESX = "esx01.lab.local"
RINGS, COALESCE = "esxcli network nic ring current set", "esxcli network nic coalesce set"
PLAY = f"- hosts: {ESX}\n  rolling: {{evacuate: power_off}}\n  nics: "
BOTH = PLAY + "{vmnic4: {rings: {rx: 4096}, coalesce: {rx_usecs: 3, adaptive_rx: false}}}\n"


def test_rings_and_coalescing_are_set_and_read_back(cli, ledger):
    playbook = cli.file(BOTH)
    plan = cli.plan(playbook)
    assert plan["problems"] == []
    assert any("vmnic4" in note for item in plan["items"] for note in item["notes"]), "its link may go down"
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert [e["detail"] for e in ledger(ESX, RINGS)] == [{"nic": "vmnic4", "rx": 4096, "tx": 1024}]
    assert [e["detail"] for e in ledger(ESX, COALESCE)] == [{"nic": "vmnic4", "rx-usecs": 3, "adaptive-rx": 0}]
    before = len(ledger())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(ledger()) == before


def test_after_a_restart_of_the_plan_they_are_set_again(cli, ledger):
    assert cli("apply", cli.file(BOTH), "--yes") == 0, cli.out + cli.err
    restarting = cli.file(BOTH + "  roce: {trust: dscp}\n", "restarting.yml")
    assert cli("apply", restarting, "--yes") == 0, cli.out + cli.err
    assert [len(ledger(ESX, call)) for call in (RINGS, COALESCE)] == [2, 2]
    assert cli("plan", restarting, "--detailed-exitcode") == 0, cli.out


def test_coalescing_alone_needs_no_maintenance(cli, ledger):
    assert cli("apply", cli.file(PLAY + "{vmnic4: {coalesce: {tx_frames: 1}}}\n"), "--yes") == 0, cli.out + cli.err
    assert [e["call"] for e in ledger(ESX)] == [COALESCE]


def test_a_rollback_sets_them_back(cli, ledger):
    assert cli("apply", cli.file(BOTH), "--yes", "-o", "json") == 0, cli.out + cli.err
    run = json.loads(cli.out.splitlines()[0])["run"]
    assert cli("rollback", run, "--yes") == 0, cli.out + cli.err
    assert ledger(ESX, RINGS)[-1]["detail"]["rx"] == 1024
    assert ledger(ESX, COALESCE)[-1]["detail"] == {"nic": "vmnic4", "rx-usecs": 8, "adaptive-rx": 1}


def test_what_show_writes_is_a_playbook_without_changes(cli, ledger):
    assert cli("show") == 0
    assert "rings: {rx: 1024, tx: 1024}" in cli.out
    plays = [p for p in cli.out.split("\n\n") if "  nics: " in p]
    kept = "\n\n".join("\n".join(x for x in p.splitlines() if x.startswith(("- ", "  nics"))) for p in plays)
    assert cli("plan", cli.file(kept, "shown.yml"), "--detailed-exitcode") == 0, cli.out + cli.err
    assert ledger() == []


@pytest.mark.parametrize(
    ("nics", "rule"),
    [
        ("{vmnic4: {rings: {rx: 8193}}}", "nics.rings"),
        ("{vmnic0: {rings: {rx: 512}}}", "nics.rings"),
        ("{vmnic0: {coalesce: {rx_usecs: 1}}}", "nics.coalesce"),
    ],
)
def test_what_is_refused_changes_nothing(cli, ledger, nics, rule):
    assert cli("apply", cli.file(f"{PLAY}{nics}\n"), "--yes") == 1
    assert rule in cli.out + cli.err
    assert ledger() == []


def test_whether_pfc_is_at_work_is_checked(cli, soap):
    def dcb():
        assert cli("check", roce, "-o", "json") in (0, 1, 2), cli.err
        (found,) = (f for f in json.loads(cli.out)["findings"] if f["rule"] == "host.roce-dcb")
        return found["verdict"], found["message"]

    roce = cli.file(f"- hosts: {ESX}\n  rolling: {{evacuate: power_off}}\n  roce: {{pfc_priority: 3}}\n")
    assert cli("apply", roce, "--yes") == 0, cli.out + cli.err
    # a check looks at what there is and what the playbook changes; this one changes nothing any more
    assert dcb()[0] == "pass"
    # somebody changes the options and does not restart the host
    modules = soap.host("esx01").configManager.kernelModuleSystem
    modules.UpdateModuleOptionString("nmlx5_core", "pfctx=0x10 pfcrx=0x10")
    roce = cli.file(f"- hosts: {ESX}\n  roce: {{version: rocev2}}\n")
    verdict, said = dcb()
    assert verdict == "warn"
    assert {"priority 4", "priority 3"} == set(re.findall(r"priority \d", said)), "what is stated, and what is at work"
    assert "vmnic4" in said
