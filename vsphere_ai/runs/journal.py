"""Journal of a run: steps and their outcomes, and what is pending; durable before each call and after it.

One SQLite database per run in the user's state folder (0600, its folder 0700), WAL with synchronous=FULL. It holds
pending actions, not state: hosts put into maintenance mode, SSH started, VMs powered off, the boot time before a
reboot. The state itself is always read from vCenter and the hosts.
"""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar, cast

from pydantic import BaseModel, JsonValue

from vsphere_ai import __version__
from vsphere_ai.documents.rows import of_rows, rows_of
from vsphere_ai.errors import Storage, UsageError
from vsphere_ai.model.names.suggestion import did_you_mean
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.records.recorded_steps import RecordedPending, RecordedStep
from vsphere_ai.model.records.run_record import RunDocuments, RunRecord
from vsphere_ai.model.state import Target, TargetKind
from vsphere_ai.model.steps import PendingKind, Step, what
from vsphere_ai.runs import checksums, process_id, replica
from vsphere_ai.runs import journal_schema as tables
from vsphere_ai.runs.group_commit import GroupCommit, Work
from vsphere_ai.runs.journal_schema import instead_of, is_time, stored
from vsphere_ai.runs.open_file import OpenFile
from vsphere_ai.runs.writer import Writer
from vsphere_ai.security.files import create_private, flush
from vsphere_ai.security.redaction import clean
from vsphere_ai.security.state_dir import own_folder, state_dir

DRAFT_LASTS = 3600.0
"""Seconds after which the draft of a journal, a matter of milliseconds, is of a process that was killed."""
_Model = TypeVar("_Model", bound=BaseModel)
_Row = tuple[str | int | None, ...]


class Journal:
    """An open journal; usable from several threads. Every write is on the disk when the method returns."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._db, self._lock = path, connection, threading.RLock()
        self._file = OpenFile(path)
        self._publisher = replica.publisher_of(path.name.removesuffix(".db"))  # a draft is published when it is whole
        self._commits = GroupCommit(connection, self._lock, self._publisher.add if self._publisher else None)
        self.attempt = 1

    @property
    def id(self) -> str:
        """The run's name, which is its file's."""
        return self.path.stem

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    def publish(self) -> None:
        """Hand the whole journal to who takes it elsewhere, if anyone does. Raises `Storage`."""
        if self._publisher is not None:
            self._publisher.begin(replica.content_of(self.path))

    # -- writing

    def update(self, **values: object) -> None:
        """Write facts of the run as a whole (see `RunRecord`)."""
        self._write(RunRecord.model_validate(values), set(values))

    def _write(self, model: BaseModel, keys: set[str] | None = None) -> None:
        rows = rows_of(model, keys)

        def store(db: Writer) -> None:
            db.executemany(tables.SET, rows)
            checksums.checksum_values(db, rows)

        self._commit(store)

    def begin(self, id: str, step: Step, opens: Sequence[Pending]) -> None:
        """Note that a step is about to be sent, and what it opens. Raises `Storage`: then it must not be sent."""
        target, kinds = step.target, " ".join(step.kinds)
        row = (self.attempt, id, target.name, target.ref, step.summary, what(step), kinds, now())

        def note(db: Writer) -> None:
            db.execute(tables.BEGIN, row)
            for pending in opens:
                self._add(db, pending)

        self._commit(note)

    def end(self, id: str, state: str, error: str = "", closes: Sequence[Pending] = ()) -> None:
        """Note how a step ended, and what it closes."""
        row = (state, now(), clean(error), self.attempt, id)

        def note(db: Writer) -> None:
            db.execute(tables.END, row)
            self._resolve(db, closes)

        self._commit(note)

    def add_pending(self, pending: Pending) -> None:
        """Note a pending action that was added outside of a step."""
        self._commit(lambda db: self._add(db, pending))

    def _add(self, db: Writer, pending: Pending, opened: str = "", sent: str = "") -> None:
        row = (pending.kind, pending.target.kind, pending.target.name, pending.target.ref, pending.detail)
        db.execute(tables.ADD, (*row, opened or now(), sent or None))
        checksums.checksum_pending(db, row)

    def sending(self, target: Target) -> None:
        """Note that a host is about to be ordered to reboot, or a guest to shut down.

        Raises `Storage`: then it must not be sent.
        """
        self._execute(tables.SENDING, now(), target.ref)

    def next_attempt(self) -> None:
        """Count what is begun from now on as another attempt than what the journal holds."""
        self.attempt = int(self._rows("select max(attempt) from step")[0][0] or 0) + 1

    def rebooted(self, host: Target, *, did: bool) -> None:
        """Note whether a host did reboot, which the step that ordered it could not know: it is done, or failed."""
        state, error = ("done", None) if did else ("failed", "the host did not go down")
        self._execute(tables.REBOOTED, state, now(), error, host.ref, did)

    def submitted(self, id: str, task: str) -> None:
        """Note the task vCenter made of a step that is under way."""
        self._execute(tables.SUBMITTED, task, self.attempt, id)

    def resolve(self, *pending: Pending) -> None:
        """Note that actions are not pending any more, or are those of another run from now on: all of them or none."""
        self._commit(lambda db: self._resolve(db, pending))

    def _resolve(self, db: Writer, pending: Sequence[Pending]) -> None:
        rows = [(now(), each.kind, each.target.ref) for each in pending]
        db.executemany(tables.RESOLVE, rows)

    def _execute(self, statement: str, *values: str | int | None) -> None:
        self._commit(lambda db: db.execute(statement, values))

    def _commit(self, work: Work) -> None:
        """Write, together with what other threads write at this moment; it is on the disk then."""
        self._file.require_there(self.id)
        try:
            self._commits.write(work)
        except sqlite3.Error as error:
            raise Storage(
                f"{self.path}: {error}",
                f"make room or repair the folder, then continue with: vsphere-ai resume {self.id}",
            ) from error

    # -- reading

    @property
    def run(self) -> RunRecord:
        """Facts of the run as a whole, as they are now."""
        return self._read(RunRecord)

    @cached_property
    def documents(self) -> RunDocuments:
        """Documents of the run, which do not change."""
        return self._read(RunDocuments)

    def _read(self, model: type[_Model]) -> _Model:
        names = tuple(model.model_fields)
        marks = ", ".join("?" * len(names))
        rows = self._rows(f"select key, value from run where key in ({marks})", *names)  # noqa: S608 (only marks)
        try:
            return of_rows(model, rows)
        except ValueError as error:
            raise _damaged(self.path, f"is damaged: {error}") from error

    def steps(self) -> tuple[RecordedStep, ...]:
        """Return every step that was begun, in order."""
        rows = self._rows(
            "select attempt, id, target, ref, summary, what, kinds, state, began, ended, error, task"
            " from step order by attempt, began, rowid"
        )
        return tuple(RecordedStep(int(number or 0), *(str(value or "") for value in rest)) for number, *rest in rows)

    def done(self) -> tuple[RecordedStep, ...]:
        """Return the steps that ended well."""
        return tuple(s for s in self.steps() if s.state == "done")

    def pending(self) -> tuple[Pending, ...]:
        """Return what is pending, from this attempt or an earlier one."""
        return tuple(each.pending for each in self.ever_pending() if not each.closed)

    def ever_pending(self) -> tuple[RecordedPending, ...]:
        """Return everything that was pending at some time, also what was closed since."""
        rows = self._rows(
            "select kind, target_kind, name, ref, detail, opened, sent, closed from pending order by opened, rowid"
        )
        if any(not is_time(str(moment)) for row in rows for moment in row[5:] if moment):
            raise _damaged(self.path, "is damaged: times in it cannot be read")
        return tuple(map(_recorded, rows))

    @property
    def finished(self) -> bool:
        """Whether the run ended well, with every step done and nothing pending."""
        run = self.run
        return run.ended and not self.pending() and not run.exit_code and not run.skipped

    def _rows(self, query: str, *values: str) -> list[_Row]:
        with self._lock:
            try:
                return list(self._db.execute(query, values))
            except sqlite3.Error as error:
                raise Storage(
                    f"{self.path} cannot be read: {error}", "it may be damaged; plan again instead"
                ) from error


def runs_dir() -> Path:
    """Return the folder of journals, made 0700; `Storage` when it is not ours alone."""
    return own_folder(replica.folder)


def new_name() -> str:
    """Return a name for a run that begins now."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def create(
    about: RunRecord, documents: RunDocuments | None = None, pending: Sequence[RecordedPending] = (), name: str = ""
) -> Journal:
    """Start the journal of a new run, called `name` if given (by who holds it); format, times, process are filled in.

    `pending` are those of an earlier run that become this one's, opened and sent when they were. They are in the file
    before it has its name; the caller closes them in the earlier journal afterwards (see `history.look`).
    """
    path = runs_dir() / f"{name or new_name()}.db"
    draft = path.with_name(f"{path.name}-draft")
    try:
        _sweep(path.parent)
        if path.exists():
            raise FileExistsError("there is one already")
        for part in path.parent.glob(f"{draft.name}*") if name else ():
            part.unlink()  # its maker was killed: the caller holds the run
        create_private(draft)
    except OSError as error:  # what has this name already is another run's: it stays
        raise Storage(f"{path}: {error}", "nothing was changed") from error
    try:
        # What the run is goes into the file itself, before there is a log: what cuts the log off leaves it whole.
        journal = Journal(draft, _connect(draft, "delete"))
        journal._db.executescript(f"{tables.SCHEMA}{checksums.TABLE};")
        here = {"format": tables.FORMAT, "vsphere_ai": __version__, "started": now(), **process_id.identity()}
        journal._write(about.model_copy(update=here))
        journal._write(documents or RunDocuments())
        for each in pending:
            journal._add(journal._db, each.pending, each.opened, each.sent)
        journal._db.commit()
        journal.close()
        # A journal that has its name is whole: half of one would be taken for a damaged one.
        draft.rename(path)
        flush(path.parent)
        made = Journal(path, _connect(path))
        made.publish()
        return made
    except (OSError, sqlite3.Error, Storage) as error:
        for part in path.parent.glob(f"{path.name}*"):
            part.unlink(missing_ok=True)
        raise Storage(f"{path}: {error.__cause__ or error}", "nothing was changed") from error


def _sweep(folder: Path) -> None:
    """Remove drafts of runs that were killed before they had begun."""
    for draft in folder.glob("*.db-draft*"):
        with suppress(FileNotFoundError):
            if time.time() - draft.stat().st_mtime > DRAFT_LASTS:
                draft.unlink()


def open_run(name: str) -> Journal:
    """Open the journal of a run by its name or its beginning."""
    found = [path for path in files() if path.stem.startswith(name)]
    if len(found) != 1:
        what = f"several runs begin with {name}" if found else f"there is no run {name}"
        near = "" if found else did_you_mean(name, (path.stem for path in files()))
        raise UsageError(what, near or "vsphere-ai run list shows all runs", rule="run.none")
    return _open(found[0])


def remove(run: str) -> None:
    """Remove the journal of a run. Raises `Storage` where that cannot be; what is left then is a whole one or none."""
    path = runs_dir() / f"{run}.db"
    try:
        for part in (path, *path.parent.glob(f"{path.name}-*")):
            part.unlink(missing_ok=True)
    except OSError as error:
        raise Storage(f"{error.filename}: {error.strerror}", "look at who owns the folder of journals") from error


def every() -> Iterator[Journal]:
    """Yield the journals of all runs, the oldest first, except those that cannot be read (see `unreadable`)."""
    yield from (found for found in _each() if isinstance(found, Journal))


def unreadable() -> tuple[Storage, ...]:
    """Return why journals cannot be read, except those of runs that are over: the others may have pending actions."""
    found = []
    for each in _each():
        if isinstance(each, Journal):
            each.close()
        elif not (isinstance(each, Foreign) and each.over):
            found.append(each)
    return tuple(found)


def _each() -> Iterator[Journal | Storage]:
    for path in files():
        try:
            yield _open(path)
        except Storage as error:
            yield error


def is_alive(journal: Journal) -> bool:
    """Return whether a run is under way in a process of this machine."""
    run = journal.run
    return not run.ended and run.machine == socket.gethostname() and process_id.runs(run.pid, run.born, own=True)


def files() -> list[Path]:
    """Return the files of all journals, the oldest first."""
    if not (state_dir() / replica.folder).exists():
        return []
    return sorted(runs_dir().glob("*.db"))


def _open(path: Path) -> Journal:
    try:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise Storage(f"{path} is a link", "remove it")
        journal = Journal(path, _connect(path))
        if journal._db.execute("pragma integrity_check").fetchone() != ("ok",):
            raise _damaged(path, "is damaged and cannot be resumed")
        written = stored(journal._db, "format") or 0
    except (OSError, sqlite3.Error, ValueError) as error:
        raise _damaged(path, f"cannot be read: {error}") from error
    if written != tables.FORMAT:
        raise _foreign(journal, written, instead_of(path))
    if not checksums.hold(journal._db):
        raise _damaged(path, "is damaged: it does not hold what was written")
    journal.next_attempt()
    return journal


def _damaged(path: Path, how: str) -> Storage:
    return Storage(f"the journal of run {path.stem} {how} ({path})", instead_of(path), rule="journal.damaged")


class Foreign(Storage, rule="journal.other-version"):
    """A journal of another format. `over`: its run ended and nothing is pending, so it is not needed."""

    over = False


def _foreign(journal: Journal, written: JsonValue, instead: str) -> Foreign:
    by = stored(journal._db, "vsphere_ai") or "another version"
    how = f"was written by vsphere-ai {by} (format {written}, this one is {tables.FORMAT})"
    error = Foreign(f"the journal of run {journal.id} {how}", f"resume it with that version; or {instead}")
    with suppress(Storage, sqlite3.Error, ValueError):  # these are in every format, but that is not certain
        ended = stored(journal._db, "ended")
        error.over = bool(ended) and not journal._rows("select 1 from pending where closed is null")
    journal.close()
    return error


def _recorded(row: _Row) -> RecordedPending:
    kind, of, name, ref, detail, opened, sent, closed = (str(value or "") for value in row)
    target = Target(cast(TargetKind, of), name, ref)
    return RecordedPending(Pending(cast(PendingKind, kind), target, detail), opened, sent, closed)


def _connect(path: Path, mode: Literal["wal", "delete"] = "wal") -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, timeout=5)
    connection.execute(f"pragma journal_mode = {mode}")
    connection.execute("pragma synchronous = full")
    return connection


def now() -> str:
    """Return the time as journals hold it: UTC, ISO 8601, so that texts compare as times do."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
