"""Record of a run in its journal and in vCenter: what is written when, and what is never done without it."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

import pytest

from vsphere_ai.errors import Storage
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.records.out_of_service import OutOfService
from vsphere_ai.model.records.pending import NoRecord, Pending
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import EnterMaintenance, ExitMaintenance, PowerOff, PowerOn, Reboot
from vsphere_ai.runs import shared_record
from vsphere_ai.runs.shared_record import SharedRecord

HOST, OTHER = Target("host", "esx01", "HostSystem:1"), Target("host", "esx02", "HostSystem:2")
VM = Target("vm", "train-01", "VirtualMachine:1")
OFF, IN = Pending("off", VM), Pending("maintenance", HOST)
WINDOW = (OFF, IN)
SHUT = PowerOff(target=VM, summary="shut down", shutdown_timeout=1)
ENTER = EnterMaintenance(target=HOST, summary="enter", timeout=1)
REBOOT = Reboot(target=HOST, summary="reboot", via="ssh")


class Journal(NoRecord):
    def __init__(self, *pending, fails=False):
        self.begun, self.left, self.fails = [], list(pending), fails

    def begin(self, id, step, opens):
        if self.fails:
            raise Storage("the disk is full")
        self.begun.append(id)

    def pending(self):
        return tuple(self.left)


class Kept:
    """A record in vCenter: the texts that were written, and whether it was removed."""

    def __init__(self):
        self.vcenter, self.texts, self.removed, self.refuses = self, [], 0, False
        self.holding = None

    def read_objects(self, refs, _paths):
        return {ref: Facts(ref, {"config.instanceUuid": f"uuid of {ref}"}) for ref in refs}

    def write(self, text):
        if self.refuses:
            raise Storage("vCenter does not answer")
        if self.holding is not None:
            self.holding.wait(10)
        self.texts.append(text)

    def remove(self):
        self.removed += 1
        return True

    @property
    def items(self):
        """What the last text says is out."""
        return [(i["kind"], i["name"]) for i in json.loads(self.texts[-1]).get("items", ())]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(shared_record, "PAUSE", 0.01)


def made(journal, kept, ahead=None, before=None):
    about = OutOfService(run="20261128-140256-8186", what="play.yml", user="alice", machine="build7", pid=4711)
    windows = {"off": WINDOW, "enter": WINDOW} if ahead is None else ahead
    return SharedRecord(journal, kept, about, windows, before or {})


def test_the_first_step_of_a_window_writes_all_of_it_once():
    journal, kept = Journal(), Kept()
    record = made(journal, kept, before={HOST.ref: {"gpus": 8}, OTHER.ref: {"gpus": 4}})
    record.begin("off", SHUT, [OFF])
    assert kept.items == [("off", "train-01"), ("maintenance", "esx01")]
    record.begin("enter", ENTER, [IN, Pending("gate", HOST)])
    assert len(kept.texts) == 1
    assert journal.begun == ["off", "enter"]
    written = OutOfService.model_validate_json(kept.texts[0])
    assert written.holder == "run 20261128-140256-8186 of alice on build7"
    assert written.before == ({"gpus": 8},), "of its own hosts only"
    assert [i.uuid for i in written.items] == ["uuid of VirtualMachine:1", ""]


def test_an_order_to_reboot_is_written_when_it_is_sent():
    kept = Kept()
    record = made(Journal(), kept)
    record.begin("off", SHUT, [OFF])
    record.begin("reboot", REBOOT, [Pending("reboot", HOST, "2026-11-28T12:00:00+00:00")])
    assert kept.items[-1] == ("reboot", "esx01")
    assert len(kept.texts) == 2


def test_a_step_whose_record_is_not_taken_is_not_begun():
    journal, kept = Journal(), Kept()
    kept.refuses = True
    record = made(journal, kept)
    with pytest.raises(Storage, match="vCenter does not answer"):
        record.begin("off", SHUT, [OFF])
    assert journal.begun == []
    kept.refuses = False
    assert record.finish() == ""
    assert kept.removed == 1


def test_what_never_happened_is_not_left_in_the_record():
    """The disk is full: the step is not sent, and the rest of the window neither."""
    kept = Kept()
    record = made(Journal(fails=True), kept)
    with suppress(Storage):
        record.begin("off", SHUT, [OFF])
    assert kept.items
    record.finish()
    assert kept.removed == 1


def test_what_someone_else_has_switched_is_taken_out_at_once():
    kept = Kept()
    record = made(Journal(), kept, {"off": WINDOW, "enter": WINDOW, "off-2": WINDOW})
    record.begin("enter", ENTER, [IN])
    record.begin("off", SHUT, [])  # it was off already: not ours
    assert kept.items == [("maintenance", "esx01")]


def test_what_is_back_is_taken_away_and_the_record_with_the_last_of_it():
    kept = Kept()
    record = made(Journal(), kept)
    record.begin("off", SHUT, [OFF])
    record.begin("enter", ENTER, [IN])
    record.end("exit", "done", closes=[IN])
    for _ in range(500):
        if kept.items == [("off", "train-01")]:
            break
        threading.Event().wait(0.01)
    assert kept.items == [("off", "train-01")]
    record.end("on", "done", closes=[OFF])
    assert record.finish() == ""
    assert kept.removed == 1


def test_what_stays_out_stays_written():
    kept = Kept()
    record = made(Journal(), kept)
    record.begin("off", SHUT, [OFF])
    assert record.finish() == ""
    assert kept.removed == 0
    assert kept.items == [("off", "train-01")], "not what the window did not come to"


def test_what_an_earlier_attempt_left_is_written_first():
    kept = Kept()
    record = made(Journal(IN, Pending("gate", HOST), Pending("lock", OTHER)), kept)
    record.take_up(kept=False)
    assert kept.items == [("maintenance", "esx01")]
    record.resolve(IN)
    assert record.finish() == ""
    assert kept.removed == 1


def test_a_run_that_takes_nothing_out_asks_vcenter_nothing():
    kept = Kept()
    record = made(Journal(), kept, {})
    record.take_up(kept=False)
    record.begin("on", PowerOn(target=VM, summary="power on"), [])
    record.end("on", "done", closes=[OFF])
    record.begin("exit", ExitMaintenance(target=HOST, summary="exit", timeout=1), [])
    assert record.finish() == ""
    assert (kept.texts, kept.removed) == ([], 0)


def test_what_several_threads_add_meanwhile_is_one_write():
    kept = Kept()
    vms = [Target("vm", f"train-{n}", f"VirtualMachine:{n}") for n in range(9)]
    record = made(Journal(), kept, {})
    kept.holding = threading.Event()

    def off(number):
        step = PowerOff(target=vms[number], summary="shut down", shutdown_timeout=1)
        record.begin(f"off-{number}", step, [Pending("off", vms[number])])

    threads = [threading.Thread(target=off, args=(n,)) for n in range(9)]
    for thread in threads:
        thread.start()
    threading.Event().wait(0.3)
    kept.holding.set()
    for thread in threads:
        thread.join(10)
    assert len(kept.items) == 9
    assert len(kept.texts) <= 3


def test_why_the_record_could_not_be_brought_up_to_date_is_returned():
    kept = Kept()
    record = made(Journal(), kept)
    record.begin("off", SHUT, [OFF])
    record.begin("enter", ENTER, [IN])
    kept.refuses = True
    record.end("exit", "done", closes=[IN])
    assert record.finish() == "vCenter does not answer"
