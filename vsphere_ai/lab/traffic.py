"""Counts of what clients ask for: calls by method, properties by type of object, bytes of the answers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any


class Traffic:
    """Counts since the farm was built. Calls that ended in a fault count too; bytes are those before compression."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._read: Counter[tuple[str, str]] = Counter()

    def answered(self, method: str, size: int) -> None:
        """Count a call and the bytes of its answer."""
        with self._lock:
            self._calls[method] += 1
            self._bytes[method] += size

    def read(self, managed_type: str, paths: Iterable[str]) -> None:
        """Count the properties that the property collector was asked for of one object."""
        with self._lock:
            self._read.update((managed_type, path) for path in paths)

    def as_json(self) -> dict[str, Any]:
        """Return calls and bytes by method, and of how many objects of a type each property was read."""
        with self._lock:
            read: dict[str, dict[str, int]] = {}
            for (managed_type, path), times in sorted(self._read.items()):
                read.setdefault(managed_type, {})[path] = times
            return {"calls": dict(self._calls), "bytes": dict(self._bytes), "read": read}
