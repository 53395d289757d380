"""Output of a command: no character the encoding lacks stops it, and no silence is longer than a few seconds."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO, cast

import click

from vsphere_ai.model.text import safe, tame
from vsphere_ai.security import child_environment, redaction
from vsphere_ai.security.asking import is_asking
from vsphere_ai.security.files import open_nowhere

SILENCE = 8.0
"""Seconds without a word after which a sign of life is given: an operator never waits longer than 10 s for one."""
_PLAIN = {"→": "->", "…": "...", "·": "-", "—": "-", "–": "-", "×": "x", "≥": ">=", "≤": "<=", "\ufffd": "?"}
READER_LEFT = 141
CLEAR = "\r\x1b[2K"

_area: Callable[[Callable[[], int]], int] | None = None
"""Writes above the live area of a terminal, while there is one."""


class _Drawing(threading.local):
    """Whether this thread writes the live area itself."""

    now = False


_drawing = _Drawing()

_doing = ""
_quiet = False
_resting = threading.Event()
_remarks: list[tuple[str, str]] = []


def doing(what: str) -> None:
    """Remember in words what the command is at, for a sign of life."""
    global _doing
    _doing = what


@contextmanager
def resting() -> Iterator[None]:
    """Give no sign of life: a command that goes on until it is stopped waits for its next reading."""
    _resting.set()
    try:
        yield
    finally:
        _resting.clear()


def is_screen(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that understands cursor moves."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "")


def be_quiet(*, quiet: bool = True) -> None:
    """Leave out what is neither a result nor an error, for this command."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Return whether only results and errors are to be written."""
    return _quiet


def say(text: str, rule: str = "") -> None:
    """Write a line to standard error. `rule` is the id of what it is about: such a line is kept as a remark."""
    if rule:
        _remarks.append((rule, text))
    click.echo(text, err=True)


def note(text: str, rule: str = "") -> None:
    """Say what is neither a result nor an error; where that is not wanted, it is only kept as a remark."""
    if not _quiet:
        say(text, rule)
    elif rule:
        _remarks.append((rule, text))


def fitted(text: str, indent: str) -> str:
    """Return a line as lines that fit the terminal, the later ones indented; whole where it is read by a program."""
    if not is_screen(sys.stderr):
        return text
    from textwrap import wrap

    columns = max(40, shutil.get_terminal_size((100, 24)).columns)
    lines = wrap(text, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) or text


def status(line: str) -> None:
    """Show what is being done, on a terminal only; clear that line when it is empty."""
    doing(line)
    if is_screen(sys.stderr) and _area is None and not _quiet:
        click.echo(f"{CLEAR}{line}", err=True, nl=False)


def above(area: Callable[[Callable[[], int]], int] | None) -> None:
    """Let everything that is written to a terminal go above a live area; None: there is none any more."""
    global _area
    _area = area


def draw(text: str) -> None:
    """Write to standard output what belongs to the live area itself."""
    _drawing.now = True
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    finally:
        _drawing.now = False


def remarks() -> tuple[tuple[str, str], ...]:
    """Return the remarks of this command so far: pairs of rule id and text."""
    return tuple(_remarks)


def drop_output() -> None:
    """Let everything that is still to be written to standard output go nowhere."""
    # ValueError: a stream without a file, in a test
    with suppress(OSError, ValueError), open_nowhere() as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def flushed(code: int) -> int:
    """Write out what is left; return the exit code, which is another one when standard output does not take it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        return code or READER_LEFT
    except OSError as error:
        drop_output()
        if not code:
            say(f"error: the output cannot be written: {error.strerror or error}")
        return code or 8
    if code == READER_LEFT:
        drop_output()
    return code


@contextmanager
def guarded() -> Iterator[None]:
    """Send what is written to the standard streams through the redactor, and break long silences."""
    out, err = sys.stdout, sys.stderr
    written = (_Stream(out or _nothing()), _StatusLine(err or _nothing()))
    doing("")
    be_quiet(quiet=False)
    _remarks.clear()
    with redaction.fresh(), child_environment.fresh():
        sys.stdout, sys.stderr = (redaction.masked(cast(TextIO, stream), tame) for stream in written)
        over = threading.Event()
        pulse = threading.Thread(target=_pulse, args=(written, over), name="pulse", daemon=True)
        pulse.start()
        try:
            yield
        finally:
            over.set()
            pulse.join()
            sys.stdout, sys.stderr = out, err


def _nothing() -> TextIO:
    """Python has no stream at all for a file that was closed before it began."""
    return cast(TextIO, open_nowhere())


class _Stream:
    """A text stream that knows when something was last written to it, and spells what its encoding lacks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.last = time.monotonic()

    def write(self, text: str) -> int:
        self.last = time.monotonic()
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = _spelt(text, encoding)
        if _area is not None and not _drawing.now and is_screen(self._stream):
            return _area(lambda: self._stream.write(text))
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class _StatusLine(_Stream):
    """Standard error: a failure to write there stops nothing."""

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def _spelt(text: str, encoding: str) -> str:
    """Write what an encoding lacks with signs it has; in JSON as escapes, so that its values stay what they are."""
    document = text.startswith("{")
    return "".join(c if _has(encoding, c) else _escape(c, document=document) for c in text)


def _has(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _escape(character: str, *, document: bool) -> str:
    return json.dumps(character)[1:-1] if document else _PLAIN.get(character, "?")


def _pulse(streams: Sequence[_Stream], over: threading.Event) -> None:
    began = time.monotonic()
    while not over.wait(SILENCE / 16):
        last = max(began, *(s.last for s in streams))
        if is_asking() or _quiet or _resting.is_set():
            began = time.monotonic()
        elif time.monotonic() - last > SILENCE * 15 / 16:
            _sign_of_life(time.monotonic() - began)


def _sign_of_life(seconds: float) -> None:
    what = f": {safe(_doing)}" if _doing else ""
    sys.stderr.write(f"{CLEAR if is_screen(sys.stderr) else ''}still working, {seconds:.0f} s{what}\n")
    sys.stderr.flush()
