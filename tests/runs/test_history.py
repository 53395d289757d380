"""Which earlier runs somebody is asked to finish: one answer for `plan`, `runs` and `resume`."""

from __future__ import annotations

import os
import sqlite3
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from support.journals import create
from support.raising import refused

from vsphere_ai.cli.main import main
from vsphere_ai.errors import Storage, UsageError
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.runs import history, journal

HOST, VM = Target("host", "esx01", "HostSystem:host-1"), Target("vm", "train-01", "VirtualMachine:vm-1")
GONE = {"pid": 0}
WELL = {"ended": True, "exit_code": 0, "signal": 0, "skipped": 0}
SECONDS = count()


def run(*all_pending, instance="vc", step=True, **values):
    """A run that began a second after the one before it; cut off unless `values` say how it ended."""
    record = create({"what": "play.yml", "instance": instance, "approved": {}})
    if step:
        record.begin("s1", Reconfigure(target=VM, summary="reconfigure"), all_pending)
        record.end("s1", "done")
    began = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(SECONDS))
    record.update(started=began.isoformat(timespec="milliseconds"), **{**GONE, **values})
    return record


def states():
    among = history.look()
    return [history.state_of(s, among) for s in among]


def state(record):
    among = history.look()
    return history.state_of(next(s for s in among if s.run == record.id), among)


@pytest.fixture(autouse=True)
def _names_in_order(monkeypatch):
    """Two runs of one second have names in no order."""
    numbers = count()
    monkeypatch.setattr(journal.secrets, "token_hex", lambda _: f"{next(numbers):04x}")


CUT_OFF = {
    "unfinished": {},
    "stopped": {**WELL, "signal": 2, "skipped": 3},
    "failed": {**WELL, "exit_code": 1},
}


@pytest.mark.parametrize("how", CUT_OFF)
def test_what_runs_calls_not_finished_is_announced_and_taken(how, capsys):
    record = run(**CUT_OFF[how])
    assert state(record) == how
    assert [*history.unfinished("vc")] == [record.id]
    assert history.unfinished("other") == {}
    assert history.latest().id == record.id
    assert main(["run", "list"]) == 0
    assert f"{record.id}  {how}" in capsys.readouterr().out


@pytest.mark.parametrize("how", CUT_OFF)
def test_a_later_run_that_ended_well_supersedes_it(how, capsys):
    record = run(**CUT_OFF[how])
    run(**WELL)
    assert state(record) == "superseded"
    assert history.unfinished("vc") == {}
    with refused(UsageError, "run.none"):
        history.latest()
    assert main(["run", "show", record.id]) == 0
    out = capsys.readouterr().out
    assert f"Run {record.id}: superseded" in out
    assert "resume" not in out
    assert "rollback" in out


NOT_SUPERSEDING = {
    "on another vCenter": {"instance": "other", **WELL},
    "cut off itself": {},
    "which changed nothing": {"step": False, **WELL},
    "a rollback": {"rolls_back": "another", **WELL},
    "rolled back since": {"rolled_back": "another", **WELL},
}


@pytest.mark.parametrize("what", NOT_SUPERSEDING)
def test_other_later_runs_do_not(what):
    record = run()
    run(**NOT_SUPERSEDING[what])
    assert state(record) == "unfinished"
    assert record.id in history.unfinished("vc")


def test_an_earlier_run_does_not():
    run(**WELL)
    record = run()
    assert history.latest().id == record.id
    assert history.reasons_to_ask(record) == ()


def test_a_run_that_owes_stays_announced_but_asks():
    record = run(Pending("maintenance", HOST))
    assert history.unfinished("vc") == {record.id: f"vsphere-ai resume {record.id}"}
    after = run(**WELL)
    assert history.unfinished("vc") == {record.id: f"vsphere-ai resume {record.id} --cleanup"}, "the rest is outdone"
    assert history.latest().id == record.id
    assert history.reasons_to_ask(record) == (
        f"run {after.id} came after run {record.id}, and ended well; what it changed stays",
    )
    record.resolve(Pending("maintenance", HOST))
    assert state(record) == "superseded"


def test_a_run_that_goes_on_is_the_later_one():
    record = run()
    run(**WELL)
    history.mark_resumed(record)
    record.update(**GONE)  # and is killed again
    assert [*history.unfinished("vc")] == [record.id]
    assert history.reasons_to_ask(record) == ()


def test_a_run_that_was_rolled_back_is_not_offered_again():
    record = run()
    back = run(rolls_back=record.id)
    history.rolled_back(back)
    assert state(record) == "unfinished", "the rollback has not come to its end"
    assert history.latest().id == back.id
    back.update(**WELL)
    history.rolled_back(back)
    assert states() == ["rolled back", "finished"]
    assert history.unfinished("vc") == {}
    assert f"run {record.id} was rolled back by run {back.id}" in history.reasons_to_ask(record)
    history.mark_resumed(record)
    assert state(record) == "unfinished"


def test_a_rollback_of_a_run_whose_journal_was_removed():
    back = run(rolls_back="20260101-000000-dead", **WELL)
    history.rolled_back(back)
    assert states() == ["finished"]


def test_a_run_that_is_under_way_is_not_announced_and_not_superseded():
    record = run()
    history.mark_resumed(record)
    assert journal.is_alive(record)
    assert history.unfinished("vc") == {}
    assert history.latest().id == record.id, "the lock says who works"
    other = run()
    assert history.latest().id == other.id
    record.update(resumed="2026-01-01T00:00:00.000+00:00")
    run(**WELL)
    assert state(record) == "unfinished"


def test_a_process_that_got_the_number_of_a_crashed_run_does_not_hide_it():
    record = run(Pending("maintenance", HOST))
    history.mark_resumed(record)
    assert history.unfinished("vc") == {}
    boot, _, ticks = record.run.born.partition("/")
    for other in (f"{boot}/{int(ticks) - 1}", f"another-boot/{ticks}"):
        record.update(pid=os.getpid(), born=other)
        assert [*history.unfinished("vc")] == [record.id]


def test_a_journal_from_before_beginnings_were_noted():
    record = run(Pending("maintenance", HOST))
    with sqlite3.connect(record.path) as db:
        db.execute("delete from run where key = 'born'")
        db.execute("delete from checksum where what = 'run/born'")
    record.update(pid=os.getpid())
    assert history.unfinished("vc") == {}
    record.update(pid=2**22 + 1)
    assert [*history.unfinished("vc")] == [record.id]


def taking_over(record, **values):
    """A run that took over the pending actions of another, whose process died before they were closed there."""
    owed = [o for o in record.ever_pending() if not o.closed]
    about = {"what": "play.yml", "instance": "vc", "approved": {}, "takes_over": record.id, **values}
    newer = create(about, owed)
    began = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(SECONDS))
    newer.update(started=began.isoformat(timespec="milliseconds"), **GONE)
    return newer


def owing():
    found = {}
    for record in journal.every():
        found[record.id] = {d.kind for d in record.pending()}
        record.close()
    return found


def test_a_debt_that_stands_in_two_journals_is_the_newer_runs():
    record = run(Pending("maintenance", HOST), Pending("reboot", HOST, "2026-01-01T00:00:00+00:00"))
    record.sending(HOST)
    before = record.ever_pending()
    newer = taking_over(record, rolls_back=record.id)
    assert newer.ever_pending() == before, "opened and sent when they were"
    assert owing() == {record.id: {"maintenance", "reboot"}, newer.id: {"maintenance", "reboot"}}
    among = history.look()
    assert owing() == {record.id: set(), newer.id: {"maintenance", "reboot"}}
    assert history.successor(record.id, among).run == newer.id
    assert [*history.unfinished("vc")] == [newer.id], "the earlier one waits for it"
    assert history.latest().id == newer.id
    assert journal.open_run(newer.id).ever_pending() == before, "and it is sealed"
    newer.resolve(*newer.pending())
    assert history.successor(record.id, history.look()) is None
    assert set(history.unfinished("vc")) == {record.id, newer.id}


def test_the_heir_of_an_heir_is_found():
    record = run(Pending("maintenance", HOST))
    second = taking_over(record)
    third = taking_over(second)
    for _ in range(2):
        assert history.successor(record.id, history.look()).run == third.id
    assert [*history.unfinished("vc")] == [third.id]


def test_what_a_run_owes_since_is_its_own():
    record = run(Pending("maintenance", HOST))
    newer = taking_over(record)
    newer.resolve(Pending("maintenance", HOST))
    history.look()
    assert owing()[record.id] == set()
    history.mark_resumed(record)
    record.update(**GONE)
    record.add_pending(Pending("maintenance", HOST))  # and dies once more
    history.look()
    assert owing()[record.id] == {"maintenance"}


def test_a_rollback_that_ended_and_died_before_it_said_so_is_marked():
    record = run()
    back = run(rolls_back=record.id, **WELL)
    assert states() == ["rolled back", "finished"]
    assert record.run.rolled_back == back.id
    history.mark_resumed(record)  # somebody goes forward again
    record.update(**GONE)
    assert state(record) == "unfinished"


def test_a_journal_that_is_not_written_leaves_no_debt_behind(monkeypatch):
    record = run(Pending("maintenance", HOST))
    monkeypatch.setattr(journal.Journal, "_add", lambda *_: (_ for _ in ()).throw(sqlite3.OperationalError("full")))
    with refused(Storage, "journal", "full"):
        taking_over(record)
    assert owing() == {record.id: {"maintenance"}}
