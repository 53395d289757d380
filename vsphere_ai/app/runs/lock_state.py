"""Locks of a vCenter: who holds them, and removal of the one in vCenter whose holder is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.runs.out_of_service import out_runs
from vsphere_ai.connect import vcenter_lock
from vsphere_ai.connect.vcenter_lock import LockFound
from vsphere_ai.documents.runs.locks import LocalLockDocument, LocksDocument, VcenterLockDocument
from vsphere_ai.errors import Locked
from vsphere_ai.runs import locks
from vsphere_ai.runs.locks import Note


@dataclass(frozen=True)
class LockState:
    """The lock on this machine and the one in vCenter, None where it is free.

    `out` says what runs have out of service by what vCenter keeps of them, and what puts it back.
    """

    vcenter: str
    local: Note | str | None
    advisory: LockFound | None
    expired: bool
    out: tuple[str, ...] = ()

    def lines(self) -> tuple[str, str]:
        """Return in words who holds the lock on this machine, and the one in vCenter."""
        here, there = f"held by {self.local}" if self.local else "free", "free"
        if self.advisory is not None:
            there = f"held by {locks.words(self.advisory.holder)}"
            if self.advisory.expires is not None:
                verb, at = "expired" if self.expired else "expires", self.advisory.expires
                there += f"; {verb} at {at.isoformat(timespec='seconds')}"
            there += "" if self.expired else " unless renewed"
        return here, there

    def document(self, *, removed: bool) -> LocksDocument:
        """Return both as they are printed; `removed`: the one in vCenter was removed."""
        local, advisory = None, None
        if isinstance(self.local, Note):
            local = LocalLockDocument(**{name: getattr(self.local, name) for name in LocalLockDocument.model_fields})
        if self.advisory is not None:
            holder, expires = vars(self.advisory.holder), self.advisory.expires
            advisory = VcenterLockDocument(**holder, expires=expires, expired=self.expired)
        return LocksDocument(
            vcenter=self.vcenter, local=local, advisory=advisory, out_of_service=self.out, removed=removed
        )


@dataclass(frozen=True)
class UnlockRequest:
    """Which vCenter's locks to show. `confirm` is called when there is one in vCenter that may be removed."""

    confirm: Callable[[], bool]
    estate: EstateRequest = field(default_factory=EstateRequest)


def unlock(request: UnlockRequest, shown: Callable[[LockState], None], emit: Emit = ignore) -> tuple[LockState, bool]:
    """Call `shown` with who holds the locks, and remove the one in vCenter when that is confirmed.

    What a run has out of service stays written in vCenter: without it no one would know what to put back.
    Returns the locks as they were, and whether one was removed. `Locked` while its holder runs on this machine.
    """
    with open_session(request.estate, None, emit) as session:
        note = locks.here(session.connection.vcenter.about.instance)
        found = vcenter_lock.find(session.connection.vcenter)
        expired = found is not None and found.expired(session.connection.vcenter.now())
        out = tuple(line for run in out_runs(session.connection.vcenter) for line in run.lines())
        state = LockState(session.connection.vcenter.name, note, found, expired, out)
        emit(Status(""))
        shown(state)
        if found is None:
            return state, False
        if (isinstance(note, Note) and found.ref in note.advisory) or locks.is_ours(found):
            text = f"the holder still runs on this machine: {locks.words(found.holder)}"
            raise Locked(text, "stop it with Ctrl-C, or wait", rule="lock.in-use")
        if not request.confirm():
            return state, False
        removed = vcenter_lock.remove(session.connection.vcenter, found.ref)
        locks.settle({found.ref})
        return state, removed
