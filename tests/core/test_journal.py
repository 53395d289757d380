"""The journal of a run: begun whole or not at all, and known by its beginning."""

from __future__ import annotations

import shutil

import pytest

from vsphere_ai import journal
from vsphere_ai.debts import Debt
from vsphere_ai.errors import Storage
from vsphere_ai.state import Target


@pytest.mark.parametrize("where", ["TABLE", "seal_values"])
def test_a_journal_that_could_not_be_begun_leaves_nothing(tmp_path, monkeypatch, where):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    journal.create({"mode": "apply"})
    (kept,) = journal.runs_dir().glob("*.db")

    def full(*_given):
        raise journal.sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(journal.seals, where, "create nothing" if where == "TABLE" else full)
    with pytest.raises(Storage, match=r"syntax error|disk is full") as caught:
        journal.create({"mode": "apply"})
    assert caught.value.remedy == "nothing was changed"
    assert {path.name.partition(".")[0] for path in journal.runs_dir().iterdir()} == {kept.stem}


def test_a_log_that_was_cut_off_leaves_what_the_run_is(tmp_path, monkeypatch):
    """Wherever the write-ahead log is cut, in its first entry too, the run is known and counts as not finished."""
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "whole"))
    book = journal.create({"mode": "apply", "approved": {"items": ["a"]}})
    host = Target("host", "esx01", "HostSystem:host-1")
    book.begin("1", host, "enter maintenance mode", [Debt("maintenance", host)])
    (log,) = book.path.parent.glob("*.db-wal")
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "cut"))
    copy = journal.runs_dir() / book.path.name
    known = set()
    for size in range(0, log.stat().st_size, 97):
        shutil.copy2(book.path, copy)
        copy.with_name(log.name).write_bytes(log.read_bytes()[:size])
        (read,) = journal.every()
        assert read.get("approved") == {"items": ["a"]}
        assert not read.finished
        known.add(len(read.debts()))
        read.close()
        for part in copy.parent.iterdir():
            part.unlink()
    assert known == {0}  # the log has one entry, and it was never whole
    assert [debt.target for debt in book.debts()] == [host]
    book.close()


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
