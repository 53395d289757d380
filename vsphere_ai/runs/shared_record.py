"""Record of a run in two places: steps and pending actions in its journal, and what is out of service in vCenter, too.

What a step is about to put out of service is in vCenter before it is in the journal, and both before the step is sent.
The first such step of a window writes all that the window will take; what is back is taken away from a thread of its
own, so that what comes back at about the same time is one write.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from pydantic import JsonValue

from vsphere_ai.connect.out_records import OutRecord
from vsphere_ai.errors import Storage, VsphereAiError
from vsphere_ai.model.records.out_of_service import KINDS, OutItem, OutOfService
from vsphere_ai.model.records.pending import Pending, Record
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import PendingKind, Step
from vsphere_ai.runs import process_id
from vsphere_ai.runs.journal import now

PAUSE = 1.0
"""Seconds within which what came back is taken away together."""
AGAIN = 10.0
"""Seconds until taking away is tried again, where vCenter has not taken it."""
LAST = 5.0
"""Seconds to wait at the end for a write that is under way."""
Key = tuple[PendingKind, str]


class SharedRecord:
    """The record of one run; usable from several threads.

    `ahead` says for each step what the window, or the target, that it belongs to will put out of service. `before` is
    what the health of the hosts is measured by, by reference. `lost` gets a sentence when the record in vCenter could
    not be brought up to date at the end.
    """

    def __init__(
        self,
        journal: Record,
        record: OutRecord,
        about: OutOfService,
        ahead: Mapping[str, Collection[Pending]],
        before: Mapping[str, JsonValue],
    ) -> None:
        self._journal, self._record, self._about = journal, record, about
        self._ahead, self._before = ahead, before
        self._items: dict[Key, OutItem] = {}
        self._opened: set[Key] = set()
        self._uuids: dict[str, str] = {}
        self._lock, self._writing = threading.RLock(), threading.Lock()
        self._wanted, self._written = 0, 0  # versions of the items
        self._kept = False  # there is a record in vCenter, as far as is known
        self._wake, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def about(cls, run: str, what: str) -> OutOfService:
        """Return what a record says of its run, which works in this process."""
        return OutOfService(run=run, what=what, **process_id.identity())

    # -- the run

    def take_up(self, *, kept: bool) -> None:
        """Begin with what an earlier attempt, or the run that is taken over, has left. `kept`: it has a record."""
        self._kept = kept
        left = [p for p in self._journal.pending() if p.kind in KINDS]
        if left:
            self._add(left)
            self._opened |= {(p.kind, p.target.ref) for p in left}
            self._write()

    def finish(self) -> str:
        """Take away what is back, and the record itself where nothing is left; return why that failed, "" if not."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(LAST)
        with self._lock:
            for key in [key for key in self._items if key not in self._opened]:
                self._items.pop(key)
                self._wanted += 1
        try:
            if not self._items and self._kept:
                with self._writing:
                    self._record.remove()
                    self._kept = False
            elif self._wanted != self._written and self._kept:
                self._write()
        except VsphereAiError as error:
            return error.message
        return ""

    # -- Record

    def begin(self, id: str, step: Step, opens: Sequence[Pending]) -> None:
        """Note that a step is about to be sent, and what it opens: in vCenter, then in the journal."""
        kept = [p for p in opens if p.kind in KINDS]
        planned = {(p.kind, p.target.ref) for p in step_opens(step)} - {(p.kind, p.target.ref) for p in opens}
        with self._lock:
            passed = [key for key in planned if key in self._items and key not in self._opened]
            new = [p for p in kept if self._is_new(p)]
        if new:
            self._add([*self._ahead.get(id, ()), *new])
            self._write()
        elif passed:  # someone else has switched it: it is not ours to put back
            self._drop(passed)
            with suppress(Storage):
                self._write()
        self._journal.begin(id, step, opens)
        with self._lock:
            self._opened |= {(p.kind, p.target.ref) for p in kept}

    def end(self, id: str, state: str, error: str = "", closes: Sequence[Pending] = ()) -> None:
        """Note how a step ended, and what it closes."""
        try:
            self._journal.end(id, state, error, closes)
        finally:
            self._close(closes)

    def resolve(self, *pending: Pending) -> None:
        """Note that actions are not pending any more."""
        try:
            self._journal.resolve(*pending)
        finally:
            self._close(pending)

    def sending(self, target: Target) -> None:
        """Note that a host is about to be ordered to reboot, or a guest to shut down."""
        self._journal.sending(target)

    def rebooted(self, host: Target, *, did: bool) -> None:
        """Note whether a host did reboot."""
        self._journal.rebooted(host, did=did)

    def pending(self) -> tuple[Pending, ...]:
        """Return what is pending."""
        return self._journal.pending()

    # -- items

    def _is_new(self, pending: Pending) -> bool:
        item = self._items.get((pending.kind, pending.target.ref))
        return item is None or item.detail != pending.detail

    def _add(self, pending: Sequence[Pending]) -> None:
        uuids = self._uuids_of({p.target.ref for p in pending if p.target.kind == "vm"})
        moment = now()
        with self._lock:
            for each in pending:
                if each.kind in KINDS and self._is_new(each):
                    item = OutItem.of_pending(each, moment, uuids.get(each.target.ref, ""))
                    self._items[item.key] = item
                    self._wanted += 1

    def _uuids_of(self, refs: Collection[str]) -> Mapping[str, str]:
        """Return the instance UUIDs of VMs, each read once."""
        missing = sorted(ref for ref in refs if ref not in self._uuids)
        if missing:
            found = self._record.vcenter.read_objects(missing, {"VirtualMachine": ("config.instanceUuid",)})
            self._uuids |= {ref: str(facts.get("config.instanceUuid") or "") for ref, facts in found.items()}
        return self._uuids

    def _close(self, pending: Sequence[Pending]) -> None:
        self._drop([(p.kind, p.target.ref) for p in pending if p.kind in KINDS])

    def _drop(self, keys: Collection[Key]) -> None:
        with self._lock:
            gone = [key for key in keys if self._items.pop(key, None) is not None]
            self._opened -= set(gone)
            self._wanted += len(gone)
        if gone and self._kept:
            self._later()

    def _document(self) -> OutOfService:
        hosts = {item.ref for item in self._items.values() if item.of == "host"}
        before = tuple(self._before[ref] for ref in sorted(hosts & set(self._before)))
        items = tuple(self._items.values())
        return self._about.model_copy(update={"written": now(), "items": items, "before": before})

    def _write(self) -> None:
        """Bring vCenter up to date; what other threads add while one writes goes with the next write."""
        with self._lock:
            mine = self._wanted
        with self._writing:
            with self._lock:
                if self._written >= mine and self._kept:
                    return
                version, text = self._wanted, self._document().model_dump_json(exclude_defaults=True)
            self._kept = True
            self._record.write(text)
            self._written = version

    # -- taking away, from a thread of its own

    def _later(self) -> None:
        self._wake.set()
        with self._lock:
            if self._thread is None and not self._over.is_set():
                self._thread = threading.Thread(target=self._tidy, name="out-record", daemon=True)
                self._thread.start()

    def _tidy(self) -> None:
        while not self._over.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._over.wait(PAUSE):
                return
            try:
                self._write()
            except VsphereAiError:
                self._wake.set()  # a record that says too much is judged by what is really there
                self._over.wait(AGAIN)


def step_opens(step: Step) -> tuple[Pending, ...]:
    """Return what steps of this class put out of service."""
    return tuple(Pending(kind, step.target) for kind in step.opens if kind in KINDS)
