"""Keep-alive of an idle session: vCenter and gateways end one without a request for minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class KeepAlive:
    """A thread that calls `ask` whenever nothing was asked for `seconds`, until it is stopped."""

    def __init__(self, ask: Callable[[], None], active: Callable[[], float], seconds: float) -> None:
        self._ask, self._active, self._seconds = ask, active, seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keep-alive", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask nothing any more; a question that is on its way is not waited for."""
        self._stopped.set()

    def _run(self) -> None:
        asked = time.monotonic()
        while not self._stopped.wait(max(0.01, max(self._active(), asked) + self._seconds - time.monotonic())):
            if time.monotonic() - self._active() >= self._seconds:
                asked = time.monotonic()
                self._ask()
