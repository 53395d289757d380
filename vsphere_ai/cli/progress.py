"""Progress of a run: a live view on a terminal, one line per event anywhere else, JSON lines on demand."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli import json_stream, streams

if TYPE_CHECKING:
    from vsphere_ai.app.events import RunStarted
    from vsphere_ai.app.events import StepEvent as Event

Emit = Callable[["Event"], None]


@contextmanager
def make_progress(started: RunStarted, form: str) -> Iterator[Emit]:
    """Yield a function that shows the events of a run, one at a time, in the way this output wants them."""
    if form == "json":
        from vsphere_ai.report.run_json import event_line, run_header

        json_stream.write("header", run_header(started.plan, started.run))
        yield lambda event: click.echo(event_line(event, _clock("%Y-%m-%dT%H:%M:%S%z")))
    elif streams.is_screen(sys.stdout):
        yield from _live(started)
    else:
        yield _lines(len(started.plan.steps))


def lose_output(error: OSError) -> None:
    """Write no more to an output that does not take it, and say so where it may still be read."""
    streams.drop_output()
    why = error.strerror or str(error)
    streams.say(f"the output cannot be written ({why}); finishing what is in flight, starting nothing new")


def _lines(total: int) -> Emit:
    from vsphere_ai.report.run_text import event_text

    def emit(event: Event) -> None:
        if event.what != "progress":
            click.echo(event_text(event, _clock("%H:%M:%S"), total))
            sys.stdout.flush()

    return emit


def _live(started: RunStarted) -> Iterator[Emit]:
    """Keep one line per step in flight at the bottom of the screen; what ended scrolls above it."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from vsphere_ai.model.text import duration, safe
    from vsphere_ai.report.run_text import event_text

    plan = started.plan
    flying: dict[str, tuple[Any, float, str]] = {}
    done = 0
    console = Console(highlight=False)

    def view() -> Text:
        now = time.monotonic()
        lines = [
            f"  {safe(p.step.target.name):<18} {safe(p.step.summary)}  {duration(now - since)}  {safe(text)}"
            for p, since, text in list(flying.values())
        ]
        footer = f"{done} of {len(plan.steps)} steps done · Ctrl-C finishes what is in flight and stops"
        return Text("\n".join([*lines, footer]), overflow="ellipsis", no_wrap=True)

    with Live(get_renderable=view, console=console, refresh_per_second=4, transient=True) as live:

        def emit(event: Event) -> None:
            nonlocal done
            name = event.planned.id if event.planned else ""
            if event.what == "start":
                flying[name] = (event.planned, time.monotonic(), "")
            elif event.what == "progress" and name in flying:
                planned, since, _ = flying[name]
                flying[name] = (planned, since, event.text)
            elif event.what != "waiting":
                flying.pop(name, None)
                done += event.what == "done"
                live.console.print(Text(event_text(event, _clock("%H:%M:%S"), len(plan.steps))))

        yield emit


def _clock(form: str) -> str:
    return time.strftime(form)
