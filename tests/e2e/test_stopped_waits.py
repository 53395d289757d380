"""The first signal ends waits that only look: nothing of the run is undone, and nobody waits minutes for a guest."""

from __future__ import annotations

import json
import signal
import time

import pytest
from support.places import INVENTORY
from support.processes import Process
from support.vm_sets import FARM, play
from support.vm_sets import INVENTORY as POOLS

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
AT_MOST = 5.0
"""Seconds that the page on reliability promises."""
BUSY = 4.0
"""What a machine on which other tests run may take besides."""
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
KEY = "- vms: train-01\n  tuning: {extra_config: {a.key: '1'}}\n"
WINDOW = """\
- hosts: esx01.lab.local
  graphics: {default_type: shared_direct}
  rolling: {evacuate: power_off}
"""
OUT = {"maintenance", "services", "power"}


def stopped(process, number, when):
    """Send a signal once it says this, and return after how many seconds it ended, with which code."""
    assert process.until(lambda out: any(when in line for line in out), 90), process.said
    time.sleep(1.0)
    sent = process.send(number)
    code = process.wait()
    return time.monotonic() - process.began - sent, code


def left(lab):
    return {v["name"] for v in lab.check()["invariants"] if v["name"] in OUT and not v["ok"]}


@pytest.mark.parametrize("number", list(CODES))
def test_a_guest_that_is_not_ready_is_not_waited_for(cli, make_lab, monkeypatch, number):
    lab = make_lab(FARM.replace("guest_seconds: 0.1", "guest_seconds: 300"))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    inventory = cli.file(POOLS, "inventory.yml")
    process = Process(lab, "apply", "-i", inventory, cli.file(play("train-01", nics=1)), "--yes", "-o", "json")
    took, code = stopped(process, number, "the guest has not said that it is ready")
    assert code == CODES[number], process.said
    assert took < AT_MOST + BUSY, process.said
    assert any("of 600 s" in line for line in process.out), "it names its own limit"
    (record,) = journal.every()
    assert not [s for s in record.steps() if s.state in ("begun", "unknown")]
    assert not left(lab)


@pytest.mark.parametrize("number", list(CODES))
def test_a_task_of_someone_else_is_not_waited_for(lab, cli, ledger, number):
    lab.set_faults("- {on: ReconfigVM_Task, target: train-01, do: {fault: TaskInProgress}}\n")
    process = Process(lab, "apply", "-i", INVENTORY, cli.file(KEY), "--yes", "-o", "json")
    took, code = stopped(process, number, "trying again")
    assert code == CODES[number], process.said
    assert took < AT_MOST + BUSY, process.said
    assert not ledger("train-01", "ReconfigVM_Task")
    assert any("of 600 s" in line for line in process.out), "it names its own limit"
    lab.clear_faults()
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert len(ledger("train-01", "ReconfigVM_Task")) == 1


def test_what_a_window_has_taken_out_is_put_back(lab, cli, ledger):
    """The host is busy with a task of someone else when its VMs are off already: they run again before the end."""
    lab.set_faults("- {on: EnterMaintenanceMode_Task, do: {fault: TaskInProgress}}\n")
    process = Process(lab, "apply", "-i", INVENTORY, cli.file(WINDOW), "--yes", "-o", "json")
    took, code = stopped(process, signal.SIGTERM, "trying again")
    assert code == 143, process.said
    assert took < AT_MOST + BUSY, process.said
    assert ledger("train-01", "ShutdownGuest")
    assert ledger("train-01", "PowerOnVM_Task")
    assert not left(lab), process.said
    (record,) = journal.every()
    assert not record.pending()
    summary = json.loads(process.out[-1])
    assert summary["interrupted"]
