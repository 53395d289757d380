"""`vsphere-ai runs`: what was run here, and how it ended; runs are closed, and old journals removed."""

from __future__ import annotations

import click

from vsphere_ai.cli.options import format_option
from vsphere_ai.cli.runs_end import close, prune

MOST = 3
"""Journals that cannot be read are told of one by one up to here."""


@click.group("runs", invoke_without_command=True)
@format_option("text", "json")
@click.pass_context
def command(context: click.Context, form: str) -> int:
    """List the runs on this machine, and how each ended. Asks no vCenter. `show RUN` tells more of one."""
    return _list(form) if context.invoked_subcommand is None else 0


def _list(form: str) -> int:
    from vsphere_ai.model.text import safe
    from vsphere_ai.planning.document import SCHEMA_VERSION, dumps
    from vsphere_ai.report.run_record import summary
    from vsphere_ai.runs import history, journal

    among = history.look()
    documents = [summary(each, among) for each in journal.every()]
    troubles = journal.unreadable()
    if form == "json":
        unreadable = [t.message for t in troubles]
        click.echo(dumps({"schema_version": SCHEMA_VERSION, "runs": documents, "unreadable": unreadable}))
        return 0
    for each in documents:
        pending = f"  {len(each['pending'])} pending" if each["pending"] else ""
        line = f"{each['run']}  {each['state']:<11} {each['vcenter']}  {each['what']}  ({each['user']}){pending}"
        click.echo(safe(line))
    for trouble in troubles[:MOST]:
        click.echo(f"{trouble.message}\n  {trouble.remedy}", err=True)
    if len(troubles) > MOST:
        click.echo(f"... and {len(troubles) - MOST} more of this kind", err=True)
    if not documents and not troubles:
        click.echo("nothing was run here yet")
    return 0


command.add_command(close)
command.add_command(prune)
