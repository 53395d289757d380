"""Options of notifications, and what is sent at the end of a run and when drift changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.options import gathering

if TYPE_CHECKING:
    from vsphere_ai.app import DriftSeen, Event, NotifyRequest, RunResult
    from vsphere_ai.app.watching.notification import Notifier


def _request() -> type[NotifyRequest]:
    from vsphere_ai.app import NotifyRequest

    return NotifyRequest


notify_options = gathering(
    "notify",
    _request,
    click.option(
        "--notify-command",
        default="",
        metavar="COMMAND",
        envvar="VSPHERE_AI_NOTIFY_COMMAND",
        help="Start this program at the end, with a JSON document on its standard input; no shell.",
    ),
    click.option(
        "--notify-webhook",
        default="",
        metavar="URL",
        envvar="VSPHERE_AI_NOTIFY_WEBHOOK",
        help="Send the document to this https URL; env:NAME or file:PATH where the URL is secret.",
    ),
    click.option(
        "--notify-secret",
        default="",
        metavar="REFERENCE",
        envvar="VSPHERE_AI_NOTIFY_SECRET",
        help="Sign what the webhook gets with this secret: env:NAME, file:PATH, cmd:PROGRAM.",
    ),
)
"""Add the options of notifications; a command gets them as `notify`."""


class Notifications:
    """What is sent of one command: to whom its options say, and for what they leave open, the inventory of a session.

    Pass it every event. What cannot be used, such as a wrong URL, is an error when a session is opened: before a login.
    """

    def __init__(self, options: NotifyRequest) -> None:
        self._options = options
        self._used: NotifyRequest | None = None
        self._notifier: Notifier | None = None

    def see(self, event: Event) -> None:
        """Take from an event of an opened session who is notified."""
        from vsphere_ai import app
        from vsphere_ai.app import events

        if isinstance(event, events.SessionOpened):
            wanted = self._options.over(event.notify)
            if wanted != self._used:  # secrets are fetched, and may be asked for
                self._notifier, self._used = app.Notifier(wanted, show_event), wanted

    def of_run(self, result: RunResult) -> None:
        """Send how a run ended."""
        from vsphere_ai import app
        from vsphere_ai.report.plans.notification import run_notification

        to = self._notifier
        if to is not None and to.is_used and result.run is not None:
            to.send(run_notification(app.open_record(result.record), result.run, result.exit_code, now()))

    def of_drift(self, seen: DriftSeen, playbook: str) -> None:
        """Send how the drift of an environment changed; the first reading only where something differs."""
        from vsphere_ai.report.plans.notification import drift_notification

        to = self._notifier
        if to is not None and to.is_used and (seen.appeared or seen.gone):
            to.send(drift_notification(seen.appeared, seen.gone, seen.result.plan, playbook, now()))


def now() -> str:
    """Return the time, with its offset from UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
