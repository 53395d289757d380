"""Renewal of the lock in vCenter, from a thread of its own, and the report of its loss."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from vsphere_ai.connect.vcenter_lock import LockTakenOver, VCenterLock
from vsphere_ai.errors import VsphereAiError

STOPPING = 5.0
"""Seconds to wait for a renewal that is under way when the run ends."""


class LockRenewal:
    """Renews a lock once per period, and ten times as often while that fails.

    `began` is `time.monotonic()` before the lock was taken: a lock that could not be renewed until it expired counts
    as lost even when no one took it over, because another run may at any moment.
    """

    def __init__(self, lock: VCenterLock, began: float, lost: Callable[[str], None]) -> None:
        self.lost = False
        self.why = ""
        self._lock, self._report = lock, lost
        self._expires = began + (lock.expires - lock.since).total_seconds()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lock", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Begin no further renewal; that the lock is gone from now on is no loss."""
        self._ended.set()

    def stop(self) -> None:
        """End the thread."""
        self.end()
        self._thread.join(STOPPING)

    def _run(self) -> None:
        why = "unexpected error while renewing the lock"
        try:
            wait = self._lock.every
            while not self._ended.wait(wait):
                asked = time.monotonic()
                try:
                    now = self._lock.renew()
                except VsphereAiError as error:
                    wait = self._lock.every / 10
                    why = f"it could not be renewed before it expired: {error.message}"
                    if time.monotonic() > self._expires:
                        return
                else:
                    wait = self._lock.every
                    self._expires = asked + (self._lock.expires - now).total_seconds()
        except LockTakenOver:
            why = "someone else took it over or removed it"
        finally:
            if not self._ended.is_set():
                self.lost, self.why = True, why
                self._report(why)
