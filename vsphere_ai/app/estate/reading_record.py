"""Record in vCenter of SSH that a run starts only to read, before it has a journal; see `out_of_service`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from vsphere_ai.connect.out_records import OutRecord
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.model.records.pending import NoRecord, Pending
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import StartSsh
from vsphere_ai.runs import journal
from vsphere_ai.runs.shared_record import SharedRecord

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter


class ReadingRecord:
    """One record for all hosts that are read at the same time. Where vCenter takes none, they are read all the same.

    The note on this machine (`ssh_markers`) is kept besides: the next command here stops what it names by itself.
    """

    def __init__(self, vcenter: VCenter) -> None:
        self._vcenter = vcenter
        self._lock = threading.Lock()
        self._hosts = 0
        self._record: SharedRecord | None = None

    @contextmanager
    def noted(self, ref: str) -> Iterator[None]:
        """Keep a host in the record until the block has ended well."""
        ssh = Pending("ssh", Target("host", ref, ref))
        with self._lock:
            self._hosts += 1
            record = self._record = self._record or self._begun()
        try:
            with suppress(VsphereAiError):
                record.begin(ref, StartSsh(target=ssh.target, summary="start SSH to read"), [ssh])
            yield
            record.end(ref, "done", closes=[ssh])
        finally:
            with self._lock:
                self._hosts -= 1
                last = self._hosts == 0
                self._record = None if last else self._record
            if last:
                record.finish()

    def _begun(self) -> SharedRecord:
        about = SharedRecord.about(journal.new_name(), "reading over SSH")
        return SharedRecord(NoRecord(), OutRecord(self._vcenter, about.run), about, {}, {})
