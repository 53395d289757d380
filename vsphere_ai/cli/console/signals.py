"""Ctrl-C, SIGTERM and SIGHUP: the first one stops in order, the second one leaves within seconds."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import click

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FAREWELL = 2.0
"""Seconds that leaving at once may take for last words, for giving back a lock and for logging out."""
LOGOUT = 0.5
"""Seconds of these that are kept for logging out: whatever else needs the session has to be done before."""
PATIENCE = 2.0
"""Seconds after which an operator reads that the first signal was understood."""
ONE_HANGUP = 1.0
"""Seconds within which SIGHUP that comes again is the same end of the same terminal."""
WAITING = "stopping; once more to leave at once"

_arrived: list[int] = []
_first: list[tuple[Callable[[int], None], str]] = []
_farewells: list[Callable[[], None]] = []
_last: list[Callable[[], None]] = []
_timers: list[threading.Timer] = []
_settled: list[int] = []
_settling = threading.Lock()
_leaving = threading.Event()
_hung_up = float("-inf")


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived while no plan was being applied."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def bare() -> None:
    """Let signals end this process at once, with their code: before a command has begun, and after its end."""
    for number in _ours():
        signal.signal(number, _end)


def _ours() -> list[signal.Signals]:
    """Leave SIGHUP alone where `nohup` has it ignored."""
    return [n for n in NUMBERS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


@contextmanager
def orderly() -> Iterator[None]:
    """Take over the signals for one command."""
    _arrived.clear()
    _settled.clear()
    _leaving.clear()
    before = {n: signal.signal(n, _handle) for n in _ours()}
    try:
        yield
    finally:
        _farewells.clear()
        _last.clear()
        while _timers:
            _timers.pop().cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def first(stop: Callable[[int], None], go_on: str = "vsphere-ai resume") -> Iterator[None]:
    """Let the first signal call `stop` instead of ending what goes on; the command `go_on` finishes it later."""
    _first.append((stop, go_on))
    try:
        yield
    finally:
        _first.remove((stop, go_on))


def add_farewell(say: Callable[[], None]) -> None:
    """Have this done even when the process leaves at once, until `drop_farewell`, if it takes at most `FAREWELL` s."""
    _farewells.append(say)


def drop_farewell(say: Callable[[], None]) -> None:
    """Do this no more when the process leaves at once."""
    _farewells.remove(say)


def remember(say: Callable[[], None]) -> None:
    """Have this done likewise, until the command has ended, after all others: this ends the session they need."""
    _last.append(say)


def claim(code: int) -> bool:
    """Settle the exit code, and who says the last words: false when it was settled before.

    A command that ends by itself, and an operator who does not wait for that, may come to it at the same moment.
    """
    with _settling:
        if _settled:
            return False
        _settled.append(code)
        return True


def leaving() -> int:
    """Return the exit code when the process leaves at once; 0 when it does not, or had ended by itself before."""
    return _settled[0] if _leaving.is_set() else 0


def stay() -> None:
    """Wait for the end of a process that leaves at once."""
    threading.Event().wait(2 * FAREWELL)


def leave(code: int) -> None:
    """End the process now: threads that wait for a vCenter would hold an ordinary exit back for minutes.

    The farewells run side by side in threads of their own: any of them may hang, on a lock or on a full pipe.
    """
    if claim(code):
        _leaving.set()
    else:  # the command has come to its end: let it say so
        time.sleep(FAREWELL / 2)
    deadline = time.monotonic() + FAREWELL
    _side_by_side([*_farewells, _words], deadline - LOGOUT)
    _side_by_side(_last, deadline)
    os._exit(_settled[0])


def _side_by_side(farewells: Iterable[Callable[[], None]], deadline: float) -> None:
    threads = [threading.Thread(target=_quietly, args=(say,), daemon=True) for say in farewells]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def stop() -> None:
    """Stop in order for a reason of our own; the operator's next signal is still the first."""
    if _first:
        _first[-1][0](signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


def _handle(number: int, frame: FrameType | None) -> None:
    global _hung_up
    if number == signal.SIGHUP:  # a terminal that is closed sends it twice: by its shell, and by the kernel
        since, _hung_up = time.monotonic() - _hung_up, time.monotonic()
        if since < ONE_HANGUP and _arrived:
            return
    _arrived.append(number)
    if len(_arrived) > 1:
        if len(_arrived) == 2:  # not in here: what the signal interrupted may hold the locks that leaving needs
            threading.Thread(target=leave, args=(128 + number,), daemon=True).start()
        return
    if _first:
        _first[-1][0](number)
        return
    waiting = threading.Timer(PATIENCE, _still_here)
    waiting.daemon = True
    _timers.append(waiting)
    waiting.start()
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


def _still_here() -> None:
    click.echo(WAITING, err=True)


def _words() -> None:
    if leaving():
        what = "left at once; if something was being changed, finish it with"
        click.echo(f"{what}: {_first[-1][1] if _first else 'vsphere-ai resume'}", err=True)


def _quietly(say: Callable[[], None]) -> None:
    with suppress(Exception):
        say()
