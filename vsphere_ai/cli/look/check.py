"""`vsphere-ai check`: the compatibility rules, with evidence."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import Look, fail_on_option, show_findings
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import FILE, changes_nothing, full_option, playbook_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.model.finding import FailOn

HELP_ENTRY = "Look, and compare", 30, "Check hosts and VMs against the compatibility rules."


@click.command("check")
@click.argument("playbook", required=False, type=FILE)
@playbook_options
@output_option()
@click.option("--failures", is_flag=True, help="Leave out what passed, in JSON as well.")
@click.option("-v", "--verbose", is_flag=True, help="Show what passed, too, of each object by itself.")
@click.option("-q", "--quiet", is_flag=True, help="Show only how often each verdict was given.")
@full_option
@fail_on_option
@changes_nothing
@example("check --failures")
def command(playbook: Path | None, form: str, estate: EstateRequest, fail_on: FailOn, **flags: bool) -> int:
    """Check hosts and VMs, or only what PLAYBOOK is about.

    A verdict is pass, info, warn, unknown when the evidence cannot be read, or fail. What passed is counted; -v shows
    it. Exits 0 when nothing or only warnings are reported, 1 when something is not known, 2 when a rule fails.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.findings import CheckDocument
    from vsphere_ai.model.finding import exit_code
    from vsphere_ai.report.findings_text import counts_text

    streams.be_quiet(quiet=flags["quiet"])
    result = app.check(app.CheckRequest(playbook, estate), show_event)
    if flags["quiet"] and form == "text":
        click.echo(counts_text(result.findings))
        return exit_code(result.findings, fail_on)
    passes = (form == "json" or flags["verbose"]) and not flags["failures"]
    title = f"vCenter {result.about.name} {result.about.version}"
    document = partial(CheckDocument.of, vcenter=result.about)
    look = Look(title, passes, full=flags["full"] or flags["verbose"])
    return show_findings(result.findings, form, fail_on, document, look)
