"""Time servers and the NTP service on the simulated farm: set, read back, rolled back, and under faults."""

from __future__ import annotations

import json

import pytest
from support.places import INVENTORY

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
ESX = "esx01.lab.local"
PLAY = f"- hosts: {ESX}\n  ntp: {{servers: [10.0.0.1, b.example], running: true, policy: on, firewall: true}}\n"
CALLS = ["UpdateDateTimeConfig", "EnableRuleset", "UpdateServicePolicy", "StartService"]


def shown(soap):
    config = soap.host("esx01").config
    service = next(s for s in config.service.service if s.key == "ntpd")
    ruleset = next(r for r in config.firewall.ruleset if r.key == "ntpClient")
    return list(config.dateTimeInfo.ntpConfig.server), service.running, service.policy, ruleset.enabled


def calls(ledger):
    return [e["call"] for e in ledger(ESX)]


def test_it_is_set_shown_and_rolled_back(cli, ledger, soap):
    assert cli("apply", cli.file(PLAY), "--yes", "-o", "json") == 0, cli.out + cli.err
    run = json.loads(cli.out.splitlines()[0])["run"]
    assert calls(ledger) == CALLS
    assert shown(soap) == (["10.0.0.1", "b.example"], True, "on", True)
    before = len(ledger())
    assert cli("verify", cli.file(PLAY)) == 0, cli.out
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out
    assert cli("show", "--limit", ESX) == 0
    (written,) = [line for line in cli.out.splitlines() if line.startswith("  ntp:")]
    assert cli("plan", cli.file(f"- hosts: {ESX}\n{written}\n", "shown.yml"), "--detailed-exitcode") == 0, cli.out
    assert len(ledger()) == before
    assert cli("rollback", run, "--yes") == 0, cli.out + cli.err
    assert shown(soap) == ([], False, "off", False)


def test_a_host_in_lockdown_mode_is_set_without_a_window(cli, ledger, soap):
    soap.host("esx01").configManager.hostAccessManager.ChangeLockdownMode("lockdownStrict")
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    assert calls(ledger)[1:] == CALLS


def test_other_servers_for_a_running_service(cli, ledger, soap):
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    other = cli.file(f"- hosts: {ESX}\n  ntp: {{servers: [10.0.0.9]}}\n", "other.yml")
    assert cli("apply", other, "--yes") == 0, cli.out + cli.err
    assert calls(ledger)[len(CALLS) :] == ["StopService", "UpdateDateTimeConfig", "StartService"]
    assert shown(soap) == (["10.0.0.9"], True, "on", True)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("do", ["lost-reply", "drop"])
def test_a_lost_answer_changes_nothing_twice(cli, lab, ledger, soap, call, do):
    lab.post("/lab/faults", {"rules": f"- {{on: {call}, nth: 1, do: {do}}}"})
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    assert calls(ledger) == CALLS
    assert shown(soap) == (["10.0.0.1", "b.example"], True, "on", True)


def test_servers_of_someone_else_are_not_overwritten(cli, ledger, soap, monkeypatch):
    from pyVmomi import vim

    from vsphere_ai.execution.actions.executor import StepExecutor

    do = StepExecutor.do

    def act_then_do(self, step, *more):
        if getattr(step, "method", "") == "UpdateDateTimeConfig":
            ntp = vim.host.NtpConfig(server=["192.0.2.1"])
            soap.host("esx01").configManager.dateTimeSystem.UpdateDateTimeConfig(vim.host.DateTimeConfig(ntpConfig=ntp))
        return do(self, step, *more)

    monkeypatch.setattr(StepExecutor, "do", act_then_do)
    assert cli.run("apply", cli.file(PLAY), "--yes") == 3, cli.out + cli.err
    assert cli.failed == {(ESX, "object.changed")}
    assert shown(soap)[0] == ["192.0.2.1"]


@pytest.mark.parametrize("wanted", ["{running: true}", "{servers: [], policy: on}"])
def test_a_service_without_servers_is_refused(cli, ledger, wanted):
    playbook = cli.file(f"- hosts: {ESX}\n  ntp: {wanted}\n")
    assert cli.problems(playbook) == {(ESX, "ntp.no-servers")}
    assert cli("apply", playbook, "--yes") == 1
    assert ledger() == []


def test_duplicate_servers_are_an_error_of_the_playbook(cli, ledger):
    assert cli("plan", cli.file(f"- hosts: {ESX}\n  ntp: {{servers: [a.example, A.example]}}\n")) == 65
    assert "given twice" in cli.err
    assert ledger() == []


@pytest.mark.parametrize("privilege", ["Host.Config.DateTime", "Host.Config.NetService"])
def test_a_missing_privilege_is_refused_before_anything_is_changed(
    cli, make_lab, monkeypatch, quick_scenario, privilege
):
    lab = make_lab(quick_scenario.read_text("utf-8") + f"\nprivileges_denied: [{privilege}]\n")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    assert cli.run("apply", cli.file(PLAY), "--yes") == 4, cli.out + cli.err
    assert "account.privileges" in cli.err
    assert privilege in cli.err
    assert lab.get("/lab/ledger")["entries"] == []


OTHER = f"- hosts: {ESX}\n  ntp: {{servers: [10.0.0.9]}}\n"
DIES_BEFORE_ITS_SERVERS = """
import os
from vsphere_ai.cli.main import run
from vsphere_ai.execution.actions.executor import StepExecutor
do = StepExecutor.do
dies = lambda step: getattr(step, "method", "") == "UpdateDateTimeConfig" and os._exit(9)
StepExecutor.do = lambda self, step, *more: (dies(step), do(self, step, *more))
run()
"""
"""Stops the service, and dies before it sets the servers."""


def test_a_service_runs_again_when_its_servers_are_refused(cli, lab, ledger, soap):
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    lab.set_faults("- {on: UpdateDateTimeConfig, nth: 1, do: {fault: HostConfigFault}}\n")
    assert cli.run("apply", cli.file(OTHER, "other.yml"), "--yes") == 1, cli.out + cli.err
    assert cli.failed == {(ESX, "fault.HostConfigFault")}
    assert cli.text("cleanup.service") == f"start ntpd on {ESX}"
    assert calls(ledger)[len(CALLS) :] == ["StopService", "StartService"]
    assert shown(soap) == (["10.0.0.1", "b.example"], True, "on", True)
    assert cli.pending() == set()


@pytest.mark.parametrize(
    ("command", "servers"),
    [("resume", "10.0.0.9"), ("resume --cleanup", "10.0.0.1"), ("rollback", "10.0.0.1")],
)
def test_a_run_that_died_with_the_service_stopped(cli, lab, ledger, soap, command, servers):
    from support.cut_off import dies

    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    other = cli.file(OTHER, "other.yml")
    assert dies(lab, DIES_BEFORE_ITS_SERVERS, "apply", other, "-i", INVENTORY, "--yes") == 9
    assert shown(soap)[1] is False
    assert cli.pending() == {("service", ESX)}
    (run,) = (record.id for record in journal.every() if record.pending())
    assert cli(*command.split(), run, "--yes") == 0, cli.out + cli.err
    assert shown(soap)[0][0] == servers
    assert shown(soap)[1:] == (True, "on", True)
    assert cli.pending() == set()
