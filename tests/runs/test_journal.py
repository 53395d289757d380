"""The journal of a run: begun whole or not at all, and known by its beginning."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
import time
from datetime import datetime
from functools import partial
from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from support.gates import LONG
from support.journals import act, create, of_another_format
from support.raising import refused

from vsphere_ai.app.runs import run_plan
from vsphere_ai.errors import Storage
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, Healthy, Invoke, Reconfigure, Shell
from vsphere_ai.planning.resume import rebooted_twice
from vsphere_ai.runs import history, journal

HOST = Target("host", "esx01", "HostSystem:host-1")


@pytest.mark.parametrize("where", ["TABLE", "checksum_values"])
def test_a_journal_that_could_not_be_begun_leaves_nothing(tmp_path, monkeypatch, where):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    create()
    (kept,) = journal.runs_dir().glob("*.db")

    def full(*_given):
        raise journal.sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(journal.checksums, where, "create nothing" if where == "TABLE" else full)
    with pytest.raises(Storage, match=r"syntax error|disk is full") as caught:
        create()
    assert caught.value.remedy == "nothing was changed"
    assert {path.name.partition(".")[0] for path in journal.runs_dir().iterdir()} == {kept.stem}


@pytest.mark.parametrize("there", ["journal", "draft"])
def test_another_run_of_the_same_name_keeps_its_journal(tmp_path, monkeypatch, there):
    class Noon(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 11, 21, 12, tzinfo=tz)

    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(journal, "datetime", Noon)
    monkeypatch.setattr(journal.secrets, "token_hex", lambda _size: "abcd")
    name = "20261121-120000-abcd.db"
    if there == "journal":
        create().close()
    else:
        (journal.runs_dir() / f"{name}-draft").write_text("being made", encoding="utf-8")
    kept = {path.name: path.read_bytes() for path in journal.runs_dir().iterdir()}
    assert kept
    with pytest.raises(Storage) as caught:
        create()
    assert caught.value.remedy == "nothing was changed"
    assert {path.name: path.read_bytes() for path in journal.runs_dir().iterdir()} == kept


def test_a_log_that_was_cut_off_leaves_what_the_run_is(tmp_path, monkeypatch):
    """Wherever the write-ahead log is cut, in its first entry too, the run is known and counts as not finished."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "whole"))
    record = create({"approved": {"steps": [{"id": "s1", "target": vars(HOST)}]}})
    host = Target("host", "esx01", "HostSystem:host-1")
    record.begin("1", act(host, "enter-maintenance", "enter maintenance mode"), [Pending("maintenance", host)])
    (log,) = record.path.parent.glob("*.db-wal")
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "cut"))
    copy = journal.runs_dir() / record.path.name
    known = set()
    for size in range(0, log.stat().st_size, 97):
        shutil.copy2(record.path, copy)
        copy.with_name(log.name).write_bytes(log.read_bytes()[:size])
        (read,) = journal.every()
        assert read.documents.approved == {"steps": [{"id": "s1", "target": vars(HOST)}]}
        assert not read.finished
        known.add(len(read.pending()))
        read.close()
        for part in copy.parent.iterdir():
            part.unlink()
    assert known == {0}  # the log has one entry, and it was never whole
    assert [pending.target for pending in record.pending()] == [host]
    record.close()


def test_a_run_that_was_killed_while_its_journal_was_made_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))

    def killed(*_given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(journal.Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            create()
    assert list(journal.every()) == []
    assert journal.unreadable() == ()
    create().close()
    assert len(list(journal.every())) == 1
    (draft,) = journal.runs_dir().glob("*-draft")  # somebody else may be about to finish it
    os.utime(draft, (0, time.time() - 2 * journal.DRAFT_LASTS))
    create().close()
    assert not list(journal.runs_dir().glob("*-draft*"))


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (act(HOST, "reboot", "worded anew"), "reboot"),
        (AsPlanned(target=HOST, summary="worded anew"), "as-planned"),
        (Healthy(target=HOST, summary="read back"), "healthy"),
        (Reconfigure(target=HOST, summary="reboot (over SSH)", kinds=("vgpu",)), "change"),
        (Invoke(target=HOST, summary="", kinds=("nics",), method="UpdateConfig"), "change"),
        (Shell(target=HOST, summary="use SSH once more", argv=("true",)), ""),
    ],
)
def test_what_a_step_is_does_not_hang_on_its_words(tmp_path, monkeypatch, step, what):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    record.begin("1", step, ())
    assert record.done() == ()
    record.end("1", "done")
    assert [s.what for s in record.done()] == [what]


def test_a_host_is_known_by_its_reference_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    record.begin("s1", act(HOST, "reboot", "reboot (over SSH)"), ())
    record.end("s1", "done")
    renamed, twin = Target("host", "gpu01", HOST.ref), Target("host", HOST.name, "HostSystem:host-9")

    def twice(host):
        return rebooted_twice(SimpleNamespace(impact=SimpleNamespace(reboots=(host,))), record.done())

    assert twice(renamed) == ("gpu01",)
    assert twice(twin) == ()
    record.rebooted(twin, did=False)
    assert [s.state for s in record.steps()] == ["done"]


def test_a_reboot_that_is_seen_is_written_down(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    record.begin("s4", act(HOST, "reboot", "reboot (over SSH)"), ())
    record.rebooted(HOST, did=True)
    assert [s.id for s in record.done()] == ["s4"]
    record.rebooted(HOST, did=False)  # its boot time shows that the order never arrived
    assert [(s.id, s.state, s.error) for s in record.steps()] == [("s4", "failed", "the host did not go down")]


def test_another_format_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    of_another_format(record.path)
    with refused(journal.Foreign, "journal.other-version", record.id, "9.0", "99"):
        journal.open_run(record.id)


def test_what_is_written_is_read_by_the_same_model(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create({"scope": {"vcenter": "lab", "limit": "esx*"}})
    record.update(ended=True, open=["train-01 is powered off"])
    run = journal.open_run(record.id).run
    assert (run.scope.vcenter, run.scope.limit, run.ended, run.open) == (
        "lab",
        "esx*",
        True,
        ("train-01 is powered off",),
    )
    assert (run.format, run.exit_code, run.closed) == (journal.tables.FORMAT, None, None)
    with pytest.raises(ValidationError):
        record.update(no_such_fact=1)


def test_a_fact_of_another_kind_is_damage(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    with contextlib.closing(sqlite3.connect(record.path)) as db, db:
        db.execute("update run set value = '[]' where key = 'pid'")
    with refused(Storage, "journal.damaged", record.id):
        record.run  # noqa: B018


VM = Target("vm", "train-01", "VirtualMachine:vm-1")


def test_what_was_told_once_was_told_also_when_it_is_begun_again(tmp_path, monkeypatch):
    """An earlier order may take effect after a later attempt was killed before it had sent its own."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record, pending = create(), Pending("off", VM)
    record.begin("s1", act(VM, "power-off", "shut down"), (pending,))
    record.sending(VM)
    (first,) = record.ever_pending()
    record.close()
    again = journal.open_run(record.id)
    again.begin("s1", act(VM, "power-off", "shut down"), (pending,))
    assert again.ever_pending() == (first,)
    again.resolve(pending)
    again.begin("s2", act(VM, "power-off", "shut down"), (pending,))
    (anew,) = again.ever_pending()
    assert (anew.sent, anew.closed) == ("", ""), "the guest of a VM that ran again was not told yet"
    again.close()
    assert journal.open_run(record.id).pending() == (pending,), "its seal holds"


def test_who_goes_on_second_counts_another_attempt(tmp_path, monkeypatch):
    """Two terminals opened the run; what the first one did stays written down."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    record.begin("s1", act(HOST, "enter-maintenance", "enter maintenance mode"), ())
    one, two = journal.open_run(record.id), journal.open_run(record.id)
    for number, each in ((2, one), (3, two)):
        history.mark_resumed(each)
        assert each.attempt == number
        each.begin("s1", act(HOST, "reboot", f"reboot {number}"), ())
    assert [s.summary for s in record.steps()] == ["enter maintenance mode", "reboot 2", "reboot 3"]


@pytest.mark.parametrize("column", ["opened", "sent", "closed"])
@pytest.mark.parametrize("time", ["2026-11-22T20*22:15.315+00:00", "2026-11-22T20:22:15.315", "x"])
def test_a_time_that_cannot_be_read_is_damage(tmp_path, monkeypatch, column, time):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    record.add_pending(Pending("off", VM))
    with contextlib.closing(sqlite3.connect(record.path)) as db, db:
        db.execute(f"update pending set {column} = ?", (time,))
    with refused(Storage, "journal.damaged", record.id):
        record.ever_pending()


def test_a_task_that_cannot_be_noted_is_followed_all_the_same():
    """Its request was carried out: the next step is what cannot begin."""

    class Full:
        asked = ()

        def submitted(self, step, task):
            self.asked = (step, task)
            raise Storage("the disk is full")

    record = Full()
    run_plan.task_recorder(record)("s1", "Task:task-7")
    assert record.asked == ("s1", "Task:task-7")


class Writers:
    """Threads that write into one journal, while the first of them is held in its transaction."""

    def __init__(self, record):
        self.record, self.commits = record, 0
        self.inside, self.go_on = threading.Event(), threading.Event()
        record._db.set_trace_callback(self.count)

    def count(self, statement):
        self.commits += statement.upper().startswith("COMMIT")

    def hold(self, _db):
        self.inside.set()
        assert self.go_on.wait(LONG)

    def run(self, *works):
        """Carry works out side by side, the first one held until the others wait; return what each raised."""
        raised = [None] * (len(works) + 1)

        def work(number, done):
            try:
                done()
            except Exception as error:
                raised[number] = error

        threads = [threading.Thread(target=work, args=(0, lambda: self.record._commit(self.hold)))]
        threads[0].start()
        assert self.inside.wait(LONG)
        threads += [threading.Thread(target=work, args=each) for each in enumerate(works, 1)]
        for each in threads[1:]:
            each.start()
        until = time.monotonic() + LONG
        while len(self.record._commits._waiting) < len(works) and time.monotonic() < until:
            time.sleep(0.005)
        self.go_on.set()
        for each in threads:
            each.join(20)
        return raised[1:]


def test_what_comes_while_a_note_is_written_is_written_together(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    writers = Writers(record)
    steps = [Reconfigure(target=Target("vm", f"vm-{n}", f"VirtualMachine:vm-{n}"), summary="") for n in range(64)]
    failed = writers.run(*(partial(record.begin, f"s{n}", step, ()) for n, step in enumerate(steps)))
    assert failed == [None] * 64
    assert writers.commits == 1, "64 steps, one flush; the one that was held wrote nothing"
    with contextlib.closing(sqlite3.connect(record.path)) as other:
        assert other.execute("select count(*) from step where state = 'begun'").fetchone() == (64,)


def test_a_note_that_cannot_be_written_fails_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    writers = Writers(record)
    good = [
        partial(record.add_pending, Pending("off", Target("vm", f"vm-{n}", f"VirtualMachine:{n}"))) for n in range(3)
    ]
    bad = partial(record.add_pending, Pending("off", Target("vm", None, "VirtualMachine:9")))
    bug = partial(record._commit, lambda _db: 1 / 0)
    failed = writers.run(good[0], bad, good[1], bug, good[2])
    assert [type(each).__name__ for each in failed] == [
        "NoneType",
        "Storage",
        "NoneType",
        "ZeroDivisionError",
        "NoneType",
    ]
    assert sorted(p.target.ref for p in record.pending()) == [
        "VirtualMachine:0",
        "VirtualMachine:1",
        "VirtualMachine:2",
    ]
    assert writers.commits == 3, "each alone"


def test_a_writer_that_is_interrupted_leaves_the_others_to_go_on(tmp_path, monkeypatch):
    """Its own write is not done; those that it was about to write are."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    writers = Writers(record)

    def interrupted(_db):
        raise KeyboardInterrupt

    def leave():
        with pytest.raises(KeyboardInterrupt):
            record._commit(interrupted)

    good = partial(record.add_pending, Pending("off", HOST))
    assert writers.run(leave, good) == [None, None]
    assert [p.target for p in record.pending()] == [HOST]
    record.add_pending(Pending("ssh", HOST))
    assert len(record.pending()) == 2


def test_a_write_is_on_the_disk_when_it_returns(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = create()
    assert record._db.execute("pragma synchronous").fetchone() == (2,)
    for number in range(8):
        record.submitted(f"s{number}", "task-1")
        record.begin(f"s{number}", Shell(target=HOST, summary="", argv=("true",)), ())
        assert not record._db.in_transaction
        with contextlib.closing(sqlite3.connect(record.path)) as other:
            assert other.execute("select count(*) from step").fetchone() == (number + 1,)
