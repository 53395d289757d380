"""`vsphere-ai verify`: whether the environment still is as a playbook says, once or again and again."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.notifying import Notifications, notify_options, now
from vsphere_ai.cli.console.options import (
    FILE,
    changes_nothing,
    gathering,
    interval_option,
    playbook_options,
    quiet_option,
)
from vsphere_ai.model.text import duration, safe

if TYPE_CHECKING:
    from vsphere_ai.app import Event, NotifyRequest, WatchRequest
    from vsphere_ai.app.watching.watch_playbook import Seen

HELP_ENTRY = "Look, and compare", 20, "Compare hosts and VMs with a playbook; exits 2 on differences."
"""Seconds between two readings, at least: after a change a reading costs vCenter as much as a plan does."""


def _request() -> type[WatchRequest]:
    from vsphere_ai.app import WatchRequest

    return WatchRequest


@click.command("verify")
@playbook_options
@gathering(
    "request",
    _request,
    click.argument("playbook", type=FILE),
    interval_option("With --watch. "),
)
@notify_options
@output_option()
@quiet_option
@click.option("--watch", is_flag=True, help="Go on, and print what changes in the drift. Ctrl-C ends it.")
@changes_nothing
@example("verify playbooks/ai-ready-cluster.yml")
def command(form: str, request: WatchRequest, notify: NotifyRequest, *, watch: bool) -> int:
    """Compare the environment with PLAYBOOK; exits 0 when nothing differs, 2 on differences, 1 when not known.

    With --watch it goes on comparing in one session: drift that appears and drift that is gone is printed, with
    -o json as a line each. It waits where vCenter cannot be reached, and ends with Ctrl-C (exit code 130) or when
    vCenter refuses the login (4). Changes nothing.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.plans.drift_text import drift_counts, drift_text

    notifications, playbook = Notifications(notify), str(request.playbook)

    def emit(event: Event) -> None:
        notifications.see(event)
        show_event(event)

    if watch:
        for seen in app.watch(request, emit, _wait):
            _show(seen, form)
            if isinstance(seen, app.DriftSeen):
                notifications.of_drift(seen, playbook)
        return 0
    result = app.verify(app.VerifyRequest(request.playbook, request.estate), emit)
    if form == "json":
        click.echo(json_text(result.document()))
    else:
        click.echo(drift_counts(result.plan) if streams.is_quiet() else drift_text(result.plan))
    notifications.of_drift(app.DriftSeen.only(result), playbook)
    return result.exit_code


def _wait(seconds: float) -> None:
    streams.status("")
    with streams.resting():
        time.sleep(seconds)


def _show(seen: Seen, form: str) -> None:
    if form == "json":
        _show_json(seen)
    else:
        _show_text(seen)
    sys.stdout.flush()


def _show_text(seen: Seen) -> None:
    from vsphere_ai import app
    from vsphere_ai.report.plans.drift_text import change_text

    clock = time.strftime("%Y-%m-%d %H:%M:%S")
    match seen:
        case app.DriftSeen():
            click.echo(f"{clock}\n{change_text(seen.appeared, seen.gone, seen.result.plan)}")
        case app.NotRead():
            since = "" if seen.seconds is None else f", {duration(seen.seconds)} after the last reading"
            click.echo(f"{clock}\n  ? not read{since}: {safe(seen.error.message)}")
        case app.ReadAgain():
            click.echo(f"{clock}\n  = read again after {duration(seen.seconds)}")


def _show_json(seen: Seen) -> None:
    from vsphere_ai import app
    from vsphere_ai.documents.printed import SCHEMA_VERSION
    from vsphere_ai.documents.runs.drift_lines import DriftLine, NotReadLine, ReadAgainLine
    from vsphere_ai.report.json_text import json_line
    from vsphere_ai.report.plans.drift_text import drift_part

    line: DriftLine | NotReadLine | ReadAgainLine
    match seen:
        case app.DriftSeen():
            drift = vars(drift_part(seen.appeared, seen.gone, seen.result.plan))
            line = DriftLine(schema_version=SCHEMA_VERSION, type="drift", time=now(), first=seen.first, **drift)
        case app.NotRead():
            error, rule = seen.error.message, seen.error.rule
            line = NotReadLine(schema_version=SCHEMA_VERSION, type="not-read", time=now(), error=error, rule=rule)
        case app.ReadAgain():
            seconds = round(seen.seconds, 1)
            line = ReadAgainLine(schema_version=SCHEMA_VERSION, type="read-again", time=now(), seconds=seconds)
    click.echo(json_line(line))
