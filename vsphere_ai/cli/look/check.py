"""`vsphere-ai check`: the compatibility rules, with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import streams
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.options import FILE, format_option, full_option, playbook_options, width

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest

HELP_ENTRY = "Look, and compare", 30, "Check hosts and VMs against the compatibility rules."


@click.command("check")
@click.argument("playbook", required=False, type=FILE)
@playbook_options
@format_option()
@click.option("--failures", is_flag=True, help="Leave out what passed, in JSON as well.")
@click.option("-v", "--verbose", is_flag=True, help="Show what passed, too.")
@click.option("-q", "--quiet", is_flag=True, help="Show how many verdicts there are of each kind, and nothing else.")
@full_option
def command(playbook: Path | None, form: str, estate: EstateRequest, **flags: bool) -> int:
    """Check hosts and VMs, or only what PLAYBOOK is about; exits 1 when a rule fails.

    A verdict is pass, warn, fail, or unknown when the evidence cannot be read; unknown is never pass.
    What passed is counted; -v shows it.
    """
    from vsphere_ai import app
    from vsphere_ai.report.findings_text import counts_text, findings_document, findings_text
    from vsphere_ai.report.json_text import json_text

    streams.be_quiet(quiet=flags["quiet"])
    result = app.check(app.CheckRequest(playbook, estate), show_event)
    if form == "json":
        found = findings_document(result.findings, passes=not flags["failures"])
        click.echo(json_text(vcenter=result.about, findings=found))
    elif flags["quiet"]:
        click.echo(counts_text(result.findings))
    else:
        vcenter = f"vCenter {result.about.name} {result.about.version}"
        passes = flags["verbose"] and not flags["failures"]
        click.echo(findings_text(result.findings, vcenter, passes=passes, full=flags["full"], width=width()))
    return result.exit_code
