"""Checksums of what a journal holds: SQLite does not notice a bit that flips inside of a text."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence

TABLE = "create table if not exists seal (what text primary key, sum text not null) strict"
_SEAL = "insert or replace into seal values (?, ?)"


def checksum_values(db: sqlite3.Connection, rows: Iterable[tuple[str, str]]) -> None:
    """Seal values of a run, given as (key, text)."""
    db.executemany(_SEAL, [_of_value(*row) for row in rows])


def checksum_pending(db: sqlite3.Connection, pending: Sequence[str]) -> None:
    """Seal a debt, given as kind, kind of target, name, reference, detail."""
    db.execute(_SEAL, _of_pending(pending))


def checksum_all(db: sqlite3.Connection) -> None:
    """Seal everything there is, in a journal from before there were seals."""
    db.execute("delete from seal")
    db.executemany(_SEAL, _all(db))


def hold(db: sqlite3.Connection) -> bool:
    """Tell whether everything is as it was sealed."""
    try:
        db.execute("begin")  # one view of it: its run may be writing
        return dict(_all(db)) == dict(db.execute("select what, sum from seal"))
    except sqlite3.Error:
        return False
    finally:
        db.rollback()


def _all(db: sqlite3.Connection) -> list[tuple[str, str]]:
    values = db.execute("select key, value from run").fetchall()
    all_pending = db.execute("select kind, target_kind, name, ref, detail from debt").fetchall()
    return [*(_of_value(*v) for v in values), *(_of_pending(d) for d in all_pending)]


def _of_value(key: str, text: str) -> tuple[str, str]:
    return f"run/{key}", _sum(text)


def _of_pending(pending: Sequence[str]) -> tuple[str, str]:
    return f"debt/{pending[0]}/{pending[3]}", _sum(*pending)


def _sum(*fields: str) -> str:
    return hashlib.sha256("\0".join(fields).encode()).hexdigest()
