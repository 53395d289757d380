"""Budget of hosts over several runs: how many of them may be out of service at the same time, in whichever vCenter."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Protocol


class HostBudget(Protocol):
    """Budget that several runs share. Hosts are references, which are unique in one run only; none of it blocks."""

    def take(self, run: str, host: str, *, force: bool = False) -> bool:
        """Count a host as out of service; return whether it may go. `force`: it is out of service already.

        A host that is counted already is not counted again.
        """

    def give(self, run: str, host: str) -> None:
        """Count a host no more: it is back in service, or never left it."""

    def idle(self, run: str, *, idle: bool) -> None:
        """Note whether a run has nothing in flight that would bring its hosts back; at its end, for good."""

    def refusal(self) -> str:
        """Return why no run can ever get a host, because all that are out of service stay so; "" where it may."""


class LocalBudget:
    """Budget of the runs of one process, usable from several threads."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._out: dict[str, set[str]] = defaultdict(set)
        self._idle: set[str] = set()

    def take(self, run: str, host: str, *, force: bool = False) -> bool:
        """Count a host as out of service; return whether it may go."""
        with self._lock:
            known = host in self._out[run]
            if not (known or force) and sum(map(len, self._out.values())) >= self._most:
                return False
            self._out[run].add(host)
            return True

    def give(self, run: str, host: str) -> None:
        """Count a host no more."""
        with self._lock:
            self._out[run].discard(host)

    def idle(self, run: str, *, idle: bool) -> None:
        """Note whether a run has nothing in flight."""
        with self._lock:
            (self._idle.add if idle else self._idle.discard)(run)

    def refusal(self) -> str:
        """Return why no run can ever get a host."""
        with self._lock:
            lasting = sum(len(hosts) for run, hosts in self._out.items() if run in self._idle)
        if lasting < self._most:
            return ""
        return f"{lasting} of at most {self._most} hosts of the fleet are out of service, and stay so"
