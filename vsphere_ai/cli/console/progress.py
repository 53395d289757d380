"""Progress of a run: a live view on a terminal, few lines anywhere else, JSON lines on demand."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import json_stream, streams

if TYPE_CHECKING:
    from vsphere_ai.app.events import RunStarted
    from vsphere_ai.app.events import StepEvent as Event

Emit = Callable[["Event"], None]


@contextmanager
def make_progress(started: RunStarted, form: str, *, full: bool) -> Iterator[Emit]:
    """Yield a function that shows the events of a run, one at a time; with `full` each in a line of its own."""
    if form == "json":
        from vsphere_ai.report.plans.run_json import event_line, run_header

        json_stream.write("header", run_header(started.plan, started.world, started.run))
        yield lambda event: click.echo(event_line(event, time.strftime("%Y-%m-%dT%H:%M:%S%z")))
    elif streams.is_quiet():
        yield lambda event: None
    elif streams.is_screen(sys.stdout):
        yield from _live(started, full=full)
    elif full:
        yield _each(len(started.plan.steps))
    else:
        yield from _folded(started)


def lose_output(error: OSError) -> None:
    """Write no more to an output that does not take it, and say so where it may still be read."""
    streams.drop_output()
    why = error.strerror or str(error)
    streams.say(f"the output cannot be written ({why}); finishing what is in flight, starting nothing new")


def _each(total: int) -> Emit:
    from vsphere_ai.report.plans.run_text import event_text

    def emit(event: Event) -> None:
        if event.what != "progress":
            _print([event_text(event, total)])

    return emit


def _folded(started: RunStarted) -> Iterator[Emit]:
    from vsphere_ai.report.plans.run_log import RunLog

    log = RunLog(started.plan, started.times)
    yield lambda event: _print(log.lines(event, time.monotonic()))
    _print(log.close(time.monotonic()))


def _print(lines: Iterable[str]) -> None:
    for line in _timed(lines):
        click.echo(line)
        sys.stdout.flush()


def _timed(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines behind the time of day; on a terminal they fit its width."""
    from vsphere_ai.cli.console.options import width
    from vsphere_ai.report.folding import wrapped

    for line in lines:
        line = f"{time.strftime('%H:%M:%S')} {line}"
        yield from wrapped([(line, 9)], width()) if sys.stdout.isatty() else [line]


def _live(started: RunStarted, *, full: bool) -> Iterator[Emit]:
    """Keep a table of what is under way at the bottom of the screen; the log scrolls above it."""
    from vsphere_ai.cli.console.live import LiveArea
    from vsphere_ai.report.plans.live_text import LiveText
    from vsphere_ai.report.plans.run_log import RunLog
    from vsphere_ai.report.plans.run_text import event_text

    text, log = LiveText(started.plan, started.run, started.times), RunLog(started.plan, started.times, heartbeat=False)
    total = len(started.plan.steps)
    with LiveArea(lambda width, height: text.lines(width, height, time.monotonic())) as area:

        def emit(event: Event) -> None:
            now = time.monotonic()
            with area.lock:
                text.see(event, now)
                each = full and event.what != "progress"
                area.print([*_timed([event_text(event, total)] if each else () if full else log.lines(event, now))])

        yield emit
        area.print([*_timed(log.close(time.monotonic()))])
