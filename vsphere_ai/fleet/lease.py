"""Lease of a shard: who may send its changes, until when, by clocks that are never compared with each other.

The coordinator grants a lease with an epoch, and a higher one only when the time of the one before is over. The worker
counts from before it asked, and stops sending at half of the time: so two workers never send at once, however late
answers are. What it can not know is how long it was held up between that look at its clock and the sending: for this
its vCenter session is ended before the next epoch begins.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from vsphere_ai.errors import UsageError

LEASE, MARGIN = "VSPHERE_AI_FLEET_LEASE", "VSPHERE_AI_FLEET_MARGIN"
"""Environment variables of the coordinator, in seconds."""
PATIENCE = "VSPHERE_AI_FLEET_PATIENCE"
"""Environment variable of the coordinator: seconds for which it waits for a worker of a vCenter."""
SHORTEST = 0.2


@dataclass(frozen=True)
class LeaseTimings:
    """Times in seconds: how long a lease lasts without renewal, and how long after it another one may begin."""

    lease: float = 30.0
    margin: float = 5.0
    patience: float = 60.0

    @property
    def every(self) -> float:
        """Time between renewals, which also bring the request to stop."""
        return min(1.0, self.lease / 8)


def terms() -> LeaseTimings:
    """Return the times of this coordinator; `UsageError` for a variable that is no such time."""
    usual = LeaseTimings()
    return LeaseTimings(
        _seconds(LEASE, usual.lease), _seconds(MARGIN, usual.margin), _seconds(PATIENCE, usual.patience)
    )


def _seconds(name: str, usual: float) -> float:
    text = os.environ.get(name, "")
    try:
        found = float(text) if text else usual
    except ValueError:
        found = 0.0
    if not SHORTEST <= found <= 86_400:
        raise UsageError(f"{name}={text} is no time in seconds", f"from {SHORTEST} to 86400", rule="usage.lease")
    return found


def clock() -> float:
    """Return the seconds of a worker's clock: one that goes on while the machine is suspended, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass
class CoordinatorLease:
    """The coordinator's side. `now` is always its own monotonic clock."""

    terms: LeaseTimings
    epoch: int = 0
    until: float | None = None
    """When the present holder's time ends; None without a holder."""

    def wait(self, now: float) -> float:
        """Return for how many seconds no other lease can be granted; 0 where it can."""
        return 0.0 if self.until is None else max(0.0, self.until + self.terms.margin - now)

    def grant(self, now: float) -> int:
        """Return the epoch of a new lease; only where there is nothing to wait for."""
        self.epoch += 1
        self.until = now + self.terms.lease
        return self.epoch

    def renew(self, epoch: int, now: float) -> bool:
        """Prolong a lease; False where it is not the present one. A late renewal is as good, if no one came between."""
        if epoch != self.epoch or self.until is None:
            return False
        self.until = now + self.terms.lease
        return True

    def release(self, epoch: int) -> None:
        """End a lease: its holder sends nothing more."""
        if epoch == self.epoch:
            self.until = None


@dataclass
class WorkerLease:
    """The worker's side. `asked` is when it asked for what was answered last, by its own clock (`clock`)."""

    terms: LeaseTimings
    asked: float
    lost: bool = field(default=False)

    def renewed(self, asked: float) -> None:
        """Note that a request sent at this moment was answered."""
        self.asked = max(self.asked, asked)

    def may_send(self, now: float) -> bool:
        """Return whether a change may be sent now."""
        return not self.lost and now < self.asked + self.terms.lease / 2

    def over(self, now: float) -> bool:
        """Return whether no renewal can bring it back, so that waiting is of no use."""
        return self.lost or now >= self.asked + self.terms.lease
