"""`vsphere-ai show`: the live state as a playbook, for which plan is empty; or what a run was and did."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.events import show_event
from vsphere_ai.cli.options import estate_options, format_option
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest


@click.command("show")
@click.argument("what", metavar="[PATTERN|RUN]", required=False, default="")
@estate_options
@format_option()
def command(what: str, form: str, estate: EstateRequest) -> int:
    """Write what hosts and VMs are like now as a playbook; PATTERN narrows it to some of them.

    Planning the result finds nothing to do. What cannot be read is left out, with a comment saying why.

    With the name of a RUN, or its beginning: who ran what and when, what was approved, how each step ended, and what
    is still pending. No vCenter is asked for that.
    """
    from vsphere_ai import app
    from vsphere_ai.report.playbook_text import playbook_text

    if what and app.is_recorded(what):
        return _show_run(what, form)
    if form == "json":
        raise UsageError("--format json is for a run", "the live state is written as a playbook, which is YAML")
    result = app.show(app.ShowRequest(replace(estate, limit=what or estate.limit)), show_event)
    click.echo(playbook_text(result.estate, result.states, result.remarks), nl=False)
    return 0


def _show_run(name: str, form: str) -> int:
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.run_record import record_text, run_document

    record = app.open_record(name)
    click.echo(json_text(**run_document(record)) if form == "json" else record_text(record))
    return 0
