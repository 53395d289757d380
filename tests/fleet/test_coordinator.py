"""Coordinator: what a worker may do in its epoch, what is kept, and what a second call of the same task finds."""

from __future__ import annotations

import time

import pytest
from support.dask_fleet import certificate

from vsphere_ai.app.events import Remark
from vsphere_ai.documents.fleets import Shard
from vsphere_ai.errors import Storage, Unreachable, UsageError, VsphereAiError
from vsphere_ai.execution.host_budget import LocalBudget
from vsphere_ai.fleet.address import Address, context, security
from vsphere_ai.fleet.certificates import TlsFiles
from vsphere_ai.fleet.coordinator import Coordinator
from vsphere_ai.fleet.holder import LeaseHolder
from vsphere_ai.fleet.lease import LeaseTimings, WorkerLease, clock
from vsphere_ai.fleet.rpc import Caller, WorkerListener
from vsphere_ai.fleet.run import FleetStop
from vsphere_ai.fleet.shard import outcome_of
from vsphere_ai.model.records.run_record import RunDocuments, RunRecord
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Invoke
from vsphere_ai.runs import journal, replica
from vsphere_ai.runs import lease_record as fleet_record

RUN = "20261124-120000-0001"
SHARD = Shard(fleet="20261124-120000-ffff", vcenter="berlin", run=RUN, plan={"steps": [1]})
TERMS = LeaseTimings(lease=0.4, margin=0.1)
STEP = Invoke(target=Target("host", "esx01", "HostSystem:1"), summary="start NTP", method="StartService")


class Fleet:
    """A coordinator that listens, with certificates of a folder."""

    def __init__(self, folder, budget=None):
        files = TlsFiles(*certificate(folder / "pki"))
        settings = security(Address("127.0.0.1", 1), files)
        listens, self.tls = (context(settings, "worker", listens=each) for each in (True, False))
        self.stop = FleetStop()
        self.coordinator = Coordinator([SHARD], TERMS, self.stop, budget)
        self.listener = WorkerListener("127.0.0.1", 0, listens, self.coordinator.answer)

    def caller(self, token=""):
        return Caller(self.listener.server_address, token or self.listener.token, self.tls)

    def acquire(self, worker="a"):
        return self.caller().call("acquire", {"run": RUN, "worker": worker})[0]

    def holder(self, stop=lambda _number, _why="": None):
        asked = clock()
        return LeaseHolder(self.caller(), RUN, self.acquire()["epoch"], WorkerLease(TERMS, asked), stop)

    def close(self):
        self.listener.__exit__()


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path, LocalBudget(1))
    yield made
    made.close()


def a_run(tmp_path, monkeypatch, holder):
    """A journal on another machine, published through the holder of a lease."""
    (tmp_path / "site").mkdir(mode=0o700)
    with monkeypatch.context() as there, replica.published(RUN, holder):
        there.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "site"))
        record = journal.create(RunRecord(what="farm.yml"), RunDocuments(), name=RUN)
        record.begin("1", STEP, [])
        return record


def test_what_a_worker_writes_is_here_and_counts_in_its_epoch_only(fleet, tmp_path, monkeypatch):
    with fleet.holder() as first:
        record = a_run(tmp_path, monkeypatch, first)
        assert [s.state for s in journal.open_run(RUN).steps()] == ["begun"]
        assert outcome_of(SHARD).state == "unfinished"
        first.login("key-1")
        assert "wait" in fleet.acquire("b"), "it is renewed"
    time.sleep(TERMS.lease + TERMS.margin)
    granted = fleet.acquire("b")
    assert (granted["epoch"], granted["sessions"]) == (2, ["key-1"])
    with pytest.raises(Storage) as fenced:
        record.begin("2", STEP, [])
    assert fenced.value.rule == "fleet.lost", "it does not even ask any more"
    first.held.renewed(clock())
    with pytest.raises(Storage) as fenced:
        record.begin("3", STEP, [])
    assert fenced.value.rule == "fleet.fenced"
    with pytest.raises(Storage):
        first.login("")
    with pytest.raises(Storage):
        first.may_change()
    assert [s.id for s in journal.open_run(RUN).steps()] == ["1"]


def test_whatever_is_answered_prolongs_the_lease_on_both_sides(fleet):
    holder = fleet.holder()  # renews nothing by itself
    for _ in range(8):
        time.sleep(TERMS.lease / 5)
        holder.login("")
        assert holder.held.may_send(clock())
        assert fleet.coordinator.is_held(RUN)
    holder.end(outcome_of(SHARD).as_json())
    holder.end(outcome_of(SHARD).as_json())  # the answer was lost
    with pytest.raises(Storage) as fenced:
        holder.login("")
    assert fenced.value.rule == "fleet.fenced", "it was given back"


def test_a_write_whose_answer_was_lost_is_taken_once(fleet, tmp_path, monkeypatch):
    with fleet.holder() as holder:
        a_run(tmp_path, monkeypatch, holder)
        values = {"run": RUN, "epoch": 1, "number": 1, "changes": [["set", [["note", '"twice"']]]]}
        fleet.caller().call("add", values)
        db = journal.open_run(RUN)
        assert "note" not in {key for key, _ in db._rows("select key, value from run")}, "number 1 was taken before"
        with pytest.raises(VsphereAiError, match="came before"):
            fleet.caller().call("add", {**values, "number": 9})


def test_a_task_that_is_called_again_finds_the_outcome(fleet, tmp_path, monkeypatch):
    with fleet.holder() as holder:
        record = a_run(tmp_path, monkeypatch, holder)
        record.end("1", "done")
        record.update(ended=True, exit_code=0)
    outcome = fleet.acquire("b")["outcome"]
    assert outcome["state"] == "done", "the journal says so: its worker died before it could"
    assert fleet.coordinator.settled()[0].over
    assert "epoch" not in fleet.acquire("c")


def test_a_failed_shard_is_not_carried_out_again_by_the_same_coordinator(fleet, tmp_path, monkeypatch):
    with fleet.holder() as holder:
        record = a_run(tmp_path, monkeypatch, holder)
        record.end("1", "failed", "no")
        record.update(ended=True, exit_code=1)
        holder.emit(Remark("run.notice", "look"))
        holder.end(outcome_of(SHARD).as_json())
    assert fleet.acquire("b")["outcome"]["state"] == "failed"
    assert list(fleet.coordinator.events()) == [("berlin", Remark("run.notice", "look"))]
    assert not fleet_record.read(RUN).held


def test_another_coordinator_waits_for_the_lease_of_the_first(fleet, tmp_path):
    assert fleet.acquire()["epoch"] == 1
    fleet.close()
    later = Fleet(tmp_path)
    assert 0 < later.acquire("b")["wait"] <= TERMS.lease + TERMS.margin
    with pytest.raises(VsphereAiError, match="epoch 0 is over"):
        later.caller().call("renew", {"run": RUN, "epoch": 0})
    time.sleep(TERMS.lease + TERMS.margin)
    assert later.acquire("b")["epoch"] == 2
    later.close()


def test_the_request_to_stop_comes_with_a_renewal_and_nothing_begins_after_it(fleet):
    asked = []
    with fleet.holder(lambda number, why: asked.append((number, why))):
        fleet.stop.halt("munich")
        fleet.stop(2)
        end = clock() + 5
        while not asked and clock() < end:
            time.sleep(0.01)
    assert asked[0] == (15, "stopped because munich failed (--halt-on-failure)"), "the first reason counts"
    time.sleep(TERMS.lease + TERMS.margin)
    assert fleet.acquire("b") == {"stop": 15}


def test_a_coordinator_that_is_gone_ends_the_sending_and_then_the_run(fleet):
    asked = []
    with fleet.holder(asked.append) as holder:
        holder.may_change()
        fleet.listener.__exit__()
        fleet.listener.server_close()
        holder._caller.close()
        with pytest.raises(Storage) as lost:
            holder.login("")
        assert lost.value.rule == "fleet.lost"
        with pytest.raises(Storage):
            holder.may_change()


def test_hosts_are_counted_over_all_shards(fleet):
    with fleet.holder() as holder:
        assert holder.take(RUN, "host-1")
        assert not holder.take(RUN, "host-2")
        holder.give(RUN, "host-1")
        assert holder.take(RUN, "host-2")
        assert holder.refusal() == ""
        holder.idle(RUN, idle=True)
        assert "at most 1" in holder.refusal()


def test_who_is_not_of_this_fleet_gets_no_answer(fleet):
    with pytest.raises(Unreachable):
        fleet.caller("another").call("acquire", {"run": RUN, "worker": "x"})
    with pytest.raises(UsageError, match="not of this fleet"):
        fleet.coordinator.answer("acquire", {"run": "20200101-000000-0000"}, b"")
    assert not fleet_record.is_kept(RUN)
