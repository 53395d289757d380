"""Journals as other versions left them, and the steps that stand in them."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from support.acting import lifecycle
from vsphere_ai.runs import checksums, journal

WRITTEN = Path(__file__).parents[1] / "runs" / "journals"
"""What earlier versions have written, as SQL: ``format-2.sql``."""


def act(target, action, summary):
    """A step of a target's life, as the graph makes it."""
    return lifecycle(action, target, summary)


def of_version(number, path):
    """Make a journal one of another format: as earlier versions wrote it when 1 to 3, as nobody has yet when 99."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("update run set value = ? where key = 'format'", (str(number),))
        if number == 99:
            db.execute("update run set value = '\"9.0\"' where key = 'vsphere_ai'")
            return
        db.execute("alter table step drop column ref")
        db.execute("alter table step drop column kinds")
        if number < 3:
            db.execute("alter table step drop column what")
        checksums.checksum_all(db)
        if number == 1:
            db.execute("delete from run where key = 'vsphere_ai'")
            db.execute("alter table step drop column task")
            db.execute("alter table debt drop column sent")
            db.execute("drop table seal")


def put(name):
    """Put a journal that an earlier version has written among those of this machine, and return its file."""
    path = journal.runs_dir() / "20260101-000000-0000.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript((WRITTEN / name).read_text("utf-8"))
    path.chmod(0o600)
    return path
