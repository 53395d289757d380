"""A run that nobody finishes can end, and old journals go; what somebody still has to put back is never forgotten."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from support.journals import create
from support.printed import judge

from vsphere_ai.cli.console import json_stream
from vsphere_ai.cli.main import main
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Healthy, Reconfigure
from vsphere_ai.runs import history, journal, locks

HOST, VM = Target("host", "esx01", "HostSystem:host-1"), Target("vm", "train-01", "VirtualMachine:vm-1")
WELL = {"ended": True, "exit_code": 0, "signal": 0, "skipped": 0}


def run(*all_pending, days=0, instance="vc", **values):
    """A run of that many days ago; cut off unless `values` say how it ended."""
    steps = [{"id": f"s{n}", "target": vars(VM), "summary": "reconfigure"} for n in (1, 2)]
    record = create({"what": "play.yml", "instance": instance, "approved": {"steps": steps}})
    record.begin("s1", Reconfigure(target=VM, summary="reconfigure", kinds=("vgpu",)), all_pending)
    record.end("s1", "done")
    began = datetime.now(UTC) - timedelta(days=days)
    record.update(pid=0, started=began.isoformat(timespec="milliseconds"), **values)
    return record


@pytest.fixture
def command(capsys):
    def call(*arguments):
        code = main(list(arguments))
        return code, *capsys.readouterr()

    return call


def test_a_run_is_closed_with_what_it_has_left(command):
    record = run(Pending("maintenance", HOST), Pending("off", VM))
    code, out, _ = command("run", "close", record.id)
    assert code == 64, "nothing is closed without a yes"
    assert json_stream.failure() == "usage.no-terminal"
    assert "esx01 is in maintenance mode because of this run" in out
    assert "train-01 was powered off by this run" in out
    assert "1 of its steps not done" in out
    assert f"vsphere-ai resume {record.id} --cleanup" in out
    assert [*history.unfinished("vc")] == [record.id]
    assert command("run", "close", record.id, "--yes")[0] == 0
    assert history.unfinished("vc") == {}
    assert journal.open_run(record.id).pending() == ()
    assert f"{record.id}  closed" in command("run", "list")[1]
    shown = command("run", "show", record.id)[1]
    assert "CLOSED by" in shown
    assert "esx01 is in maintenance mode because of this run: not put back" in shown
    assert "Finish it" not in shown
    assert command("resume")[0] == 64
    assert any("was closed by" in line for line in history.reasons_to_ask(journal.open_run(record.id)))


def test_a_run_that_is_over_or_under_way_is_not_closed(command):
    over = run(**WELL)
    code, out, _ = command("run", "close", over.id, "--yes")
    assert code == 0
    assert {over.id, "finished"} <= set(re.findall(r"[\w-]+", out)), out
    assert journal.open_run(over.id).run.closed is None
    record = create({"what": "play.yml", "instance": "vc", "approved": {}})  # by this process
    code, _, err = command("run", "close", record.id, "--yes")
    assert (code, json_stream.failure()) == (7, "run.under-way")
    assert {record.id, str(os.getpid())} <= set(re.findall(r"[\w-]+", err)), err


def test_a_run_that_somebody_goes_on_with_is_not_closed(command):
    record = run(Pending("off", VM))
    with locks.hold_run(record.id):
        code, _, err = command("run", "close", record.id, "--yes")
    assert (code, json_stream.failure()) == (7, "run.under-way")
    assert record.id in err


def test_a_closed_run_that_goes_on_is_none(command):
    record = run(Pending("off", VM))
    command("run", "close", record.id, "--yes")
    history.mark_resumed(again := journal.open_run(record.id))
    assert history.see(again).state == "unfinished"


def names():
    return {b.id for b in journal.every()}


def test_old_runs_that_are_over_are_removed(command):
    old, failed, new = run(days=200, **WELL), run(days=150, **{**WELL, "exit_code": 1}), run(days=1, **WELL)
    closed = run(Pending("off", VM), days=120)
    command("run", "close", closed.id, "--yes")
    code, out, _ = command("run", "prune")
    assert code == 64
    assert json_stream.failure() == "usage.no-terminal"
    assert set(out.split()) == {old.id, failed.id, closed.id}
    assert names() == {old.id, failed.id, closed.id, new.id}
    assert command("run", "prune", "--yes")[0] == 0
    assert names() == {new.id}
    assert {p.name.partition(".")[0] for p in journal.runs_dir().iterdir()} == {new.id}
    assert not list((journal.runs_dir().parent / "locks").glob("run-*"))
    assert command("run", "prune", "--older-than", "12h", "--yes")[0] == 0
    assert names() == set()


def test_what_is_owed_is_never_removed_nor_what_came_after_it(command):
    before, owing = run(days=300, **WELL), run(Pending("maintenance", HOST), days=200, **{**WELL, "exit_code": 6})
    later, elsewhere = run(days=150, **WELL), run(days=150, instance="other", **WELL)
    cut_off = run(days=140, instance="third")
    assert command("run", "prune", "--older-than", "1d", "--yes")[0] == 0
    assert names() == {owing.id, later.id, cut_off.id}, (before.id, elsewhere.id)


def test_a_run_stays_while_another_one_owes_what_it_took_over_from_it(command):
    before = run(days=300, **{**WELL, "exit_code": 6})
    after = run(Pending("maintenance", HOST), days=200, takes_over=before.id, **{**WELL, "exit_code": 6})
    assert command("run", "prune", "--yes")[0] == 0
    assert names() == {before.id, after.id}
    journal.open_run(after.id).resolve(Pending("maintenance", HOST))
    assert command("run", "prune", "--yes")[0] == 0
    assert names() == set()


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1w", "1.5d"])
def test_an_age_that_is_none(command, age):
    run(days=200, **WELL)
    code, _, err = command("run", "prune", "--older-than", age, "--yes")
    assert code == 64
    assert f" {age} " in err
    assert len(names()) == 1


def test_a_run_that_is_resumed_while_it_is_pruned_stays(command):
    record = run(days=200, **WELL)
    with locks.hold_run(record.id):
        assert command("run", "prune", "--yes")[0] == 7
    assert names() == {record.id}


@pytest.mark.parametrize(
    ("ref", "instance", "deferred", "left"),
    [
        (HOST.ref, "vc", True, ()),
        (HOST.ref, "vc", False, ("gate",)),
        (HOST.ref, "other", True, ("gate",)),
        ("HostSystem:host-2", "vc", True, ("gate",)),
    ],
)
def test_a_gate_is_settled_by_a_later_one_on_the_same_host(ref, instance, deferred, left):
    passed = Healthy(target=Target("host", "esx01", ref), summary="health gate")
    books = []

    def owes():
        books.append(run(Pending("gate", HOST)))
        time.sleep(0.002)

    def passes():
        record = run(instance=instance)
        record.begin("s2", passed, ())
        record.end("s2", "done")
        time.sleep(0.002)

    for each in (owes, passes) if deferred else (passes, owes):
        each()
    history.look()
    assert tuple(d.kind for d in journal.open_run(books[0].id).pending()) == left


def test_a_closed_run_and_pruned_ones_as_documents(capsys):
    """What was asked about goes to standard error."""
    record = run(Pending("maintenance", HOST))

    def document(*words):
        assert main([*words, "-o", "json"]) == 0
        out, err = capsys.readouterr()
        judge([*words, "-o", "json"], out)
        return json.loads(out), err

    tried, shown = document("run", "close", record.id, "--dry-run")
    assert (tried["result"], tried["pending"]) == ("declined", [{"kind": "maintenance", "name": "esx01"}])
    assert "esx01 is in maintenance mode" in shown
    closed, _ = document("run", "close", record.id, "--yes")
    assert (closed["run"], closed["result"], closed["state"]) == (record.id, "closed", "closed")
    assert document("run", "close", record.id)[0]["result"] == "over"
    old = run(days=200, **WELL)
    assert document("run", "prune", "--dry-run")[0]["removed"] is False
    pruned, _ = document("run", "prune", "--yes")
    assert (pruned["runs"], pruned["removed"]) == ([old.id], True)
    assert document("run", "prune")[0]["runs"] == []
