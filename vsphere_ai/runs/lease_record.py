"""Record of a shard's leases on the coordinator's disk: its epoch, and the vCenter sessions of those who held one."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from vsphere_ai.errors import Locked, Storage
from vsphere_ai.model.bounded import json_value
from vsphere_ai.security.files import STATE, flush, read_bytes, write_private
from vsphere_ai.security.state_dir import own_folder, state_dir

FOLDER = "leases"


@dataclass
class LeaseRecord:
    """What outlives the coordinator. `held`: a lease was granted and not given back; `lease` its time in seconds.

    `sessions` are keys of login sessions in vCenter, each with the epoch it was made in.
    """

    run: str
    epoch: int = 0
    held: bool = False
    lease: float = 0.0
    sessions: tuple[tuple[int, str], ...] = ()

    def before(self, epoch: int) -> tuple[str, ...]:
        """Return the sessions of earlier epochs."""
        return tuple(key for made, key in self.sessions if made < epoch)

    def write(self) -> None:
        """Write it; it is on the disk then. Raises `Storage`."""
        path = own_folder(FOLDER) / f"{self.run}.json"
        try:
            write_private(path, json.dumps(asdict(self)).encode())
            flush(path.parent)
        except OSError as error:
            raise Storage(f"{path}: {error.strerror}", "make room, or look at who owns the folder") from error


def is_kept(run: str) -> bool:
    """Return whether a lease of a run was ever granted."""
    return _path(run).exists()


def require_free(run: str) -> None:
    """`Locked` where a worker of a fleet may carry a run out: only its fleet run knows when no one does any more."""
    if is_kept(run) and read(run).held:
        text = f"a worker of a fleet carries run {run} out, or was lost while it did"
        raise Locked(text, "finish it with: vsphere-ai fleet resume", rule="run.under-way")


def read(run: str) -> LeaseRecord:
    """Return the record of a run; an empty one where there is none. Raises `Storage`."""
    path = _path(run)
    try:
        values = json_value(read_bytes(path, STATE))
        sessions = tuple((int(epoch), str(key)) for epoch, key in values.pop("sessions"))
        return LeaseRecord(**{**values, "run": run, "sessions": sessions})
    except FileNotFoundError:
        return LeaseRecord(run)
    except (OSError, ValueError, TypeError, KeyError) as error:
        text = f"{path} cannot be read: {error}"
        remedy = "end the sessions of the fleet's account in vCenter by hand, then remove this file"
        raise Storage(text, remedy, rule="fleet.record") from error


def forget(run: str) -> None:
    """Remove the record of a run that is over: it is never carried out again."""
    with suppress(OSError):  # what stays is small, and is not asked any more
        _path(run).unlink(missing_ok=True)


def _path(run: str) -> Path:
    return state_dir() / FOLDER / f"{run}.json"
