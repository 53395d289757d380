"""Budget of hosts over several runs: how many of them may be out of service at the same time, in whichever vCenter."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

FORGET = 10.0
"""Seconds after which a host that was refused, and not asked for again, waits no more: runs ask every second."""


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
    """Budget of the runs of one process, usable from several threads.

    Hosts that have to wait go in the order in which they were first asked for: no run waits until another one has done
    all of its hosts.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock, self._lock = most, clock, threading.Lock()
        self._out: dict[str, set[str]] = defaultdict(set)
        self._idle: set[str] = set()
        self._waiting: dict[tuple[str, str], float] = {}  # in their order, when each was asked for last

    def take(self, run: str, host: str, *, force: bool = False) -> bool:
        """Count a host as out of service; return whether it may go."""
        with self._lock:
            if not (force or host in self._out[run] or self._is_next((run, host))):
                self._waiting[run, host] = self._clock()
                return False
            self._waiting.pop((run, host), None)
            self._out[run].add(host)
            self._idle.discard(run)  # it brings this host back
            return True

    def _is_next(self, asked: tuple[str, str]) -> bool:
        """Return whether there is room for a host beside those that wait for longer."""
        free = self._most - sum(map(len, self._out.values()))
        if free <= 0:
            return False
        now = self._clock()
        for other, at in [*self._waiting.items()]:
            if other == asked:
                break
            if now - at > FORGET:
                del self._waiting[other]
                continue
            free -= 1
            if not free:
                return False
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
