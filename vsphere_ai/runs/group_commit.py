"""Group commit: what several threads write while a transaction is on its way to the disk goes there in the next one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vsphere_ai.runs.replica import Change, Recorder
from vsphere_ai.runs.writer import Writer

Work = Callable[[Writer], object]
"""Executes statements of one write; it may be run again, after what it did was rolled back."""


@dataclass(eq=False)
class _Write:
    """One write. Its thread waits at `ready` until it is `settled`, or until it `leads`."""

    work: Work
    ready: threading.Lock = field(default_factory=threading.Lock)
    leads: bool = False
    settled: bool = False
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.ready.acquire()


class GroupCommit:
    """Writes to a database from several threads: on the disk when `write` returns, many with one flush of it.

    The thread that comes first commits what waits; the first of those that came after it goes on. A transaction
    that fails is rolled back, and each of its writes is tried alone, so that only what cannot be written fails.
    """

    def __init__(
        self, db: sqlite3.Connection, lock: threading.RLock, publish: Callable[[Sequence[Change]], None] | None = None
    ) -> None:
        self._db, self._lock, self._publish = db, lock, publish
        self._queue = threading.Lock()
        self._waiting: list[_Write] = []
        self._led = False

    def write(self, work: Work) -> None:
        """Carry out one write; it is durable when this returns. Raises what it raised."""
        one = _Write(work)
        with self._queue:
            self._waiting.append(one)
            one.leads, self._led = not self._led, True
        if not one.leads:
            self._wait(one)
        if one.leads:
            self._lead()
        if one.error is not None:
            raise one.error

    def _wait(self, one: _Write) -> None:
        try:
            one.ready.acquire()
        except BaseException:  # a signal: no other thread may wait for this thread
            with self._queue:
                if one in self._waiting:
                    self._waiting.remove(one)
                leads = one.leads
            if leads:
                self._lead()
            raise

    def _lead(self) -> None:
        """Commit what waits; then let the first of those that came after it go on."""
        with self._queue:
            group, self._waiting = self._waiting, []
        try:
            self._commit(group)
        finally:
            with self._queue:
                # what a signal kept from being written is left to another thread
                self._waiting[:0] = [each for each in group if not (each.settled or each.leads)]
                following = self._waiting[:1]
                self._led = bool(following)
                for each in following:
                    each.leads = True
            for each in (*(g for g in group if g.settled and not g.leads), *following):
                each.ready.release()

    def _commit(self, group: Sequence[_Write]) -> None:
        kept = Recorder(self._db)
        try:
            with self._lock, self._db:  # one transaction, committed at the end
                for each in group:
                    each.work(kept)
        except Exception as error:
            if len(group) > 1:
                for each in group:
                    self._commit([each])
                return
            group[0].error = error
        else:
            self._send(group, kept.changes)
        for each in group:
            each.settled = True

    def _send(self, group: Sequence[_Write], changes: Sequence[Change]) -> None:
        """Publish what is on this disk: where that fails, none of the group has been written."""
        if self._publish is None:
            return
        try:
            self._publish(changes)
        except Exception as error:
            for each in group:
                each.error = error
