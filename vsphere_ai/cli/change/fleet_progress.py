"""Progress of a fleet: a row per vCenter at the bottom of a terminal, and the folded log of each run above it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.model.names.name_ranges import quoted
from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.app import FleetRun, FleetStop, ShardOutcome
    from vsphere_ai.app.events import Emit, Event, StepEvent
    from vsphere_ai.cli.console.live import LiveArea
    from vsphere_ai.report.fleets.fleet_live import StartedRun
    from vsphere_ai.report.plans.run_log import RunLog

_writing = threading.RLock()


def listener(name: str) -> Emit:
    """Return what shows the remarks of one vCenter, behind its name."""
    return lambda event: show(name, event)


def show(name: str, event: Event) -> None:
    """Write the remarks of one vCenter behind its name; sessions and locks are given back as in any command."""
    from vsphere_ai.app import events

    with _writing:
        match event:
            case events.Remark():
                streams.note(safe(f"{quoted(name)}: {event.text}"), event.rule)
            case events.Status():
                streams.status(f"{name}: {event.text}" if event.text else "")
            case events.LockLost():
                pass  # the run of this vCenter stops; the others go on
            case events.SessionOpened() | events.LockTaken() | events.LockReleased():
                show_event(event)


class FleetProgress:
    """Shows the events of all shards of a fleet, from any thread, until it is closed."""

    def __init__(self, run: FleetRun, stop: FleetStop, *, quiet: bool, full: bool = False) -> None:
        from vsphere_ai.report.fleets.fleet_live import FleetLive

        self._fleet, self._quiet, self._full = stop, quiet, full
        self._totals = {s.vcenter: _size(s.plan.get("steps")) for s in run.shards}
        self._view = FleetLive(run.fleet, self._totals)
        self._logs: dict[str, RunLog] = {}
        self._area: LiveArea | None = None
        self._open = ExitStack()

    def __enter__(self) -> FleetProgress:
        from vsphere_ai.cli.console.live import LiveArea

        if not self._quiet and streams.is_screen(sys.stdout):
            self._area = self._open.enter_context(LiveArea(self._lines))
        return self

    def __exit__(self, *_: object) -> None:
        with _writing:
            for name, log in self._logs.items():
                self._print(name, log.close(time.monotonic()))
        self._open.close()

    def __call__(self, vcenter: str, event: object) -> None:
        """Show an event, if it is one to be seen."""
        from vsphere_ai.app import ShardOutcome, events
        from vsphere_ai.fleet.wire import RunSeen
        from vsphere_ai.report.fleets.fleet_live import StartedRun

        with _writing:
            match event:
                case events.RunStarted() | RunSeen():
                    self._begin(vcenter, event.run, StartedRun(event.plan.steps, event.times))
                case events.StepEvent():
                    self._step(vcenter, event)
                case events.Status():
                    self._view.plan(vcenter, event.text)
                    streams.doing(f"{vcenter}: {event.text}" if event.text else "")
                case ShardOutcome():
                    self._end(vcenter, event)
                case _:
                    show(vcenter, event)  # type: ignore[arg-type]

    def _begin(self, vcenter: str, run: str, started: StartedRun) -> None:
        from vsphere_ai.report.plans.run_log import RunLog

        self._view.begin(vcenter, started)
        self._totals[vcenter] = len(started.steps)
        self._logs[vcenter] = RunLog(started, started.times, heartbeat=self._area is None)
        self._print(vcenter, [f"run {run}"])

    def _step(self, vcenter: str, event: StepEvent) -> None:
        from vsphere_ai.report.plans.run_text import event_text

        now, log = time.monotonic(), self._logs.get(vcenter)
        self._view.see(vcenter, event, now)
        if log is not None and not self._full:
            self._print(vcenter, log.lines(event, now))
        elif event.what not in (("progress",) if self._full else ("progress", "start")):
            self._print(vcenter, [event_text(event, self._totals[vcenter])])

    def _end(self, vcenter: str, outcome: ShardOutcome) -> None:
        log = self._logs.pop(vcenter, None)
        if log is not None:
            self._print(vcenter, log.close(time.monotonic()))
        self._view.end(vcenter, outcome.state, outcome.message)
        why = f": {outcome.message}" if outcome.message else ""
        self._print(vcenter, [f"{outcome.state}, {outcome.changed} changed, {outcome.verified} read back{why}"])

    def _lines(self, width: int, height: int) -> list[str]:
        return self._view.lines(width, height, time.monotonic())

    def _print(self, vcenter: str, lines: Iterable[str]) -> None:
        """Write lines; an output that is lost stops the runs, and is no reason to leave hosts as they are."""
        from vsphere_ai.cli.console.options import width
        from vsphere_ai.cli.console.progress import lose_output
        from vsphere_ai.report.folding import wrapped

        found = [safe(f"{time.strftime('%H:%M:%S')} {quoted(vcenter)}  {line}") for line in lines]
        if self._quiet or not found:
            return
        try:
            shown = [*wrapped([(line, 9) for line in found], width())] if sys.stdout.isatty() else found
            if self._area is not None:
                self._area.print(shown)
            else:
                click.echo("\n".join(shown))
            sys.stdout.flush()
        except OSError as error:
            self._quiet = True
            lose_output(error)
            self._fleet(signal.SIGPIPE)


def _size(steps: object) -> int:
    return len(steps) if isinstance(steps, list | tuple) else 0
