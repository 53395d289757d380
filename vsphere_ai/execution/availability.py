"""Whether there is room for one more host out of service, by how its cluster is now and not by how it was planned."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from vsphere_ai.errors import NoRoom
from vsphere_ai.execution.rollout import Rollout
from vsphere_ai.model.state import Target
from vsphere_ai.planning.rolling import MAINTENANCE

AGAIN = 1.0  # seconds between two looks for a turn that has to wait
PATIENCE = 60.0
"""Seconds a host may be not connected, as all are for a while after vCenter restarts; maintenance mode is meant."""
Seen = Mapping[str, str]
"""Hosts out of service: reference -> why."""


@dataclass(frozen=True)
class _Short:
    reason: str
    since: float
    at: float
    quiet: int | None
    lasting: bool


class Availability:
    """Looks before every turn. It is asked by one thread; looking is done by others, which a slow vCenter may hold."""

    def __init__(self, look: Callable[[Sequence[Target]], Seen], rollout: Rollout) -> None:
        self._look, self._rollout = look, rollout
        self._looks: dict[Target, tuple[Future[Seen], int | None]] = {}
        self._short: dict[Target, _Short] = {}
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="look")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def looking(self) -> list[Future[Seen]]:
        """Return the looks that are under way."""
        return [future for future, _ in self._looks.values()]

    def is_there(self, step: str, down: Set[Target], *, quiet: int | None) -> bool:
        """Tell whether this step may begin a turn; False as well while that is being looked up.

        `down` are hosts of this run that are out of service. `quiet` is None while steps are under way that may make
        room, else how many have ended: only what was seen since the last one counts for good. An error of looking is
        raised.
        """
        host = self._rollout.host(step)
        cluster = self._rollout.cluster(host)
        if host is None or not cluster:
            self.forget(step)
            return True
        short = self._short.get(host)
        if host not in self._looks:
            if short is None or quiet not in (None, short.quiet) or time.monotonic() - short.at >= AGAIN:
                self._looks[host] = self._pool.submit(self._look, cluster), quiet
            return False
        look, before = self._looks[host]
        if not look.done():
            return False
        self.forget(step)
        seen, now = look.result(), time.monotonic()
        reason = self._rollout.over_budget(host, seen, down)
        if reason:
            meant = {ref: why for ref, why in seen.items() if why == MAINTENANCE}
            lasting = bool(self._rollout.over_budget(host, meant, down))
            self._short[host] = _Short(
                reason, short.since if short else now, now, before if before == quiet else None, lasting
            )
        return not reason

    def forget(self, step: str) -> None:
        """Ask no further for this step."""
        host = self._rollout.host(step)
        if host is not None:
            self._looks.pop(host, None)
            self._short.pop(host, None)

    def why_not(self, step: str) -> str:
        """Return why a turn had to wait when it was looked up last, "" when it did not."""
        short = self._short_of(step)
        return short.reason if short else ""

    def refuses(self, step: str) -> NoRoom | None:
        """Return the error with which a turn is given up, once nothing of this run would make room for it."""
        short = self._short_of(step)
        if short is None or short.quiet is None or not (short.lasting or time.monotonic() - short.since >= PATIENCE):
            return None
        return NoRoom(
            f"no further host is started: {short.reason}",
            "bring them back or find out who works on them, then use resume",
        )

    def _short_of(self, step: str) -> _Short | None:
        host = self._rollout.host(step)
        return self._short.get(host) if host is not None else None
