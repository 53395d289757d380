"""Checksums of what a journal holds: SQLite does not notice a bit that flips inside a text."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vsphere_ai.runs.writer import Writer

TABLE = "create table checksum (what text primary key, sum text not null) strict"
STORE = "insert or replace into checksum values (?, ?)"


def checksum_values(db: Writer, rows: Iterable[tuple[str, str]]) -> None:
    """Store checksums of values of a run, given as (key, text)."""
    db.executemany(STORE, [_of_value(*row) for row in rows])


def checksum_pending(db: Writer, pending: Sequence[str]) -> None:
    """Store the checksum of a pending action, given as kind, kind of target, name, reference, detail."""
    db.execute(STORE, _of_pending(pending))


def hold(db: sqlite3.Connection) -> bool:
    """Return whether everything is as it was written."""
    try:
        db.execute("begin")  # one view of it: its run may be writing
        values = db.execute("select key, value from run").fetchall()
        pending = db.execute("select kind, target_kind, name, ref, detail from pending").fetchall()
        made = [*(_of_value(*v) for v in values), *(_of_pending(p) for p in pending)]
        return dict(made) == dict(db.execute("select what, sum from checksum"))
    except sqlite3.Error:
        return False
    finally:
        db.rollback()


def _of_value(key: str, text: str) -> tuple[str, str]:
    return f"run/{key}", _sum(text)


def _of_pending(pending: Sequence[str]) -> tuple[str, str]:
    return f"pending/{pending[0]}/{pending[3]}", _sum(*pending)


def _sum(*fields: str) -> str:
    return hashlib.sha256("\0".join(fields).encode()).hexdigest()
