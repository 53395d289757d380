"""Progress of a lab's start: its process writes it into a file, and who waits for the lab reads it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vsphere_ai.errors import VsphereAiError

FILE = "starting"
SILENCE_SECONDS = 60.0
"""Without progress for so long, a start has failed: no stage writes less often, even with ten processes per core."""
WRITE_SECONDS = 0.2


class LabFailed(VsphereAiError):
    """The lab's process could not be started or does not answer."""

    title = "lab failed"


class StartTimeout(LabFailed):
    """The lab made no progress, or does not serve in the time that was allowed."""


class StartProgress:
    """The stages of a start in words, as its process passes through them; `write` takes each text."""

    def __init__(self, write: Callable[[str], object] = lambda text: None) -> None:
        self._write, self._next = write, 0.0
        self._what, self._done, self._total = "", 0, 0

    def stage(self, what: str, total: int = 0) -> None:
        """Begin a stage; with `total`, one that `step` counts."""
        self._what, self._done, self._total = what, 0, total
        self._write(self._text)

    def step(self) -> None:
        """Count one more object of the stage; written at most five times a second."""
        self._done += 1
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + WRITE_SECONDS
            self._write(self._text)

    @property
    def _text(self) -> str:
        return f"{self._what}, {self._done:,} of {self._total:,}" if self._total else self._what


@dataclass(frozen=True)
class Patience:
    """How long a start is waited for: while it makes progress, and at most `timeout` seconds where there is a limit.

    `report` is called with each new text of the progress.
    """

    timeout: float | None = None
    silence: float = SILENCE_SECONDS
    report: Callable[[str], object] = lambda text: None


class StartWait:
    """One wait for a start in a directory; it begins when this is made."""

    def __init__(self, directory: Path, patience: Patience) -> None:
        self._directory, self._patience = directory, patience
        self._began = self._changed = time.monotonic()
        self._text = ""

    def check(self, subject: str) -> None:
        """Look at the progress; raise StartTimeout where there was none for too long, or the time is up.

        `subject` begins the message, such as "the lab did not start".
        """
        now, text = time.monotonic(), read(self._directory)
        if text and text != self._text:
            self._text, self._changed = text, now
            self._patience.report(text)
        so_far = f"; it was at: {self._text}" if self._text else ""
        log = f"its log is {self._directory / 'lab.log'}"
        timeout, silence = self._patience.timeout, self._patience.silence
        if timeout is not None and now - self._began >= timeout:
            raise StartTimeout(f"{subject} within {timeout:g} s{so_far}", f"allow it more time (--timeout); {log}")
        if now - self._changed >= silence:
            raise StartTimeout(f"{subject}: no progress for {silence:g} s{so_far}", f"start it again; {log}")


def read(directory: Path) -> str:
    """Return the text of the progress of the start in a directory; empty where none is under way."""
    try:
        return (directory / FILE).read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):  # a text that is being written may be cut inside a character
        return ""
