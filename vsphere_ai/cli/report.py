"""`vsphere-ai report`: a plan, a run or a certificate for people and for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from vsphere_ai.cli.options import FILE, format_option


@click.command("report")
@click.argument("what", metavar="RUN|PLAN.json|CERTIFICATE.json")
@format_option("html", "markdown", "junit", "sarif")
@click.option("-o", "--output", type=FILE, help="File of the report; standard output without it.")
def command(what: str, form: str, output: Path | None) -> int:
    """Write a report of a run, of a plan saved with `plan -o`, or of a certificate of `accept`. Asks no vCenter.

    HTML is one file that loads nothing; Markdown fits into a comment of a merge request. Exits 0 whatever it reports.
    """
    from vsphere_ai import app
    from vsphere_ai.report.report_in import report_in

    text = report_in(app.report_source(what), form)
    if output:
        app.save_report(output, f"{text}\n")
    else:
        click.echo(text)
    return 0
