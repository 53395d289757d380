"""Availability budget of clusters: read before each host goes out of service, as the cluster is then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from vsphere_ai.errors import NoRoom
from vsphere_ai.execution.run_state import RunState
from vsphere_ai.model.state import Target
from vsphere_ai.planning.moves.rolling import MAINTENANCE

AGAIN = 1.0  # seconds between two reads for a host that has to wait
PATIENCE = 60.0
"""Seconds a host may be not connected, as all are for a while after vCenter restarts; maintenance mode is meant."""
Seen = Mapping[str, str]
"""Hosts out of service: reference -> why."""


@dataclass(frozen=True)
class _OverBudget:
    reason: str
    since: float
    at: float
    ended: int | None
    """How many steps had ended when this was read, and none was running; None where some were running."""
    lasting: bool


class Availability:
    """Reads in threads of its own, which a slow vCenter may hold; asked by one thread."""

    def __init__(self, read: Callable[[Sequence[Target]], Seen], state: RunState) -> None:
        self._read, self._state = read, state
        self._reads: dict[Target, tuple[Future[Seen], int | None]] = {}
        self._over: dict[Target, _OverBudget] = {}
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="availability")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def reading(self) -> list[Future[Seen]]:
        """Return the reads that are under way."""
        return [future for future, _ in self._reads.values()]

    def allows(self, step: str, *, ended: int | None) -> bool:
        """Return whether a step may take its host out of service; False as well while that is being read.

        `ended` is None while steps are running that may bring hosts back, else how many have ended: a refusal is final
        only where it was read after the last one. An error of reading is raised.
        """
        host = self._state.rollout.entries.get(step)
        cluster = self._state.cluster_to_read(host)
        if host is None or not cluster:
            self.forget(step)
            return True
        over = self._over.get(host)
        if host not in self._reads:
            if over is None or ended not in (None, over.ended) or time.monotonic() - over.at >= AGAIN:
                self._reads[host] = self._pool.submit(self._read, cluster), ended
            return False
        read, before = self._reads[host]
        if not read.done():
            return False
        self.forget(step)
        seen, now = read.result(), time.monotonic()
        reason = self._state.over_budget(host, seen)
        if reason:
            lasting = bool(self._state.over_budget(host, {r: why for r, why in seen.items() if why == MAINTENANCE}))
            since = over.since if over else now
            self._over[host] = _OverBudget(reason, since, now, before if before == ended else None, lasting)
        return not reason

    def forget(self, step: str) -> None:
        """Read no further for this step."""
        host = self._state.rollout.entries.get(step)
        if host is not None:
            self._reads.pop(host, None)
            self._over.pop(host, None)

    def reason(self, step: str) -> str:
        """Return why a host had to wait when its cluster was read last, "" when it had not."""
        over = self._over_of(step)
        return over.reason if over else ""

    def refusal(self, step: str) -> NoRoom | None:
        """Return the error of a host that is not started, once nothing of this run would bring hosts back."""
        over = self._over_of(step)
        if over is None or over.ended is None or not (over.lasting or time.monotonic() - over.since >= PATIENCE):
            return None
        return NoRoom(
            f"no further host is started: {over.reason}",
            "bring these hosts back into service, or ask the user who works on them, then use resume",
        )

    def _over_of(self, step: str) -> _OverBudget | None:
        host = self._state.rollout.entries.get(step)
        return self._over.get(host) if host is not None else None
