"""One run at a time on a vCenter: a kernel lock on this machine, and one in vCenter that other machines see."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self, get_args

from pydantic import PrivateAttr

from vsphere_ai.documents.locks import LockMode, LockNote
from vsphere_ai.errors import Locked, Storage, VsphereAiError
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target
from vsphere_ai.runs import journal, process_id
from vsphere_ai.runs.state_files import read_state, write_state
from vsphere_ai.security.state_dir import OWN, file_name, own_folder, state_dir

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from vsphere_ai.connect.vcenter import VCenter
    from vsphere_ai.connect.vcenter_lock import LockFound, LockHolder, VCenterLock
    from vsphere_ai.model.facts import Facts
    from vsphere_ai.runs.lock_renewal import LockRenewal

Mode = LockMode
MODES: tuple[Mode, ...] = get_args(Mode)
LOCKS = "locks"
SETTLING = 1.0
"""Seconds for which the holder of a kernel lock may not yet, or no longer, have said who it is."""
NOT_SAID = "it has not said who it is yet"
UNLOCK = "wait for it, or stop it; vsphere-ai run unlock shows the locks, and removes one whose holder is gone"


class Note(LockNote):
    """The note of a lock, with its file."""

    _path: Path = PrivateAttr()

    @classmethod
    def at(cls, path: Path, run: str, advisory: tuple[str, ...]) -> Self:
        """Return the note of this process."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        made = cls(**process_id.identity(), run=run, since=since, advisory=advisory)
        made._path = path
        return made

    def write(self) -> None:
        """Put it into its file, in one piece. Raises `Storage`."""
        write_state(self._path, self, OWN)

    @property
    def alive(self) -> bool:
        """Return whether its writer may still run; of another machine that is not known."""
        return self.machine != socket.gethostname() or process_id.runs(self.pid, self.born)

    def __str__(self) -> str:
        return f"{self.user} on {self.machine}, process {self.pid}, run {self.run}, since {self.since}"


@dataclass
class Hold:
    """The locks of a run that is under way."""

    mode: Mode
    note: Note | None = None
    lock: VCenterLock | None = None
    vcenter: str = ""
    record: journal.Journal | None = None
    left: str = ""
    """Why the lock in vCenter could not be removed at the end."""
    renewal: LockRenewal | None = None
    unseen: VCenter | None = None  # it has yet to be looked whether another run has the lock there

    def respect(self, objects: Mapping[str, Facts] | None = None) -> None:
        """`Locked` where another run has the lock in vCenter; looked at once, in what was read, if all folders were."""
        vcenter, self.unseen = self.unseen, None
        if vcenter is not None:
            _respect(vcenter, set(), objects)

    def serve(self, record: journal.Journal) -> None:
        """Note which run the locks are for, and add the one in vCenter to the pending actions of its journal."""
        self.respect()
        before, self.record = self.record, record
        record.update(lock=self.mode)
        if self.note is not None:
            self.note.run = record.id
            self.note.write()
        if self.lock is not None:
            record.add_pending(self._pending(self.lock))
            self.lock.remark(record.id)
            if before is not None and before is not record:  # the run it was taken for goes on as another
                before.resolve(self._pending(self.lock))

    def released(self) -> None:
        """Note that the lock is gone."""
        if self.record is not None and self.lock is not None:
            self.record.resolve(self._pending(self.lock))

    def let_go(self) -> None:
        """Remove the lock in vCenter at once, whatever goes on: the process is about to leave."""
        if self.lock is not None and self.note is not None:
            if self.renewal is not None:
                self.renewal.end()
            _release(self, self.lock, self.note)
            self.note.write()

    def _pending(self, lock: VCenterLock) -> Pending:
        # it keeps others off the whole vCenter, which is no target of its own; the nearest there is
        return Pending("lock", Target("datacenter", self.vcenter, lock.ref))


@contextmanager
def hold(
    vcenter: VCenter,
    run: str | journal.Journal,
    *,
    mode: Mode = "local",
    lost: Callable[[str], None],
    every: float | None = None,
) -> Iterator[Hold]:
    """Hold the locks of a vCenter; `Locked` at once, naming the holder, when another run has one of them.

    ``local`` makes none in vCenter, and leaves it to `Hold.respect` to look for one. ``none`` makes none at all: it is
    for where no other run is possible, so one that has a lock is respected all the same. `run` is the journal of a run
    that goes on, or what a new one is about. `lost` is called, from a thread, when the lock in vCenter is no longer
    ours; leaving then raises `Locked`. `every`: seconds between renewals.
    """
    with ExitStack() as stack:
        held = Hold(mode, unseen=vcenter)
        record = None if isinstance(run, str) else run
        if mode == "none" and (other := here(vcenter.about.instance)) is not None:
            raise _held_here(other)
        if mode != "none":
            instance, name = vcenter.about.instance, record.id if record else str(run)
            note = stack.enter_context(hold_here(instance, name))
            dead = {*note.advisory, *(d.target.ref for d in (record.pending() if record else ()) if d.kind == "lock")}
            if mode == "vcenter":
                held = stack.enter_context(_in_vcenter(vcenter, note, dead, every, lost))
            else:
                held = Hold(mode, note, unseen=None if dead else vcenter)
                if dead:
                    _respect(vcenter, dead)
                    _bury(note, dead)
        if record is not None:
            held.serve(record)
        yield held


@contextmanager
def hold_here(instance: str, run: str) -> Iterator[Note]:
    """Hold the kernel lock of a vCenter (by its instance UUID); the death of this process frees it."""
    from filelock import FileLock

    own_folder(LOCKS)
    path, of_holder = _paths(instance)
    lock = FileLock(path, mode=0o600)
    try:
        before = _acquire(lock, of_holder)
        mine = Note.at(of_holder, run, before.advisory if before else ())
        mine.write()
    except OSError as error:
        lock.release()
        raise Storage(f"{path.parent}: {error.strerror}", OWN) from error
    except Storage:
        lock.release()
        raise
    try:
        yield mine
    finally:
        if mine.advisory:
            mine.write()  # the next run has to see to what is left in vCenter
        else:
            of_holder.unlink(missing_ok=True)
        lock.release()


@contextmanager
def hold_run(run: str) -> Iterator[None]:
    """Hold one run, so that no other process goes on with it or back before it, also where no lock is wanted."""
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_here(f"run-{run}", run))
        except Locked as error:
            _, _, who = error.message.partition(": ")
            raise Locked(
                f"another process works on run {run}: {who}", "wait for its end, or stop it", rule="run.under-way"
            ) from error
        yield


def forget_run(run: str) -> None:
    """Remove the file by which a run was held, once its journal is gone and it cannot be resumed any more."""
    for path in _paths(f"run-{run}"):
        path.unlink(missing_ok=True)


def here(instance: str) -> Note | str | None:
    """Return who holds the kernel lock of a vCenter on this machine; None when there is no holder.

    A text where the holder has not yet, or no longer, written who it is.
    """
    from filelock import FileLock, Timeout

    path, of_holder = _paths(instance)
    if not path.exists():
        return None
    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return _read(of_holder) or NOT_SAID
    lock.release()
    return None


def is_ours(found: LockFound) -> bool:
    """Return whether the holder of a lock in vCenter is a process that runs on this machine."""
    return found.holder.machine == socket.gethostname() and process_id.runs(found.holder.pid)


def words(holder: LockHolder) -> str:
    """Say who holds a lock in vCenter."""
    if not holder.machine or holder.since is None:
        return "a holder that it does not name"
    since = holder.since.isoformat(timespec="seconds")
    return f"{holder.user} on {holder.machine}, process {holder.pid}, run {holder.run}, since {since}"


@contextmanager
def _in_vcenter(
    vcenter: VCenter, note: Note, dead: set[str], every: float | None, lost: Callable[[str], None]
) -> Iterator[Hold]:
    from vsphere_ai.connect import vcenter_lock
    from vsphere_ai.runs.lock_renewal import LockRenewal

    me = vcenter_lock.LockHolder(note.user, note.machine, note.pid, note.run)

    def announce(ref: str) -> None:
        note.advisory = (*note.advisory, ref)
        note.write()

    began = time.monotonic()
    try:
        lock = vcenter_lock.acquire(vcenter, me, dead=dead, every=every or vcenter_lock.PERIOD, announce=announce)
    except vcenter_lock.Busy as busy:
        _bury(note, {*dead, *note.advisory})
        raise _locked(busy.found) from None
    _bury(note, {*dead, *note.advisory} - {lock.ref})
    held = Hold("vcenter", note, lock, vcenter.name)
    renewal = held.renewal = LockRenewal(lock, began, lost)
    try:
        yield held
    except BaseException as error:
        if renewal.lost:
            raise _gone(renewal) from error
        raise
    finally:
        renewal.stop()
        _release(held, lock, note)
    if renewal.lost:
        raise _gone(renewal)


def _release(held: Hold, lock: VCenterLock, note: Note) -> None:
    try:
        lock.release()
    except VsphereAiError as error:
        held.left = error.message  # the note and the journal still have it, and it expires
        return
    note.advisory = tuple(r for r in note.advisory if r != lock.ref)
    try:
        held.released()
    except Storage:
        return  # the run has reported its journal already


def _respect(vcenter: VCenter, dead: set[str], objects: Mapping[str, Facts] | None = None) -> None:
    from vsphere_ai.connect import vcenter_lock

    found = vcenter_lock.find(vcenter) if objects is None or vcenter_lock.is_among(objects) else None
    if found is None:
        return
    if found.ref in dead:
        vcenter_lock.remove(vcenter, found.ref)
    elif not found.expired(vcenter.now()):
        raise _locked(found)


def _bury(note: Note, dead: set[str]) -> None:
    """Forget locks whose holders died here, now that they are gone."""
    if dead:
        note.advisory = tuple(r for r in note.advisory if r not in dead)
        note.write()
        settle(dead)


def settle(gone: Collection[str]) -> None:
    """Note in the journals of their runs that locks in vCenter are gone."""
    for record in journal.every():
        for pending in record.pending():
            if pending.kind == "lock" and pending.target.ref in gone:
                record.resolve(pending)
        record.close()


def _locked(found: LockFound) -> Locked:
    until = f"; it expires at {found.expires.isoformat(timespec='seconds')}" if found.expires else ""
    return Locked(
        f"another run works on this vCenter: {words(found.holder)}{until} unless renewed", UNLOCK, rule="lock.held"
    )


def _held_here(who: Note | str | None) -> Locked:
    return Locked(f"another run works on this vCenter: {who}", UNLOCK, rule="lock.held")


def _gone(renewal: LockRenewal) -> Locked:
    return Locked(
        f"the lock in vCenter was lost: {renewal.why}",
        "what was in flight was finished; look at: vsphere-ai run list",
        rule="lock.lost",
    )


def _paths(instance: str) -> tuple[Path, Path]:
    folder = state_dir() / LOCKS
    name = file_name(instance)
    return folder / f"{name}.lock", folder / f"{name}.json"


def _acquire(lock: BaseFileLock, of_holder: Path) -> Note | None:
    """Get the kernel lock, and return what its last holder left when it died; or say who has it."""
    from filelock import Timeout

    end = time.monotonic() + SETTLING
    while True:
        try:
            lock.acquire(timeout=0)
            return _read(of_holder)
        except Timeout as error:
            holder = _read(of_holder)
            known = holder is not None and holder.alive
            if known or time.monotonic() > end:
                who = holder if known else NOT_SAID
                raise _held_here(who) from error
        time.sleep(SETTLING / 20)


def _read(path: Path) -> Note | None:
    note = read_state(path, Note)
    if note is not None:
        note._path = path
    return note
