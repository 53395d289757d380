"""Replica of a journal on another machine: what is written counts once the replica has it, too.

A run that a worker of a fleet carries out publishes its journal: the whole file at its beginning, then each write by
the name of its statement. A write that is not accepted raises `Storage` for the step that made it, as a full disk does;
the step is not sent then. So the replica knows every step that was sent, whatever becomes of the worker.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from vsphere_ai.errors import Storage
from vsphere_ai.runs.journal_schema import STATEMENTS
from vsphere_ai.security.files import draft, flush

Value = str | int | None
Change = tuple[str, Sequence[Sequence[Value]]]
"""The name of a statement, and the rows it was carried out with."""
folder = "runs"
"""Folder of journals in the state folder; a worker of a fleet has one of its own, beside the replicas of others."""
_NAMES = {sql: name for name, sql in STATEMENTS.items()}


class Publisher(Protocol):
    """Takes what is written into the journal of one run; returns when it is safe elsewhere, else raises `Storage`."""

    def begin(self, content: bytes) -> None:
        """Take the file of a journal as it begins, or as it is when its run goes on."""

    def add(self, changes: Sequence[Change]) -> None:
        """Take writes that are on this disk, in their order."""


_PUBLISHED: dict[str, Publisher] = {}


@contextmanager
def published(run: str, publisher: Publisher) -> Iterator[None]:
    """Publish what this process writes into the journal of a run, from its next opening on."""
    _PUBLISHED[run] = publisher
    try:
        yield
    finally:
        del _PUBLISHED[run]


def publisher_of(run: str) -> Publisher | None:
    """Return who takes the journal of a run; None where it stays on this machine."""
    return _PUBLISHED.get(run)


class Recorder:
    """Writes into a journal, and keeps what it wrote."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.changes: list[Change] = []

    def execute(self, sql: str, row: Sequence[Value] = ()) -> None:
        """Carry out a statement of `STATEMENTS`."""
        self.executemany(sql, [row])

    def executemany(self, sql: str, rows: Sequence[Sequence[Value]]) -> None:
        """Carry out a statement of `STATEMENTS` for each row."""
        self._db.executemany(sql, rows)
        self.changes.append((_NAMES[sql], [list(row) for row in rows]))


class Replica:
    """The copy of a journal, in a file of its own; used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, content: bytes) -> None:
        """Write the file anew, whole or not at all."""
        try:
            new = draft(self.path, content)
            for part in ("-wal", "-shm", "-journal"):
                self.path.with_name(f"{self.path.name}{part}").unlink(missing_ok=True)
            new.rename(self.path)
            flush(self.path.parent)
        except OSError as error:
            raise Storage(f"{self.path}: {error}", "make room, or look at who owns the folder") from error

    def add(self, changes: Sequence[Change]) -> None:
        """Carry out writes, all of them or none; they are on the disk then. Unknown statements are `Storage`."""
        unknown = sorted({name for name, _ in changes} - set(STATEMENTS))
        if unknown or not self.path.exists():
            what = f"no statement is called {unknown[0]!r}" if unknown else "it was never begun"
            raise Storage(f"{self.path}: {what}", "use the same version of vsphere-ai everywhere")
        try:
            with self._open() as db:
                for name, rows in changes:
                    db.executemany(STATEMENTS[name], rows)
        except sqlite3.Error as error:
            raise Storage(f"{self.path}: {error}", "make room, or look at who owns the folder") from error

    def content(self) -> bytes:
        """Return the whole file; b"" where there is none yet."""
        if not self.path.exists():
            return b""
        with self._open() as db:
            return db.serialize()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self.path, timeout=5)
        try:
            db.execute("pragma synchronous = full")
            with db:
                yield db
        finally:
            db.close()


def content_of(path: Path) -> bytes:
    """Return a journal's file with everything that is written into it so far."""
    return Replica(path).content()
