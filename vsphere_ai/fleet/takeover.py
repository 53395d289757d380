"""Takeover: this process carries a shard out that a worker may have had, after the worker's lease and its sessions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.connect.leave import watch_logins
from vsphere_ai.documents.fleets import Shard
from vsphere_ai.fleet.fence import fence
from vsphere_ai.fleet.lease import terms
from vsphere_ai.fleet.shard import find_run
from vsphere_ai.runs import lease_record as fleet_record
from vsphere_ai.runs import process_id

PAUSE = 0.1


@contextmanager
def taken_over(shard: Shard, stopping: Callable[[], bool], emit: Emit) -> Iterator[bool]:
    """Wait until no worker can have the lease of a shard, and end the sessions of those who had it.

    Yields false where the end was asked for before. Sessions that are begun inside are noted, so that a worker that
    goes on after this process can end them. Nothing is waited for where no worker ever had the shard.
    """
    if not fleet_record.is_kept(shard.run):
        yield True
        return
    record, usual = fleet_record.read(shard.run), terms()
    wait = max(record.lease, usual.lease) + usual.margin if record.held else 0.0
    if wait:
        emit(waiting(wait))
    end = time.monotonic() + wait
    while time.monotonic() < end and not stopping():
        time.sleep(PAUSE)
    if stopping():
        yield False
        return
    record.epoch += 1
    fleet_record.write(record)
    writing = threading.Lock()

    def note(key: str) -> None:
        if key:
            with writing:
                record.sessions = (*record.sessions, (record.epoch, key))
                fleet_record.write(record)

    token = watch_logins.set(note)
    try:
        earlier = record.before(record.epoch)
        if earlier:
            fence(shard, earlier)
        record.sessions = tuple(s for s in record.sessions if s[0] >= record.epoch)
        record.held = False  # this process holds the fleet run itself: its death is seen by the lock
        fleet_record.write(record)
        adopt(shard)
        yield True
    finally:
        watch_logins.reset(token)


def waiting(seconds: float) -> Remark:
    """Return what is said where a worker of before may still work on a shard."""
    return Remark("fleet.waiting", f"a worker may still work on it: waiting {seconds:.0f} s for the end of its lease")


def adopt(shard: Shard) -> None:
    """Make the run one of this process: who had it before is fenced, also where it seems to be under way here."""
    record = find_run(shard.run)
    if record is not None:
        record.update(**process_id.identity())
        record.close()
