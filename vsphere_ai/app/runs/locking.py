"""Locks of a vCenter while a run works on it; losing the one in vCenter stops the run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vsphere_ai.app.events import LockLost, LockReleased, LockTaken, Remark
from vsphere_ai.errors import Locked
from vsphere_ai.model.steps import WriteLeases
from vsphere_ai.runs.locks import Hold, Mode, hold

if TYPE_CHECKING:
    from vsphere_ai.app.estate.connection import EstateConnection
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.planning.planner import Plan
    from vsphere_ai.runs.journal import Journal


def require_lock(plan: Plan, locks: Hold | None) -> None:
    """`Locked` where a plan gives or takes addresses of pools without the lock in vCenter, as its first step would."""
    if locks is None or locks.lock is not None or not any(isinstance(p.step, WriteLeases) for p in plan.steps):
        return
    text = f"the plan gives or takes addresses of pools, and --lock {locks.mode} takes no lock in vCenter"
    help = "leases are only written under that lock: leave --lock out, or write --lock vcenter; nothing was changed"
    raise Locked(text, help, rule="lock.none")


@contextmanager
def held(
    scope: EstateScope, connection: EstateConnection, run: Journal | str, mode: Mode | None, *, reads: bool = False
) -> Iterator[Hold]:
    """Hold the locks of the session's vCenter for a run (its record, or what a new one is about).

    `mode` None: as the inventory says, and the one in vCenter where addresses are given. `Locked` when another run has
    one of them, or when the lock is lost. `reads`: the inventory is read next, which shows the one in vCenter.
    """
    locks: Hold | None = None
    emit = connection.emit

    def release() -> None:
        if locks is not None:
            locks.let_go()

    def lost(why: str) -> None:
        emit(Remark("lock.lost", f"The lock in vCenter is lost, so this run stops: {why}"))
        connection.stop(signal.SIGTERM, "stopped: the lock in vCenter was lost")
        emit(LockLost())

    emit(LockTaken(release))
    try:
        with hold(connection.vcenter, run, mode=mode or scope.lock_mode, lost=lost) as locks:
            if not reads:
                locks.respect()
            with connection.holding(locks):
                yield locks
    finally:
        emit(LockReleased(release))
        if locks is not None and locks.left:
            emit(Remark("lock.not-removed", f"The lock in vCenter could not be removed: {locks.left}"))
            emit(Remark("", "  It expires by itself. Look at it, or remove it, with: vsphere-ai run unlock"))
