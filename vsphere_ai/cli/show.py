"""`vsphere-ai show`: the live state as a playbook, for which plan is empty; or what a run was and did."""

from __future__ import annotations

from typing import Any

import click

from vsphere_ai.cli.options import estate_options, format_option, open_session, pause_status
from vsphere_ai.errors import UsageError


@click.command("show")
@click.argument("what", metavar="[PATTERN|RUN]", required=False, default="")
@estate_options
@format_option("text", "json")
def command(what: str, form: str, **shared: Any) -> int:
    """Write what hosts and VMs are like now as a playbook; PATTERN narrows it to some of them.

    Planning the result finds nothing to do. What cannot be read is left out, with a comment saying why.

    With the name of a RUN, or its beginning: who ran what and when, what was approved, how each step ended, and what
    is still owed. No vCenter is asked for that.
    """
    from vsphere_ai.runs import journal

    if what and journal.is_named(what):
        return _show_run(what, form)
    if form == "json":
        raise UsageError("--format json is for a run", "the live state is written as a playbook, which is YAML")
    from vsphere_ai.report.playbook_text import playbook_text

    shared["limit"] = what or shared["limit"]
    with open_session(shared) as session:
        text = playbook_text(*session.show())
    pause_status()
    click.echo(text, nl=False)
    return 0


def _show_run(name: str, form: str) -> int:
    from vsphere_ai.planning.document import dumps
    from vsphere_ai.report.run_record import record_text, run_document
    from vsphere_ai.runs import journal

    document = run_document(journal.open_run(name))
    click.echo(dumps(document) if form == "json" else record_text(document))
    return 0
