"""RoCE options and flow control on the lab: one restart for everything, other options kept, nothing sent twice."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.lab
ESX = "esx01.lab.local"
PLAY = f"- hosts: {ESX}\n  rolling: {{evacuate: power_off}}\n"
ROCE = f"{PLAY}  roce: {{pfc_priority: 3, trust: dscp, dscp: 26, version: rocev2}}\n"
PAUSE = f"{PLAY}  nics: {{vmnic4: {{pause: {{rx: true, tx: false}}}}}}\n"
REBOOT = "esxcli system shutdown reboot"


@pytest.fixture
def modules(soap):
    return soap.host("esx01").configManager.kernelModuleSystem


@pytest.fixture
def waits(lab):
    def read():
        return next(h for h in lab.get("/lab/farm")["hosts"] if h["name"] == ESX)["reboot_required"]

    return read


def settled(cli, playbook, ledger):
    before = len(ledger())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(ledger()) == before


def test_options_of_others_are_kept_and_one_restart_makes_all_count(cli, ledger, modules, waits):
    modules.UpdateModuleOptionString("nmlx5_core", "max_vfs=8 ecn=1")
    playbook = cli.file(ROCE)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    options = [e["detail"] for e in ledger(ESX, "UpdateModuleOptionString")][1:]
    assert options == [
        {"name": "nmlx5_core", "options": "max_vfs=8 ecn=1 pfctx=0x08 pfcrx=0x08 trust_state=2"},
        {"name": "nmlx5_rdma", "options": "dscp_force=26"},
    ]
    assert len(ledger(ESX, REBOOT)) == 1
    assert not waits()
    settled(cli, playbook, ledger)


def test_roce_shares_the_window_of_graphics_and_mig(cli, ledger):
    playbook = cli.file(ROCE + "  graphics: {default_type: shared_direct}\n  mig: {mode: enabled}\n")
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(ledger(ESX, REBOOT)) == 1
    settled(cli, playbook, ledger)


def test_what_show_says_is_as_it_is(cli):
    assert cli("apply", cli.file(ROCE), "--yes") == 0, cli.out + cli.err
    assert cli("show") == 0
    assert "roce: {pfc_priority: 3, trust: dscp, dscp: 26, pcp: off, ecn: false}" in cli.out
    assert cli("plan", cli.file(cli.out, "shown.yml"), "--detailed-exitcode") == 0, cli.out


def test_rollback_takes_the_options_away_again(cli, ledger, modules):
    modules.UpdateModuleOptionString("nmlx5_core", "max_vfs=8")
    assert cli("apply", cli.file(ROCE), "--yes") == 0, cli.out + cli.err
    cli("run", "list")
    (run,) = re.findall(r"(?m)^\d{8}-\d{6}-\w+", cli.out)
    assert cli("rollback", run, "--yes") == 0, cli.out + cli.err
    assert set(modules.QueryConfiguredModuleOptionString("nmlx5_core").split()) == {"max_vfs=8", "trust_state=1"}
    assert modules.QueryConfiguredModuleOptionString("nmlx5_rdma") == ""
    assert len(ledger(ESX, REBOOT)) == 2


def test_a_crash_before_the_restart_is_made_good_by_resume(cli, ledger, lab, waits):
    """Nothing in vCenter shows that the options wait for a restart; the journal knows."""
    lab.set_faults("- {on: ssh-connect, do: drop}")  # the command to reboot never leaves
    assert cli("apply", cli.file(ROCE), "--yes", "--no-ssh-login") != 0
    assert waits()
    assert ("restart", ESX) in cli.pending()
    lab.clear_faults()
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert not waits()
    assert len(ledger(ESX, REBOOT)) == 1


def test_pause_is_set_and_set_again_after_a_restart(cli, ledger):
    playbook = cli.file(PAUSE)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    (entry,) = ledger(ESX, "esxcli network nic pauseParams set")
    assert entry["detail"] == {"nic": "vmnic4", "rx": True, "tx": False}
    assert ledger(ESX, REBOOT) == []
    settled(cli, playbook, ledger)
    both = cli.file(PAUSE + "  roce: {trust: dscp}\n")
    assert cli("apply", both, "--yes") == 0, cli.out + cli.err
    assert len(ledger(ESX, "esxcli network nic pauseParams set")) == 2
    settled(cli, both, ledger)


def test_speed_is_set_and_negotiated_again(cli, ledger):
    head = f"{PLAY}  nics: "
    for speed, shown in ((1000, 1000), ("auto", 0)):
        playbook = cli.file(f"{head}{{vmnic1: {{speed: {speed}}}}}\n")
        assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
        assert ledger(ESX, "UpdatePhysicalNicLinkSpeed")[-1]["detail"] == {"device": "vmnic1", "speed": shown}
        settled(cli, playbook, ledger)


@pytest.mark.parametrize(
    ("play", "rule"),
    [
        ("roce: {pfc_priority: 3}\n  nics: {vmnic4: {pause: {rx: true}}}", "roce.pause"),
        ("nics: {vmnic9: {speed: auto}}", "nics.missing"),
        ("nics: {vmnic1: {speed: 123}}", "nics.speed"),
        ("roce: {trust: pcp, dscp: 26}", "roce.trust"),
    ],
)
def test_what_is_refused_changes_nothing(cli, ledger, play, rule):
    assert cli("apply", cli.file(f"- hosts: {ESX}\n  {play}\n"), "--yes") == 1
    assert rule in cli.out + cli.err
    assert ledger() == []
