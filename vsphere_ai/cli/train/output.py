"""`vsphere-ai output`: values of the VMs of a playbook, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import FILE, changes_nothing, variable_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest

HELP_ENTRY = "Train", 50, "Print values of the VMs of a playbook, for other programs."


@click.command("output")
@click.argument("playbook", type=FILE)
@click.argument("name", metavar="[NAME]", required=False, default="")
@variable_options
@output_option("text", "json", "env", "hostfile")
@changes_nothing
@example("output playbooks/training-set.yml", needs="outputs: in the playbook")
def command(playbook: Path, name: str, form: str, estate: EstateRequest) -> int:
    """Print the outputs of PLAYBOOK, or the one called NAME, as vCenter and the guests show them now.

    No file of an earlier run is read. Exits 1, with nothing but JSON on standard output, when a VM is missing, off or
    not ready, when its guest reports another address, or when the playbook says something else now. `env` are
    variables for a shell, `hostfile` is one line per VM for mpirun.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.outputs import OutputsDocument
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.plans import outputs_text as report

    result = app.output(app.OutputRequest(playbook, name, estate), show_event)
    click.echo(report.problems_text(result.outputs), err=True, nl=False)
    if form == "json":
        outputs = {each.name: each.document for each in result.outputs}
        click.echo(json_text(OutputsDocument(vcenter=result.about, playbook=result.playbook, outputs=outputs)))
    elif not result.exit_code:
        if form == "text":
            click.echo("\n".join(report.outputs_text(result.outputs)))
        else:
            click.echo(report.reasons_text(result.outputs), err=True, nl=False)
            write = report.env_text if form == "env" else report.hostfile_text
            click.echo(write(result.outputs), nl=False)
    return result.exit_code
