"""Live events of `serve`: server-sent events of readings and runs, numbered, so that a browser misses none."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress

from vsphere_ai.errors import VsphereAiError

KEPT = 2000
"""Events that are kept for a browser that comes back."""
POLL = 0.5
"""Seconds between two looks at the journals, while a browser listens."""
PING = 15.0
"""Seconds of silence after which a comment is sent: a connection that is gone shows."""
MOST_LISTENERS = 200

Event = tuple[str, Mapping[str, object]]


class LiveStream:
    """Events of all pages in one stream: a browser opens no more than six connections to a server.

    An event says what has changed; a page fetches what it shows. Listeners read the kept events at their own pace: a
    slow one holds nothing up, and one that is too slow begins anew.
    """

    def __init__(self, look: Callable[[], list[Event]]) -> None:
        self._look = look
        self._era = secrets.token_hex(4)
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._next = 1
        self._more = asyncio.Event()
        self._closed = False
        self._listeners = 0

    def publish(self, kind: str, data: Mapping[str, object]) -> None:
        """Send an event to all; in the thread of the event loop."""
        text = json.dumps(data)  # without line breaks: JSON escapes them
        self._kept.append(f"id: {self._era}-{self._next}\nevent: {kind}\ndata: {text}\n\n".encode())
        self._next += 1
        self._wake()

    def close(self) -> None:
        """End all streams; in the thread of the event loop."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        more, self._more = self._more, asyncio.Event()
        more.set()

    @property
    def is_full(self) -> bool:
        """Whether no further listener is taken."""
        return self._listeners >= MOST_LISTENERS

    async def follow(self) -> None:
        """Look for changes of runs for as long as someone listens; a journal that cannot be read is looked at again."""
        while not self._closed:
            if self._listeners:
                with suppress(OSError, VsphereAiError):
                    for kind, data in await asyncio.to_thread(self._look):
                        self.publish(kind, data)
            await asyncio.sleep(POLL)

    async def stream(self, after: str) -> AsyncIterator[bytes]:
        """Yield the events after an id; without one, or after one that is not known any more, those to come."""
        at = self._begin(after)
        lost = bool(after) and at is None
        self._listeners += 1
        try:
            yield b"retry: 2000\n\n"
            at = self._next if at is None else at
            while not self._closed:
                first = self._next - len(self._kept)
                if lost or at < first:
                    yield f"id: {self._era}-{self._next - 1}\nevent: reset\ndata: {{}}\n\n".encode()
                    at, lost = self._next, False
                elif at < self._next:
                    yield self._kept[at - first]
                    at += 1
                else:
                    more = self._more
                    try:
                        await asyncio.wait_for(more.wait(), PING)
                    except TimeoutError:
                        yield b": ping\n\n"
        finally:
            self._listeners -= 1

    def _begin(self, after: str) -> int | None:
        """Return the number of the event behind an id of this server; None for any other text."""
        era, _, number = after.partition("-")
        known = era == self._era and number.isascii() and number.isdecimal() and len(number) < 10
        return int(number) + 1 if known and int(number) < self._next else None
