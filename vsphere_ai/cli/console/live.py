"""Live area: lines at the bottom of a terminal that are drawn anew several times a second; other output scrolls above.

Every line of it is one line of the terminal. Whatever else is written to the standard streams goes above it.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Sequence

from vsphere_ai.cli.console import streams
from vsphere_ai.model.text import columns

PERIOD = 0.25
"""Seconds between two drawings."""
_NO_WRAP, _WRAP, _ERASE = "\x1b[?7l", "\x1b[?7h", "\r\x1b[J"

View = Callable[[int, int], Sequence[str]]
"""Lines of the live area, for the columns and lines of a terminal."""


class LiveArea:
    """Draws a view until it is closed. An output that is lost ends it, and `lost` is what the system said."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.lock = threading.RLock()
        """Held while the view is asked for its lines."""
        self._drawn: list[int] = []  # columns of each line on the screen
        self._over = threading.Event()
        self.lost: OSError | None = None
        self._thread = threading.Thread(target=self._draw_on, name="live", daemon=True)

    def __enter__(self) -> LiveArea:
        streams.above(self._above)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        streams.above(None)
        with self.lock:
            self._write(self._erased())
        self._thread.join()

    def print(self, lines: Sequence[str]) -> None:
        """Write lines above the area."""
        if self.lost is not None:
            raise self.lost
        if lines:
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            sys.stdout.flush()

    def _draw_on(self) -> None:
        while not self._over.wait(PERIOD):
            with self.lock:
                if not self._over.is_set():
                    self._draw()

    def _draw(self) -> None:
        size = shutil.get_terminal_size((100, 24))
        lines = self._view(size.columns, size.lines)[: max(1, size.lines - 1)]
        text = self._erased() + _NO_WRAP + "\r\n".join(lines) + "\r" + _WRAP
        self._drawn = [columns(line) for line in lines]
        self._write(text)

    def _erased(self) -> str:
        """Return what removes the area: a terminal that became narrower has wrapped its lines."""
        width = max(1, shutil.get_terminal_size((100, 24)).columns)
        up = sum(max(1, -(-each // width)) for each in self._drawn[:-1])
        erase = (f"\x1b[{up}A" if up else "") + _ERASE if self._drawn else ""
        self._drawn = []
        return erase

    def _above(self, write: Callable[[], int]) -> int:
        """Write something else above the area; it is drawn again with the next drawing."""
        with self.lock:
            erase = self._erased()
            if erase:
                self._write(erase)
            return write()

    def _write(self, text: str) -> None:
        try:
            streams.draw(text)
        except OSError as error:  # a closed terminal
            self.lost = error
            self._over.set()
