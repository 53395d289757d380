"""Progress of a task: passed on, and said where there is none for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

STALL = 120.0  # seconds without progress after which it is reported


class Follow:
    """Passes on how far a task is, and speaks up when it stands still."""

    def __init__(self, what: str, say: Callable[[str], None], notice: Callable[[str], None]) -> None:
        self._what, self._say, self._notice = what, say, notice
        self._percent: int | None = None
        self._since = self._reported = time.monotonic()

    def __call__(self, percent: int | None) -> None:
        """Take how far the task is, None where that is not known."""
        now = time.monotonic()
        if percent != self._percent:
            self._percent, self._since, self._reported = percent, now, now
        if percent is not None:
            self._say(f"{percent}%")
        if now - self._reported >= STALL:
            self._reported = now
            at = "is not begun yet" if percent is None else f"stands at {percent}%"
            self._notice(
                f"{self._what} {at} for {now - self._since:.0f} s; vCenter goes on with it, and it is waited for"
            )
