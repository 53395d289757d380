"""`vsphere-ai report`: a plan, a certificate or the JSON of a command, for people and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, to_option

if TYPE_CHECKING:
    from vsphere_ai.report.report_in import Source
    from vsphere_ai.runs.journal import Journal

HELP_ENTRY = "After a run", 40, "Write a plan or a certificate as HTML, Markdown and more."


@click.command("report")
@click.argument("file", metavar="FILE.json")
@output_option("html", "markdown", "junit", "sarif", "ctrf", "gitlab-terraform")
@to_option("File of the report; standard output without it.")
@changes_nothing
@example("report plan.json --to plan.html")
def command(file: str, form: str, to: Path | None) -> int:
    """Write a report of a saved or printed document. Asks no vCenter.

    The file is a plan of `plan --to`, a certificate of `accept`, or what `plan`, `check`, `capacity` or `rdma trace`
    printed with -o json. HTML is one file that loads nothing; Markdown fits into a comment of a merge request.
    Exits 0 whatever it reports. `run report RUN` is about a run.
    """
    from vsphere_ai import app

    write_report(app.report_source(file), form, to)
    return 0


def write_report(source: Source | Journal, form: str, to: Path | None) -> None:
    """Write a report of a plan, a run, a certificate or a printed document to a file, else to standard output."""
    from vsphere_ai import app
    from vsphere_ai.report.report_in import report_in, too_heavy

    text = report_in(source, form)
    if to:
        app.save_report(to, f"{text}\n")
    else:
        click.echo(text)
    warning = too_heavy(text) if form == "html" else ""
    if warning:
        click.echo(f"warning: {warning}", err=True)
