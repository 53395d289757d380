"""An object that vCenter sends without a required field: a problem of that object, and all else goes on."""

from __future__ import annotations

import json

import pytest
from support.places import INVENTORY
from support.rewriting import of_reference

from vsphere_ai.planning.needed_facts import RULE

pytestmark = pytest.mark.lab
LACKS = "'value' (KeyError)"
HOSTS = "- hosts: esx0[1:2].lab.local\n  rolling: {evacuate: power_off}\n  graphics: {default_type: shared_direct}\n"
BOTH = HOSTS + "- vms: train-01\n  tuning: {cpus: 4}\n- vms: train-02\n  tuning: {cpus: 4}\n"
SETTING = (
    rb'\1 xsi:type="ArrayOfOptionValue"><OptionValue xsi:type="OptionValue"><key>x</key></OptionValue></val></propSet>'
)
ALARM = (
    rb'\1xsi:type="ArrayOfAlarmState"><AlarmState><key>a.b</key>'
    rb'<entity type="HostSystem">host-1</entity><alarm type="Alarm">alarm-1</alarm>'
    rb"<overallStatus>red</overallStatus></AlarmState></val></propSet>"
)


@pytest.fixture
def setting_without_value(answers, farm):
    """An advanced setting of train-01 comes without its value."""
    return answers(of_reference(farm()["vms"]["train-01"]["ref"].partition(":")[2], "config.extraConfig"), SETTING)


@pytest.fixture
def alarm_without_time(answers, farm):
    """A red alarm of esx02 comes without the time since when it is red."""
    ref = farm()["hosts"]["esx02.lab.local"]["ref"]
    return answers(of_reference(ref.partition(":")[2], "triggeredAlarmState"), ALARM)


def own(document, name):
    return [p for p in document["problems"] if p["target"]["name"] == name and p["rule"] == RULE]


def test_a_vm(cli, setting_without_value, ledger):
    playbook = cli.file(BOTH)
    assert cli("plan", playbook, "-o", "json") == 1, cli.err
    assert sum(setting_without_value)
    document = json.loads(cli.out)
    (problem,) = own(document, "train-01")
    assert problem["message"].startswith("config.extraConfig")
    assert problem["message"].endswith("'value' (KeyError)")
    assert {p["target"]["name"] for p in document["problems"]} == {"train-01"}
    changed = {i["target"]["name"] for i in document["items"] if i["changes"]}
    assert {"esx01.lab.local", "esx02.lab.local", "train-02"} <= changed
    before = len(ledger())
    assert cli("apply", playbook, "--yes") == 1, cli.err
    assert ledger()[before:] == []
    assert "train-01" in cli.out + cli.err
    assert LACKS in cli.out + cli.err


def test_a_host(cli, alarm_without_time):
    playbook = cli.file(HOSTS)
    assert cli("plan", playbook) == 1, cli.err
    assert sum(alarm_without_time)
    assert "triggeredAlarmState" in cli.out
    assert "'time' (KeyError)" in cli.out
    assert f"[{RULE}]" in cli.out
    assert "esx01.lab.local" in cli.out
    assert "default_type" in cli.out.replace("default type", "default_type")


def test_a_plan_without_it_is_carried_out(cli, setting_without_value):
    playbook = cli.file("- hosts: esx01.lab.local\n  pvrdma_host: {firewall: true}\n")
    assert cli("plan", playbook) == 0, cli.out
    assert LACKS in cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.err
    assert sum(setting_without_value)


@pytest.mark.parametrize("arguments", [("show",), ("check", "-v"), ("capacity", "-i", INVENTORY)])
def test_other_commands_go_on_and_say_it(cli, setting_without_value, arguments):
    assert cli(*arguments) == (2 if arguments[0] == "check" else 0), cli.err
    assert sum(setting_without_value)
    assert LACKS in (cli.out + cli.err).replace("\n#  ", "")  # a comment of `show` may be broken there
    assert "train-01" in cli.out + cli.err
    assert any(name in cli.out for name in ("train-02", "esx01.lab.local", "esx[01:03].lab.local"))


def test_doctor_and_verify_go_on(cli, setting_without_value):
    assert cli("verify", cli.file(BOTH)) == 2, cli.err
    assert LACKS in cli.out
    assert cli("doctor", "-i", INVENTORY) == 2, cli.err
    assert "2 GPUs" in cli.out


def test_a_traceback_is_shown_where_it_is_asked_for(cli, setting_without_value):
    playbook = cli.file(BOTH)
    assert cli("plan", playbook) == 1
    assert "Traceback" not in cli.err
    assert cli("plan", playbook, "--debug") == 1
    assert "Traceback (most recent call last)" in cli.err
    assert "KeyError: 'value'" in cli.err
