"""The journal of a run: begun whole or not at all, and known by its beginning."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from datetime import datetime
from types import SimpleNamespace

import pytest
from support.journals import act, of_version, put

from vsphere_ai.cli import running
from vsphere_ai.errors import Storage
from vsphere_ai.model.pending import Pending
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, Healthy, Invoke, Reconfigure, Shell
from vsphere_ai.planning.resume import rebooted_twice
from vsphere_ai.runs import checksums, history, journal

HOST = Target("host", "esx01", "HostSystem:host-1")


@pytest.mark.parametrize("where", ["TABLE", "checksum_values"])
def test_a_journal_that_could_not_be_begun_leaves_nothing(tmp_path, monkeypatch, where):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    journal.create({"mode": "apply"})
    (kept,) = journal.runs_dir().glob("*.db")

    def full(*_given):
        raise journal.sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(journal.checksums, where, "create nothing" if where == "TABLE" else full)
    with pytest.raises(Storage, match=r"syntax error|disk is full") as caught:
        journal.create({"mode": "apply"})
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
        journal.create({"mode": "apply"}).close()
    else:
        (journal.runs_dir() / f"{name}-draft").write_text("being made", encoding="utf-8")
    kept = {path.name: path.read_bytes() for path in journal.runs_dir().iterdir()}
    assert kept
    with pytest.raises(Storage) as caught:
        journal.create({"mode": "apply"})
    assert caught.value.remedy == "nothing was changed"
    assert {path.name: path.read_bytes() for path in journal.runs_dir().iterdir()} == kept


def test_a_log_that_was_cut_off_leaves_what_the_run_is(tmp_path, monkeypatch):
    """Wherever the write-ahead log is cut, in its first entry too, the run is known and counts as not finished."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "whole"))
    record = journal.create({"mode": "apply", "approved": {"items": ["a"]}})
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
        assert read.get("approved") == {"items": ["a"]}
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
            journal.create({"mode": "apply"})
    assert list(journal.every()) == []
    assert journal.unreadable() == ()
    journal.create({"mode": "apply"}).close()
    assert len(list(journal.every())) == 1
    (draft,) = journal.runs_dir().glob("*-draft")  # somebody else may be about to finish it
    os.utime(draft, (0, time.time() - 2 * journal.DRAFT_LASTS))
    journal.create({"mode": "apply"}).close()
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
    record = journal.create({"mode": "apply"})
    record.begin("1", step, ())
    assert record.done() == ()
    record.end("1", "done")
    assert [s.what for s in record.done()] == [what]


# -- older formats (T-10)


def columns(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        tables = [row[0] for row in db.execute("select name from sqlite_master where type = 'table'")]
        return {name: [row[1:] for row in db.execute(f"pragma table_info({name})")] for name in tables}


def test_a_journal_of_format_2_is_carried_over(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    path = put("format-2.sql")
    new = journal.create({"mode": "apply"})
    for _ in range(2):
        old = journal.open_run(path.stem)
        assert old.get("format") == journal.FORMAT
        assert [(s.id, s.what) for s in old.done() if s.what] == [("s4", "reboot"), ("s6", "as-planned")]
        assert [(s.id, s.state, s.error) for s in old.steps()][-1] == ("s8", "failed", "vCenter refused it")
        assert [(d.kind, d.target.name) for d in old.pending()] == [
            ("off", "train-01"), ("gate", "esx01"), ("maintenance", "esx02"), ("gate", "esx02")]  # fmt: skip
        assert {s.target: s.ref for s in old.steps()} == {
            "train-01": "VirtualMachine:vm-1", "esx01": "HostSystem:host-1", "esx02": "HostSystem:host-2"}  # fmt: skip
        assert old.attempt == 2
        old.close()
    assert columns(path) == columns(new.path)


def test_a_name_that_means_two_objects_in_an_older_journal_is_none_of_them(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    approved = {"steps": [{"target": {"name": "esx01", "ref": f"HostSystem:host-{n}"}} for n in (1, 7)]}
    record = journal.create({"approved": approved})
    record.begin("s1", act(HOST, "reboot", "reboot (over SSH)"), ())
    record.set(pid=0)
    of_version(3, record.path)
    (step,) = journal.open_run(record.id).steps()
    assert (step.ref, step.kinds) == ("", "")
    assert step.is_on(HOST)
    assert step.is_on(Target("host", "esx01", "HostSystem:host-7"))


def test_a_host_is_known_by_its_reference_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = journal.create({"approved": {}})
    record.begin("s1", act(HOST, "reboot", "reboot (over SSH)"), ())
    record.end("s1", "done")
    renamed, twin = Target("host", "gpu01", HOST.ref), Target("host", HOST.name, "HostSystem:host-9")

    def twice(host):
        return rebooted_twice(SimpleNamespace(impact=SimpleNamespace(reboots=(host,))), record.done())

    assert twice(renamed) == ("gpu01",)
    assert twice(twin) == ()
    record.rebooted(twin, did=False)
    assert [s.state for s in record.steps()] == ["done"]


def test_a_reboot_of_an_older_run_that_is_seen_is_written_down(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    with contextlib.closing(sqlite3.connect(path := put("format-2.sql"))) as db, db:
        db.execute("update step set state = 'begun', ended = null where id = 's4'")
    old = journal.open_run(path.stem)
    old.rebooted(HOST, did=True)
    assert "s4" in [s.id for s in old.done()]
    old.rebooted(HOST, did=False)  # it was told to, and its boot time shows that it never heard of it
    assert "s4" not in [s.id for s in old.done()]
    assert next(s for s in old.steps() if s.id == "s4").error == "the host did not go down"


@pytest.mark.parametrize("number", [1, 2])
def test_a_journal_is_carried_over_wholly_or_not_at_all(tmp_path, monkeypatch, number):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    path = put("format-2.sql")
    if number == 1:
        journal.open_run(path.stem).close()
        of_version(1, path)
    before = columns(path)

    def cut(_db):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checksums, "checksum_all", cut)
        with pytest.raises(KeyboardInterrupt):
            journal.open_run(path.stem)
    assert columns(path) == before
    assert len(journal.open_run(path.stem).done()) == 7


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_journal_that_only_looks_older_is_damaged(tmp_path, monkeypatch, number):
    """One bit makes the digit of a format another one."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = journal.create({"mode": "apply"})
    record.set(pid=0)
    with contextlib.closing(sqlite3.connect(record.path)) as db, db:
        db.execute("update run set value = ? where key = 'format'", (str(number),))
    with pytest.raises(Storage, match="does not hold what was written"):
        journal.open_run(record.id)


def test_damage_is_not_sealed_by_carrying_a_journal_over(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    with contextlib.closing(sqlite3.connect(path := put("format-2.sql"))) as db, db:
        db.execute("update debt set ref = 'HostSystem:host-3' where kind = 'gate' and name = 'esx02'")
    for _ in range(2):
        with pytest.raises(Storage, match="does not hold what was written"):
            journal.open_run(path.stem)


VM = Target("vm", "train-01", "VirtualMachine:vm-1")


def test_what_was_told_once_was_told_also_when_it_is_begun_again(tmp_path, monkeypatch):
    """An earlier order may take effect after a later attempt was killed before it had sent its own."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record, pending = journal.create({}), Pending("off", VM)
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
    record = journal.create({})
    record.begin("s1", act(HOST, "enter-maintenance", "enter maintenance mode"), ())
    one, two = journal.open_run(record.id), journal.open_run(record.id)
    for number, each in ((2, one), (3, two)):
        history.take_up(each)
        assert each.attempt == number
        each.begin("s1", act(HOST, "reboot", f"reboot {number}"), ())
    assert [s.summary for s in record.steps()] == ["enter maintenance mode", "reboot 2", "reboot 3"]


@pytest.mark.parametrize("column", ["opened", "sent", "settled"])
@pytest.mark.parametrize("time", ["2026-11-22T20*22:15.315+00:00", "2026-11-22T20:22:15.315", "x"])
def test_a_time_that_cannot_be_read_is_damage(tmp_path, monkeypatch, column, time):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    record = journal.create({})
    record.add_pending(Pending("off", VM))
    with contextlib.closing(sqlite3.connect(record.path)) as db, db:
        db.execute(f"update debt set {column} = ?", (time,))
    with pytest.raises(Storage, match="damaged"):
        record.ever_pending()


def test_a_task_that_cannot_be_noted_is_followed_all_the_same():
    """Its request was carried out: the next step is what cannot begin."""

    class Full:
        asked = ()

        def submitted(self, step, task):
            self.asked = (step, task)
            raise Storage("the disk is full")

    record = Full()
    running._noting(record)("s1", "Task:task-7")
    assert record.asked == ("s1", "Task:task-7")
