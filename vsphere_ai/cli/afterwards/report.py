"""`vsphere-ai report`: a plan, a run, a certificate or the JSON of a command, for people and for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.options import to_option

HELP_ENTRY = "After a run", 40, "Write a plan, a run or a certificate as HTML, Markdown and more."


@click.command("report")
@click.argument("what", metavar="RUN|FILE.json")
@output_option("html", "markdown", "junit", "sarif", "ctrf", "gitlab-terraform")
@to_option("File of the report; standard output without it.")
def command(what: str, form: str, to: Path | None) -> int:
    """Write a report of a run, or of a file. Asks no vCenter.

    The file is a plan of `plan --to`, a certificate of `accept`, or what `plan`, `check`, `capacity` or `rdma trace`
    printed with -o json. HTML is one file that loads nothing; Markdown fits into a comment of a merge request.
    Exits 0 whatever it reports.
    """
    from vsphere_ai import app
    from vsphere_ai.report.report_in import report_in, too_heavy

    text = report_in(app.report_source(what), form)
    if to:
        app.save_report(to, f"{text}\n")
    else:
        click.echo(text)
    warning = too_heavy(text) if form == "html" else ""
    if warning:
        click.echo(f"warning: {warning}", err=True)
    return 0
