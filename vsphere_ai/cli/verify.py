"""`vsphere-ai verify`: whether the estate still is as a playbook says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.events import show_event
from vsphere_ai.cli.options import FILE, estate_options, format_option

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest


@click.command("verify")
@click.argument("playbook", type=FILE)
@estate_options
@format_option()
def command(playbook: Path, form: str, estate: EstateRequest) -> int:
    """Compare the estate with PLAYBOOK; exits 0 when it is as wanted, 2 when it drifted, 1 when that is not known.

    Changes nothing.
    """
    from vsphere_ai import app
    from vsphere_ai.report.drift_text import drift_text
    from vsphere_ai.report.json_text import json_text

    result = app.verify(app.VerifyRequest(playbook, estate), show_event)
    if form == "json":
        document = result.document()
        kept = {k: document[k] for k in ("vcenter", "playbook", "items", "problems")}
        click.echo(json_text(as_wanted=result.as_wanted, **kept))
    else:
        click.echo(drift_text(result.plan))
    return result.exit_code
