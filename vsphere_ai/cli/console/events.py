"""Events of `app` on the screen: remarks and signs of life as lines, the present activity as a status line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import signals, streams
from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.app.events import Event


def show_event(event: Event) -> None:
    """Write an event to standard error; sessions and locks are given back also when the process leaves at once."""
    from vsphere_ai.app import events

    match event:
        case events.Remark():
            streams.note(safe(event.text), event.rule)
        case events.Waiting():
            streams.note(safe(event.text))
        case events.OutputLine():
            click.echo(event.text)
        case events.Status():
            streams.status(event.text)
        case events.SessionOpened():
            signals.remember(event.close)
        case events.LockTaken():
            signals.add_farewell(event.release)
        case events.LockReleased():
            signals.drop_farewell(event.release)
        case events.LockLost():
            signals.stop()
