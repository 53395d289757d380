"""Events of `app` on standard error: remarks and signs of life as lines, the present activity as a status line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vsphere_ai.cli import streams
from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.app.events import Event


def show_event(event: Event) -> None:
    """Write an event to standard error."""
    from vsphere_ai.app.events import Remark, Status, Waiting
    from vsphere_ai.cli.options import status_line

    match event:
        case Remark():
            streams.say(safe(event.text), event.rule)
        case Waiting():
            streams.say(safe(event.text))
        case Status():
            status_line(event.text)
