"""The lab's ledger: every mutating call that took effect, in order, whichever door it came through."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

Channel = Literal["soap", "ssh"]
operation: ContextVar[str] = ContextVar("operation", default="")
"""The client's name for what it does (``operationID``), while its call or the task it started is carried out."""
LONGEST_OPERATION = 256


@dataclass(frozen=True)
class Client:
    """Who sends a call: the user, and whether the call names its operation, as programs at work do."""

    user: str
    names_operations: bool = False


client: ContextVar[Client | None] = ContextVar("client", default=None)
"""Who is at work while a call or the task it started is carried out; None while the farm changes by itself."""


@dataclass(frozen=True)
class LedgerEntry:
    """One call that changed something. `number` counts from 1, `time` is ISO 8601 in UTC."""

    number: int
    time: str
    object: str
    call: str
    detail: Mapping[str, Any]
    channel: Channel
    ref: str = ""
    """The managed object's id, where there is one: names are not unique."""
    operation: str = ""
    """The client's ``operationID``; empty when it sent none, and over SSH."""

    def as_json(self) -> dict[str, Any]:
        """Return the entry as plain JSON types."""
        return {
            "number": self.number,
            "time": self.time,
            "object": self.object,
            "call": self.call,
            "detail": dict(self.detail),
            "channel": self.channel,
            "ref": self.ref,
            "operation": self.operation,
        }


class Ledger:
    """A thread-safe list of entries. Refused calls and calls without effect are not to be recorded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[LedgerEntry] = []
        self._number = 0
        self.on_entry: Callable[[int], None] = lambda _number: None
        """Called with the number of each new entry."""

    def record(
        self,
        object: str,
        call: str,
        detail: Mapping[str, Any] | None = None,
        *,
        channel: Channel = "soap",
        ref: str = "",
    ) -> LedgerEntry:
        """Append a call on `object` (a host's or VM's name); `detail` must hold JSON types."""
        with self._lock:
            self._number += 1
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            entry = LedgerEntry(self._number, now, object, call, dict(detail or {}), channel, ref, operation.get())
            self._entries.append(entry)
            self.on_entry(entry.number)
            return entry

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return all entries, oldest first."""
        with self._lock:
            return tuple(self._entries)

    def as_json(self) -> list[dict[str, Any]]:
        """Return all entries as plain JSON types, oldest first."""
        return [entry.as_json() for entry in self.entries()]

    def clear(self) -> None:
        """Forget every entry; numbers start from 1 again."""
        with self._lock:
            self._entries.clear()
            self._number = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)
