"""Calls of which the journal alone cannot tell whether they took effect: vCenter's tasks and events can."""

from __future__ import annotations

import time

import pytest
from support.cut_off import DIES_BEFORE_ITS_REBOOT, ESX1, dies, killed_in_the_reboot, reboots
from support.gates import busy
from support.places import INVENTORY

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
UPGRADE = "- vms: train-01\n  hardware: {version: 19}\n"
GRAPHICS = f"""
- hosts: {ESX1}
  graphics: {{default_type: shared_direct}}
  rolling: {{evacuate: power_off, reboot: api}}
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.EVENTS_LAG", 1.0)


def count(ledger, call):
    return len([e for e in ledger() if e["call"] == call])


def test_a_guest_whose_shutdown_vcenter_refused_is_not_about_to_shut_down(lab, cli, soap):
    """Who switches it off afterwards is somebody else, and it stays off."""
    lab.set_faults("- {on: ShutdownGuest, do: {fault: ToolsUnavailable}}\n")
    assert cli.run("apply", cli.file(UPGRADE), "--yes") == 1, cli.out + cli.err
    assert cli.summary["open"] == []
    (record,) = journal.every()
    assert record.pending() == ()
    lab.clear_faults()
    soap.wait(soap.vm("train-01").PowerOffVM_Task())
    assert cli("resume", record.id, "--yes") == 0, cli.out + cli.err
    assert soap.vm("train-01").runtime.powerState == "poweredOff"


DIES_BEFORE_THE_CALL = """
import os
from vsphere_ai.cli.main import run
from vsphere_ai.runs.journal import Journal
sending = Journal.sending
Journal.sending = lambda self, target: (sending(self, target), target.kind == "vm" and os._exit(9))
run()
"""


def test_a_guest_that_was_never_asked_is_not_waited_for(lab, cli, ledger):
    """The run died between its note and the call, and gave the guest five minutes."""
    assert dies(lab, DIES_BEFORE_THE_CALL, "apply", "-i", INVENTORY, cli.file(UPGRADE), "--yes") == 9
    (record,) = journal.every()
    assert [(o.pending.kind, bool(o.sent)) for o in record.ever_pending()] == [("off", True)]
    began = time.monotonic()
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert time.monotonic() - began < 100 * busy(), "the guest had five minutes"
    assert count(ledger, "ShutdownGuest") == count(ledger, "PowerOnVM_Task") == 1


@pytest.fixture
def _short_doubt(monkeypatch):
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.NEVER_DOWN", 6.0)
    monkeypatch.setattr("vsphere_ai.app.runs.quiesce.AT_LEAST", 3.0)


NO_TASK, WAITING = "reboot.never-sent", "wait.reboot"


@pytest.mark.usefixtures("_short_doubt")
def test_a_reboot_of_which_vcenter_has_no_task_is_not_waited_for(lab, cli, ledger, farm):
    """The run died between its note and the call, and vCenter makes a task of every call that it gets."""
    before = farm()
    assert dies(lab, DIES_BEFORE_ITS_REBOOT, "apply", "-i", INVENTORY, cli.file(GRAPHICS), "--yes") == 9
    assert reboots(ledger) == []
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert ESX1 in cli.text(NO_TASK)
    assert WAITING not in cli.rules
    assert reboots(ledger) == [ESX1]
    (record,) = journal.every()
    assert record.pending() == ()
    assert farm()["hosts"][ESX1]["maintenance"] is False
    assert {n: v["power"] for n, v in farm()["vms"].items()} == {n: v["power"] for n, v in before["vms"].items()}


@pytest.mark.usefixtures("_short_doubt")
@pytest.mark.parametrize("fault", ["[]", "- {on: QueryEvents, do: {fault: NoPermission}}\n"])
def test_a_reboot_of_which_vcenter_has_a_task_is_waited_for(lab, cli, ledger, fault):
    """The task may be in the recent ones of the host only: events take their time, and may not be read by everybody."""
    killed_in_the_reboot(lab, cli.file(GRAPHICS))
    lab.set_faults(fault)
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert NO_TASK not in cli.rules
    assert ESX1 in cli.text(WAITING)
    assert reboots(ledger) == [ESX1]


@pytest.mark.usefixtures("_short_doubt")
def test_somebody_elses_reboot_is_waited_for_as_the_runs_own(lab, cli, ledger, soap):
    """The two cannot be distinguished, and once is enough."""
    assert dies(lab, DIES_BEFORE_ITS_REBOOT, "apply", "-i", INVENTORY, cli.file(GRAPHICS), "--yes") == 9
    soap.wait(soap.host("esx01").RebootHost_Task(False))
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert ESX1 in cli.text(WAITING)
    assert reboots(ledger) == [ESX1]


@pytest.mark.usefixtures("_short_doubt")
def test_an_order_over_ssh_makes_no_task(lab, cli, ledger):
    play = cli.file(GRAPHICS.replace(", reboot: api", ""))
    assert dies(lab, DIES_BEFORE_ITS_REBOOT, "apply", "-i", INVENTORY, play, "--yes") == 9
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert NO_TASK not in cli.rules
    assert ESX1 in cli.text(WAITING)
    assert reboots(ledger) == [ESX1]


def twice(self, ref, method, args=None, **options):
    """Send a request to enter maintenance mode as a line would that doubles it: the second answer is heard."""
    if method == "EnterMaintenanceMode_Task":
        CALL(self, ref, method, args, **options)
    return CALL(self, ref, method, args, **options)


CALL = VCenter.call


def test_a_request_that_arrives_twice_is_one(cli, ledger, farm, monkeypatch):
    monkeypatch.setattr(VCenter, "call", twice)
    assert cli("apply", cli.file(GRAPHICS), "--yes") == 0, cli.out + cli.err
    assert not farm()["hosts"][ESX1]["maintenance"]
    assert count(ledger, "EnterMaintenanceMode_Task") == count(ledger, "ExitMaintenanceMode_Task") == 1


DIES_AFTER_A_DOUBLED_REQUEST = """
import os
from vsphere_ai.cli.main import run
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.execution.actions import lifecycle
call = VCenter.call
def twice(self, ref, method, args=None, **options):
    if method == "EnterMaintenanceMode_Task":
        call(self, ref, method, args, **options)
    return call(self, ref, method, args, **options)
VCenter.call = twice
lifecycle.arrives_all_the_same = lambda *_: os._exit(9)
run()
"""


def test_a_run_that_died_over_a_doubled_request_knows_its_host(lab, cli, ledger, farm, soap):
    """The task that it knows of has failed, and the other one has brought the host into maintenance mode."""
    before = {n: v["power"] for n, v in farm()["vms"].items()}
    assert dies(lab, DIES_AFTER_A_DOUBLED_REQUEST, "apply", "-i", INVENTORY, cli.file(GRAPHICS), "--yes") == 9
    soap.until(lambda: soap.host("esx01").runtime.inMaintenanceMode)
    began = time.monotonic()
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert time.monotonic() - began < 100 * busy()
    now = farm()
    assert not now["hosts"][ESX1]["maintenance"]
    assert {n: v["power"] for n, v in now["vms"].items()} == before
    assert count(ledger, "EnterMaintenanceMode_Task") == 1
