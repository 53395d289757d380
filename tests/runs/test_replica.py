"""Replica of a journal: what was written counts once the replica has it, and another machine goes on from it."""

from __future__ import annotations

import sqlite3
import threading

import pytest
from support.gates import until

from vsphere_ai.errors import Storage
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.records.run_record import RunDocuments, RunRecord
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Invoke
from vsphere_ai.runs import journal, replica
from vsphere_ai.runs.group_commit import GroupCommit
from vsphere_ai.runs.replica import Replica

NAME = "20261124-120000-0001"
HOST = Target("host", "esx01", "HostSystem:1")
STEP = Invoke(target=HOST, summary="start NTP", kinds=("services",), method="StartService")
OFF = Pending("off", Target("vm", "train-01", "VirtualMachine:1"), "on")


class Copy:
    """Takes the writes of a run into a replica, until it is told to refuse."""

    def __init__(self, path):
        self.replica, self.refuses, self.batches = Replica(path), False, 0
        self.hold = lambda: None

    def begin(self, content):
        self.replica.begin(content)

    def add(self, changes):
        if self.refuses:
            raise Storage("another worker has this run", rule="fleet.fenced")
        self.batches += 1
        self.hold()
        self.replica.add(changes)


def tables(path):
    db = sqlite3.connect(path)
    try:
        return {t: sorted(db.execute(f"select * from {t}"), key=repr) for t in ("run", "step", "pending", "checksum")}
    finally:
        db.close()


@pytest.fixture
def copy(tmp_path):
    made = Copy(tmp_path / "copy.db")
    with replica.published(NAME, made):
        yield made


def a_run():
    return journal.create(RunRecord(what="farm.yml"), RunDocuments(desired={"plays": []}), name=NAME)


def test_every_write_reaches_the_replica(copy):
    record = a_run()
    record.begin("1", STEP, [OFF])
    record.submitted("1", "task-7")
    record.sending(OFF.target)
    record.end("1", "failed", "no", [OFF])
    record.rebooted(HOST, did=True)
    record.add_pending(Pending("maintenance", HOST, ""))
    record.resolve(Pending("maintenance", HOST, ""))
    record.update(ended=True, exit_code=9)
    assert tables(copy.replica.path) == tables(record.path)
    assert tables(record.path)["step"], "something was written"


def test_another_machine_goes_on_from_the_replica(copy, tmp_path, monkeypatch):
    record = a_run()
    record.begin("1", STEP, [OFF])
    record.close()
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "elsewhere"))
    Replica(journal.runs_dir() / f"{NAME}.db").begin(copy.replica.content())
    again = journal.open_run(NAME)
    assert [s.state for s in again.steps()] == ["begun"]
    assert again.pending() == (OFF,)
    assert again.attempt == 2
    again.end("1", "done")
    assert again.documents.desired == {"plays": []}
    assert tables(copy.replica.path) == tables(again.path), "its writes are published as well"


def test_what_the_replica_refuses_must_not_be_sent(copy):
    record = a_run()
    copy.refuses = True
    with pytest.raises(Storage, match="another worker"):
        record.begin("1", STEP, [OFF])
    copy.refuses = False
    record.begin("2", STEP, [])
    assert [s.id for s in journal.open_run(NAME).steps()] == ["1", "2"], "it stays in the journal, as not sent"
    assert len(tables(copy.replica.path)["step"]) == 1


def test_threads_that_write_together_are_published_together(copy, monkeypatch):
    record, come = a_run(), []
    before, real = copy.batches, GroupCommit.write

    def coming(self, work):
        come.append(work)
        real(self, work)

    monkeypatch.setattr(GroupCommit, "write", coming)
    copy.hold = lambda: until(lambda: len(come) == 16)

    def write(number):
        record.begin(str(number), STEP, [])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert tables(copy.replica.path) == tables(record.path)
    assert 1 <= copy.batches - before < 16


def test_another_run_of_the_same_process_is_not_published(copy):
    a_run()
    before = copy.batches
    other = journal.create(RunRecord(what="other.yml"))
    other.begin("1", STEP, [])
    assert copy.batches == before


@pytest.mark.parametrize("changes", [[("drop", [[1]])], [("set", [["a", "1"]]), ("delete from run", [[]])]])
def test_a_statement_that_is_not_known_changes_nothing(copy, changes):
    record = a_run()
    before = tables(copy.replica.path)
    with pytest.raises(Storage, match="no statement is called"):
        copy.replica.add(changes)
    assert tables(copy.replica.path) == before == tables(record.path)


def test_a_batch_that_fails_is_taken_back_whole(copy):
    record = a_run()
    with pytest.raises(Storage):
        copy.replica.add([("submitted", [["task-1", 1, "1"]]), ("set", [["only one"]])])
    assert tables(copy.replica.path) == tables(record.path)
