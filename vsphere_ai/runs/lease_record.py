"""Record of a shard's leases on the coordinator's disk: its epoch, and the vCenter sessions of those who held one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from vsphere_ai.documents.leases import LeaseRecord
from vsphere_ai.errors import Locked
from vsphere_ai.runs.state_files import read_state, write_state
from vsphere_ai.security.state_dir import own_folder, state_dir

FOLDER = "leases"


def write(record: LeaseRecord) -> None:
    """Write a record; it is on the disk then. Raises `Storage`."""
    write_state(own_folder(FOLDER) / f"{record.run}.json", record, durable=True)


def is_kept(run: str) -> bool:
    """Return whether a lease of a run was ever granted."""
    return _path(run).exists()


def require_free(run: str) -> None:
    """`Locked` where a worker of a fleet may carry a run out: only its fleet run knows when no one does any more."""
    if is_kept(run) and read(run).held:
        text = f"a worker of a fleet carries run {run} out, or was lost while it did"
        raise Locked(text, "finish it with: vsphere-ai fleet resume", rule="run.under-way")


def read(run: str) -> LeaseRecord:
    """Return the record of a run; an empty one where there is none. `DamagedDocument` where it cannot be read."""
    return read_state(_path(run), LeaseRecord) or LeaseRecord(run=run)


def forget(run: str) -> None:
    """Remove the record of a run that is over: it is never carried out again."""
    with suppress(OSError):  # what stays is small, and is not asked any more
        _path(run).unlink(missing_ok=True)


def _path(run: str) -> Path:
    return state_dir() / FOLDER / f"{run}.json"
