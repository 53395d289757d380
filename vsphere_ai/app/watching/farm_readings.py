"""Reader of a farm: reads it at an interval in one session, whatever the number of those who look at the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.session import Session, open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.app.runs.surroundings import world_of
from vsphere_ai.app.watching.farm_snapshot import FarmRequest, FarmSnapshot, take_snapshot
from vsphere_ai.app.watching.live_cursor import LiveCursor
from vsphere_ai.errors import Denied, VsphereAiError
from vsphere_ai.language.playbooks.play import Playbook
from vsphere_ai.model.world import World


@dataclass(frozen=True)
class FarmState:
    """What a reader knows: the last good reading, and why the one after it failed.

    `next_at` is when the next reading begins (seconds since the epoch, 0 while one is under way); `ended` says that
    there will be none, because the login was refused.
    """

    world: World
    snapshot: FarmSnapshot | None = None
    error: VsphereAiError | None = None
    readings: int = 0
    failures: int = 0
    next_at: float = 0.0
    ended: bool = False

    def age(self, now: float) -> float | None:
        """Return the seconds since the last good reading; None before the first one."""
        return max(0.0, now - self.snapshot.taken) if self.snapshot else None


class FarmReader:
    """Reads a farm again and again, with `follows` what has changed; `state` may be asked from every thread."""

    def __init__(
        self, session: Session, playbooks: tuple[Playbook, ...], interval: float, *, follows: bool = True
    ) -> None:
        self._session, self._playbooks, self._interval = session, playbooks, interval
        self._live = LiveCursor(session) if follows else None
        self._stopped = threading.Event()
        self._listeners: list[Callable[[], None]] = []
        self.state = FarmState(world_of(session.scope))

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this after each reading, in the reader's thread."""
        self._listeners.append(listener)

    def run(self) -> None:
        """Read until `stop` is called, also where readings fail; not after a refused login: accounts lock."""
        while not self._stopped.is_set():
            self.read()
            if self.state.ended:
                self._stopped.wait()
            self._stopped.wait(self._interval)

    def stop(self) -> None:
        """End `run` after the reading that is under way."""
        self._stopped.set()

    def read(self) -> None:
        """Read once."""
        before = self.state = replace(self.state, next_at=0.0)
        after = time.time() + self._interval
        try:
            snapshot = self._snapshot()
        except VsphereAiError as error:
            ended = isinstance(error, Denied)
            failures = before.failures + 1
            self.state = replace(before, error=error, failures=failures, next_at=0.0 if ended else after, ended=ended)
        else:
            after = time.time() + self._interval
            self.state = replace(
                before, snapshot=snapshot, error=None, readings=before.readings + 1, next_at=after, ended=False
            )
        for listener in self._listeners:
            listener()

    def _snapshot(self) -> FarmSnapshot:
        """Return the farm as it is now: read where it has changed, in full at times; the last one where it has not."""
        began, before, live = time.monotonic(), self.state.snapshot, self._live
        if live and live.unchanged() and before is not None and self.state.error is None:
            return replace(before, taken=time.time(), seconds=time.monotonic() - began)
        snapshot = take_snapshot(self._session, self._playbooks)
        if live:
            live.keep(snapshot.lasting)
            snapshot = replace(snapshot, whole=live.began)
        return snapshot


@contextmanager
def farm_reader(
    request: FarmRequest, interval: float, emit: Emit = ignore, *, follows: bool = True
) -> Iterator[FarmReader]:
    """Yield a reader, which has read nothing yet. `InputError` or `UsageError` where a file is wrong."""
    playbooks = tuple(load(path, request.estate, emit) for path in request.playbooks)
    with open_session(request.estate, playbooks[0] if playbooks else None, emit) as session:
        yield FarmReader(session, playbooks, interval, follows=follows)


def read_farm(request: FarmRequest, emit: Emit = ignore) -> FarmState:
    """Read a farm once. Raises what is wrong with files; an outage, or a refused login, is in the result."""
    with farm_reader(request, 0.0, emit, follows=False) as reader:
        reader.read()
    return reader.state
