"""Outage of a vCenter that does not answer: one time budget, shared by all threads."""

from __future__ import annotations

import http.client
import random
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from vsphere_ai.connect import tls
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.wire.answer_checks import NotSoap, TooLarge
from vsphere_ai.connect.wire.untypable import Untypable
from vsphere_ai.errors import Unparsed, Unreachable, VsphereAiError

NOTICE = 8.0
"""Seconds between two notices while nothing answers."""
MOST_UNREADABLE = 5
"""Unreadable answers in a row, after which the request fails."""


@dataclass(frozen=True)
class WaitLimits:
    """Seconds: to connect, for one answer, how long a vCenter that cannot be reached is waited for, and pauses.

    `patience` holds while nothing was changed yet, `run_patience` as soon as a run is under way. Pauses grow from
    `backoff` to `longest_pause`. A session that is idle for `keep_alive` seconds asks for the time.
    """

    connect: float = 10.0
    answer: float = 60.0
    patience: float = 60.0
    run_patience: float = 600.0
    backoff: float = 1.0
    longest_pause: float = 10.0
    keep_alive: float = 300.0


class RequestLost(Exception):
    """No answer to a request. `sent` is False when it certainly never left or was not carried out."""

    def __init__(self, error: BaseException, *, sent: bool) -> None:
        super().__init__(tls.describe(error))
        self.error = error
        self.sent = sent

    @property
    def unreadable(self) -> bool:
        """Return whether something answered, but not in a way that can be read."""
        return isinstance(self.error, NotSoap) or not isinstance(self.error, OSError | http.client.HTTPException)

    @property
    def unparsed(self) -> bool:
        """Return whether whole, well-formed XML came that holds what the library does not know."""
        return isinstance(self.error, Untypable)

    def refusal(self, endpoint: Endpoint) -> VsphereAiError:
        """Return the error for an operator, once the request is not repeated any more."""
        if self.unparsed:
            return Unparsed(
                f"{endpoint} gave an answer that cannot be read: pyVmomi {self}",
                "This vCenter may be newer than pyVmomi: pip install --upgrade pyvmomi",
            )
        if self.unreadable:
            return Unreachable(
                f"{endpoint} gave an answer that cannot be read: {self}",
                "Look whether a proxy or something else than vCenter answers at this address.",
            )
        return tls.refusal(endpoint, self.error)


def distrusted(error: BaseException) -> bool:
    """Return whether the server's certificate was seen and is not trusted, which does not pass by itself.

    A handshake that breaks off or is refused says nothing about the certificate: what is just starting may do so.
    """
    return isinstance(error, ssl.SSLCertVerificationError)


class Outage:
    """The time since a vCenter stopped answering, shared by every thread; an answer to any thread ends it."""

    def __init__(self, limits: WaitLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._back = threading.Event()
        self._since: float | None = None
        self._noticed = 0.0
        self.budget = limits.patience
        self.notify: Callable[[str], None] = lambda _line: None
        """Called with a line of text every few seconds while vCenter does not answer, and when it answers again."""

    def over(self) -> None:
        """Note that vCenter has answered."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
            noticed, self._noticed = self._noticed, 0.0
        self._back.set()
        if since is not None and noticed:
            self.notify(f"vCenter answers again after {time.monotonic() - since:.0f} s")

    def begun(self, at: float) -> float:
        """Note that a request begun at a time was not answered; return when the outage began."""
        with self._lock:
            if self._since is None:
                self._since = at
                self._back.clear()
            return self._since

    def pause(self, seconds: float, lost: RequestLost) -> None:
        """Wait `seconds`, or until another thread has had an answer."""
        now = time.monotonic()
        with self._lock:
            since = self._since
            due = since is not None and now - max(self._noticed, since) >= min(NOTICE, self._limits.longest_pause * 0.8)
            if due:
                self._noticed = now
        if due and since is not None:
            self.notify(f"still waiting for vCenter, {now - since:.0f} s of at most {self.budget:.0f} s ({lost})")
        self._back.wait(seconds)


class AnswerTrial:
    """One thing that is tried until it is answered: counts its own attempts, and when it began."""

    def __init__(self, outage: Outage, limits: WaitLimits) -> None:
        self._outage, self._limits = outage, limits
        self._first = self._began = time.monotonic()
        self._attempts = self._unreadable = 0

    def again(self, lost: RequestLost) -> bool:
        """Pause and return True when it is worth asking again; False when the time for that has run out."""
        since = self._outage.begun(self._began)
        self._unreadable = self._unreadable + 1 if lost.unreadable else 0
        if self._unreadable >= MOST_UNREADABLE or isinstance(lost.error, TooLarge | Untypable):
            return False
        longest = min(self._limits.longest_pause, self._limits.backoff * 2**self._attempts)
        pause = longest * random.uniform(0.7, 1.0)  # noqa: S311 - so that many do not ask at the same moment
        # answers to other threads are no reason to repeat this request for ever
        if time.monotonic() + pause - min(since, self._first) > self._outage.budget:
            return False
        self._attempts = min(self._attempts + 1, 16)
        self._outage.pause(pause, lost)
        self._began = time.monotonic()
        return True
