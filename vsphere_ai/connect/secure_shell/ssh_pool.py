"""Pool of SSH connections to hosts: one for each, kept between the commands of a run, and a bounded number of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from vsphere_ai.connect.gate import LoginGate
from vsphere_ai.connect.leave import may_change
from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshEndpoint, TooManySessions
from vsphere_ai.model.facts import CommandOutput
from vsphere_ai.model.state import Target

MOST_OPEN = 64
"""Connections that are kept while nothing uses them; those that were used the longest time ago are closed first."""
IDLE = 180.0
"""Seconds after which those that nothing uses are closed: a watch asks hosts every ten minutes."""
AT_ONCE = 4
"""Commands that run side by side on one host, each in a session of one connection (OpenSSH: MaxSessions, 10)."""
PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds until a host is asked again that opens no session although nothing else has one."""
_Argv = tuple[str, ...]


class SshPool:
    """Gives the connection to a host, which is still closed at first, and is the same each time.

    It stays open when a `with` block ends. It is closed with the pool, by `leave`, when too many others are open, and
    when it was not used for long.
    """

    def __init__(self, endpoint: Callable[[Target], SshEndpoint], gate: LoginGate) -> None:
        self._endpoint, self._gate, self._most = endpoint, gate, MOST_OPEN
        self._lock = threading.Lock()
        self.may_change = may_change.get()
        self._kept: dict[str, _Kept] = {}
        """By name of the host; those that were used last come last."""
        self._timer: threading.Timer | None = None

    def __call__(self, host: Target) -> EsxiSsh:
        """Return the connection to a host; what `endpoint` raises where the host has no address."""
        with self._lock:
            if host.name not in self._kept:
                self._kept[host.name] = _Kept(self, host.name, self._endpoint(host), self._gate)
            return self._kept[host.name]

    def leave(self, host: Target) -> None:
        """Close the connection to a host that is about to reboot, or to stop its SSH service."""
        with self._lock:
            kept = self._kept.get(host.name)
        if kept is not None:
            kept.close()

    def close(self) -> None:
        """Close all connections, and keep none from now on."""
        with self._lock:
            self._most, timer = 0, self._timer
        if timer is not None:
            timer.cancel()
        self._close_beyond(0)

    def used(self, name: str) -> None:
        """Count a connection as the one that was used last, and close those that are too many."""
        with self._lock:
            if (kept := self._kept.pop(name, None)) is not None:
                self._kept[name], kept.since = kept, time.monotonic()
        self._close_beyond(self._most)
        self._look_later()

    def _close_beyond(self, most: int) -> None:
        with self._lock:
            idle = [kept for kept in self._kept.values() if kept.is_open and not kept.is_in_use]
        for kept in idle[: max(0, len(idle) - most)]:
            kept.close_unused()

    def _look_later(self) -> None:
        """Look for connections to close in a while, as long as any is open."""
        with self._lock:
            if self._most and self._timer is None and any(kept.is_open for kept in self._kept.values()):
                self._timer = threading.Timer(IDLE, self._close_idle)
                self._timer.daemon = True
                self._timer.start()

    def _close_idle(self) -> None:
        before = time.monotonic() - IDLE
        with self._lock:
            self._timer, idle = None, [kept for kept in self._kept.values() if kept.since <= before]
        for kept in idle:
            kept.close_unused()
        self._look_later()


class _Kept(EsxiSsh):
    """A connection of a pool."""

    def __init__(self, pool: SshPool, name: str, endpoint: SshEndpoint, gate: LoginGate) -> None:
        super().__init__(endpoint, gate=gate)
        self._pool, self._name, self._users = pool, name, 0
        self.since = time.monotonic()
        """When it was used last."""

    def run(self, argv: Sequence[str], deadline_s: float, *, changes: bool = False) -> CommandOutput:
        """Run one command; one that changes something only with leave, which is asked for when the way is open."""
        if changes:
            self.connect()
            self._pool.may_change()
        return super().run(argv, deadline_s, changes=changes)

    @property
    def is_in_use(self) -> bool:
        """Whether a `with` block or a command uses it."""
        return self._users > 0 or self.is_busy

    def close_unused(self) -> None:
        """Close it, unless something has begun to use it."""
        with self._counting:
            if not self.is_in_use:
                self.close()

    def __enter__(self) -> Self:
        with self._counting:
            self._users += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._users -= 1
        self._pool.used(self._name)


def side_by_side(
    commands: Collection[_Argv], ask: Callable[[_Argv], CommandOutput]
) -> Iterator[tuple[_Argv, CommandOutput]]:
    """Yield commands of one host with their output; some run at a time, and alone what it opened no session for."""
    refused: list[_Argv] = []

    def try_beside(argv: _Argv) -> CommandOutput | None:
        try:
            return ask(argv)
        except TooManySessions:
            refused.append(argv)
            return None

    with ThreadPoolExecutor(max_workers=max(1, min(AT_ONCE, len(commands)))) as pool:
        for argv, output in zip(commands, pool.map(try_beside, commands), strict=True):
            if output is not None:
                yield argv, output
    for argv in refused:
        yield argv, _alone(argv, ask)


def _alone(argv: _Argv, ask: Callable[[_Argv], CommandOutput]) -> CommandOutput:
    """Ask when nothing else is under way; the host may not have noted yet that the command before has ended."""
    for pause in PAUSES:
        try:
            return ask(argv)
        except TooManySessions:
            time.sleep(pause)
    return ask(argv)
