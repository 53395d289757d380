"""History of the farm at any point of the ledger: hosts, services, power, sessions, as they changed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from vsphere_ai.lab.ledger import Client

Fact = Literal["up", "maintenance", "ssh", "power", "removed", "session", "torn", "mac", "uuid"]
Key = tuple[Fact, str]


@dataclass(frozen=True)
class HistoryChange:
    """One fact about one object that became different; `time` is ISO 8601 in UTC.

    `by` is who changed it; None when it changed by itself, such as a service in a boot.
    """

    time: str
    fact: Fact
    name: str
    value: bool
    by: Client | None = None


class FactHistory:
    """Facts at the start and every change since; a position is a number of changes.

    `up`, `maintenance` and `ssh` (service TSM-SSH) are noted of hosts, `power` of VMs, `removed` of those that left the
    inventory, `session` of logins; `torn` of GPU instances that went away under a VM; `mac` and `uuid` of VMs that have
    the MAC address (while they run) or the instance UUID of another one. `clusters` says in which cluster
    a host is, empty for none.
    """

    def __init__(self) -> None:
        self.clusters: dict[str, str] = {}
        self._lock = threading.Lock()
        self._now: dict[Key, bool] = {}
        self._base: dict[Key, bool] = {}
        self._changes: list[HistoryChange] = []
        self._positions: dict[int, int] = {0: 0}
        self._mark = 0

    def restart(self) -> None:
        """Forget what was; the present is the start."""
        with self._lock:
            self._base = {key: value for key, value in self._now.items() if value or key[0] != "session"}
            self._changes.clear()
            self._positions, self._mark = {0: 0}, 0

    def note(self, fact: Fact, name: str, value: bool, by: Client | None = None) -> None:
        """Note how something is now; only a difference is kept."""
        with self._lock:
            if self._now.get((fact, name)) == value:
                return
            self._now[fact, name] = value
            self._changes.append(
                HistoryChange(datetime.now(UTC).isoformat(timespec="milliseconds"), fact, name, value, by)
            )

    def recorded(self, number: int) -> None:
        """Remember that the ledger's entry `number` came after the changes known so far."""
        with self._lock:
            self._positions[number] = len(self._changes)

    def mark(self, number: int) -> None:
        """Make the present the start of what is judged; the ledger has `number` entries."""
        with self._lock:
            self._positions[number], self._mark = len(self._changes), number

    @property
    def marked(self) -> int:
        """The number of ledger entries at the last mark, 0 without one."""
        return self._mark

    def since(self, number: int) -> tuple[Mapping[Key, bool], tuple[HistoryChange, ...]]:
        """Return the facts as they were after entry `number`, and the changes after it; KeyError if there is none."""
        with self._lock:
            position = self._positions[number]
            facts = dict(self._base)
            for change in self._changes[:position]:
                facts[change.fact, change.name] = change.value
            return facts, tuple(self._changes[position:])

    def until(self, number: int) -> tuple[HistoryChange, ...]:
        """Return the changes that are known of from before entry `number`; KeyError if there is none."""
        with self._lock:
            return tuple(self._changes[: self._positions[number]])
