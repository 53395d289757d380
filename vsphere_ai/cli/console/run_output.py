"""Output of apply, resume and rollback: the plan, the question, progress, and the summary, as text or JSON lines."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import json_stream, signals, streams
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.notifying import Notifications, notify_options
from vsphere_ai.cli.console.options import (
    agreed,
    destroyed,
    full_option,
    gathering,
    is_dry_run,
    quiet_option,
    rebooted,
    verbose_option,
    width,
)
from vsphere_ai.errors import Storage, most_serious
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.app import NotifyRequest
    from vsphere_ai.app.events import Event, RunStarted, StepEvent
    from vsphere_ai.app.events.results import Proposal, RunResult
    from vsphere_ai.cli.console.progress import Emit


@dataclass(frozen=True)
class ShownRun:
    """How a run is shown, and who is notified of its end."""

    form: str = "text"
    full: bool = False
    verbose: bool = False
    notify: NotifyRequest | None = None


def _shown() -> type[ShownRun]:
    return ShownRun


def run_output_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options of output and notifications; a command gets them as `shown`."""
    return notify_options(
        gathering("shown", _shown, output_option(), full_option, verbose_option, quiet_option)(function)
    )


class RunOutput:
    """Shows the events of a run, and stops it: on a signal, and when the output is not accepted any more."""

    def __init__(self, shown: ShownRun = ShownRun()) -> None:
        self._form, self._full, self._verbose = shown.form, shown.full, shown.full or shown.verbose
        self._notifications = Notifications(shown.notify) if shown.notify else None
        self._running = ExitStack()
        self._started: RunStarted | None = None
        self._show: Emit = lambda event: None
        self._last: dict[str, str] = {}
        self._lost: OSError | None = None
        self._writing = threading.RLock()  # a lost output is noticed while it is being used

    def __enter__(self) -> RunOutput:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def emit(self, event: Event) -> None:
        """Show an event."""
        from vsphere_ai.app import events

        if self._notifications is not None:
            self._notifications.see(event)
        match event:
            case events.StepEvent():
                self._step(event)
            case events.Begun():
                json_stream.expect(self._form)
            case events.PlanMade():
                self._plan(event.proposal)
            case events.PlanDeclined():
                click.echo("Nothing was changed.", err=True)
                self._nothing_done(event.proposal)
            case events.RunStarted():
                self._start(event)
            case events.RunEnded():
                if not signals.claim(self.exit_code(event.result)):
                    signals.stay()
                self._running.close()
            case events.RunRecorded():
                if self._notifications is not None:
                    self._notifications.of_run(event.result)
                self._summary(event.result)
            case _:
                show_event(event)

    def confirm(self, proposal: Proposal) -> bool:
        """Ask whether a plan is to be carried out; a number is asked for where VMs go, or several hosts reboot."""
        from vsphere_ai.report.folding import wrapped
        from vsphere_ai.report.plans.world_text import world_lines, world_words

        if is_dry_run():
            return False
        world = proposal.around.world
        if sys.stdin.isatty():
            click.echo("", err=self._form == "json")
            for line in wrapped(world_lines(world), width()):  # the header may have scrolled away
                click.echo(line, err=True)
        where = f" to {world_words(world)}"
        asked = [
            (f"Apply{where}? {things}. Type {number} to confirm", number, f"--{option} {number}")
            for number, things, option in (
                (proposal.destroys, destroyed(proposal.destroys), "destroy"),
                (proposal.reboots, rebooted(proposal.reboots), "reboot"),
            )
            if number
        ]
        if not asked:
            question = f"Apply{where}? Type yes to confirm"
            return agreed(_fitting(question), yes=False, instead="give --yes, or apply a saved plan")
        instead = " ".join(("give --yes", *(option for *_, option in asked)))
        return all(agreed(_fitting(q), yes=False, instead=instead, wanted=str(number)) for q, number, _ in asked)

    def exit_code(self, result: RunResult) -> int:
        """Return the exit code of the process: another one than the run's when the output could not be written."""
        if self._lost is not None and not isinstance(self._lost, BrokenPipeError):
            return most_serious((result.run.exit_code if result.run else 0, Storage.exit_code))
        return result.exit_code

    def _plan(self, proposal: Proposal) -> None:
        from vsphere_ai.cli.console.colour import colour
        from vsphere_ai.report.plans.plan_text import Beside, plan_text, result_lines

        plan, json = proposal.plan, self._form == "json"
        for item in plan.items if json else ():  # the text of the plan says it otherwise
            for text in item.stays:
                streams.say(safe(f"{item.target.name}: {item.kind} stays: {text}"), "rollback.stays")
        if not json or plan.problems or (plan.steps and not proposal.confirmed):  # no question before it was shown
            around, variables = proposal.around, proposal.variables
            beside = Beside(proposal.excluded, proposal.outputs, self._full, around.world, around.estimate, variables)
            if streams.is_quiet() and (plan.problems or proposal.confirmed):
                shown = "\n".join(result_lines(plan, width()))
            else:
                shown = plan_text(plan, proposal.digest, width(), beside)
            click.echo(colour(shown), err=json)
        if plan.problems:
            self._nothing_done(replace(proposal, open_runs=()))
        elif not plan.steps:
            for line in proposal.open_runs:
                streams.say(safe(f"! {line}"), "run.left-open")
            self._nothing_done(proposal)

    def _nothing_done(self, proposal: Proposal) -> None:
        """End a JSON stream that has no events: of a plan that was refused, was empty, or was declined."""
        from vsphere_ai.report.plans.run_json import nothing_done_line, run_header

        if self._form != "json":
            return
        json_stream.write("header", run_header(proposal.plan, proposal.around.world))
        line = nothing_done_line(proposal.plan, proposal.open_runs, proposal.exit_code, streams.remarks())
        json_stream.write("summary", line)

    def _start(self, started: RunStarted) -> None:
        from vsphere_ai.cli.console.progress import make_progress

        if self._form == "text" and not streams.is_quiet():
            click.echo(f"Run {started.run}", err=True)
        self._started, self._last = started, {}
        self._show = self._running.enter_context(make_progress(started, self._form, full=self._verbose))
        self._running.enter_context(signals.first(started.stop))
        signals.add_farewell(self._last_words)
        self._running.callback(signals.drop_farewell, self._last_words)

    def _step(self, event: StepEvent) -> None:
        """Show progress; a lost output stops the run, but is no reason to leave VMs powered off."""
        from vsphere_ai.cli.console.progress import lose_output

        if event.planned is not None and event.what != "progress":
            self._last[event.planned.id] = event.what
        try:
            with self._writing:
                if not signals.leaving():  # the last words have been said, or are about to be
                    self._show(event)
        except OSError as error:  # `| head`, a closed terminal, a full disk
            self._lost = error
            lose_output(error)
            if self._started is not None:
                self._started.stop(signal.SIGPIPE, report=False)

    def _last_words(self) -> None:
        """End a JSON stream as it has to end, though this process leaves before its steps have ended."""
        from vsphere_ai.report.plans.run_json import left_at_once_line

        code = signals.leaving()
        if self._form != "json" or self._started is None or not code:
            return
        number = self._started.stop.number or code - 128  # the first signal may still be dealt with
        line = left_at_once_line(self._started.plan, self._last, number, code, streams.remarks())
        with self._writing:
            json_stream.write("summary", line)

    def _summary(self, result: RunResult) -> None:
        from vsphere_ai.report.plans.run_json import summary_line
        from vsphere_ai.report.plans.run_text import run_text

        run = result.run
        if run is None:
            return
        if self._form == "json":
            code, left = self.exit_code(result), (*run.open, *result.open_runs)
            json_stream.write("summary", summary_line(replace(run, open=left), code, streams.remarks()))
            return
        columns = width() if sys.stdout.isatty() else 10_000
        click.echo(f"{'' if streams.is_quiet() else chr(10)}{run_text(run, columns, full=self._full)}")
        for line in result.open_runs:
            streams.say(safe(f"! {line}"), "run.left-open")
        if result.gone:
            gone = listed(t.name for t in result.gone)
            streams.say(safe(f"Left out, because it is gone from the inventory: {gone}"), "object.gone")
        if run.exit_code or run.open or run.signal:
            click.echo(f"Continue from what is there: vsphere-ai resume {result.record}", err=True)


def _fitting(question: str) -> str:
    """Return a question in lines that the terminal takes with the answer behind the last one."""
    from vsphere_ai.report.folding import wrapped

    return "\n".join(wrapped([(question, 2)], width() - len(": 10000")))
