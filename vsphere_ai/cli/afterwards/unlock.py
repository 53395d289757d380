"""`vsphere-ai unlock`: who holds the locks of a vCenter, and removing one whose holder is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.options import agreed, vcenter_options, yes_option
from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.app.runs.lock_state import LockState

HELP_ENTRY = "After a run", 50, "Show who holds the locks of a vCenter, and remove one."


@click.command("unlock")
@vcenter_options
@output_option()
@yes_option
def command(estate: EstateRequest, form: str, yes: bool) -> int:
    """Show who holds the locks of a vCenter, and remove the one in vCenter after asking.

    The lock on this machine ends with its process, so there is nothing to remove. A lock in vCenter whose holder runs
    on this machine is not removed. What runs have out of service is named, and stays written in vCenter.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text

    def confirm() -> bool:
        question = "Remove the lock in vCenter? A run that still works is stopped by that. Type yes to confirm"
        answer = agreed(question, yes=yes, instead="give --yes once you know that the holder is gone")
        if not answer:
            click.echo("Nothing was changed.", err=True)
        return answer

    def shown(state: LockState) -> None:
        if form == "text":
            here, there = state.lines()
            click.echo(f"this machine  {safe(here)}\nvCenter       {safe(there)}")
            for line in state.out:
                click.echo(f"! {safe(line)}")

    request = app.UnlockRequest(confirm, estate)
    state, removed = app.unlock(request, shown, show_event)
    if form == "json":
        click.echo(json_text(**state.document(), removed=removed))
    elif removed:
        click.echo("The lock in vCenter was removed.")
    return 0
