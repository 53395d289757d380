"""`vsphere-ai capacity`: what runs on the GPUs, what still fits, and whether a playbook's VMs all find room."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import FILE, changes_nothing, full_option, variable_estate_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest

HELP_ENTRY = "Look, and compare", 50, "Show what fits on the GPUs, and whether a playbook's VMs all do."


@click.command("capacity")
@click.argument("playbook", required=False, type=FILE)
@variable_estate_options
@click.option(
    "--spare-hosts",
    type=click.IntRange(0, 4),
    help="All VMs must still fit after the loss of any so many hosts (default: the playbook's).",
)
@output_option(names="hosts.host")
@full_option
@changes_nothing
@example("capacity")
def command(playbook: Path | None, spare_hosts: int | None, form: str, estate: EstateRequest, *, full: bool) -> int:
    """Show per GPU what runs, which slices are free and what still fits; changes nothing.

    With PLAYBOOK, show whether its VMs all fit once its changes are made, where each goes, or what stands in the way.
    Exits 1 when they do not fit where they are registered, or when `plan` refuses PLAYBOOK.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.capacity import CapacityDocument
    from vsphere_ai.report.gpus.capacity_document import host_documents, verdict_document
    from vsphere_ai.report.gpus.capacity_text import capacity_text
    from vsphere_ai.report.json_text import json_text

    result = app.capacity(app.CapacityRequest(playbook, estate, spare_hosts), show_event)
    if form == "json":
        verdict: dict[str, Any] = {"verdict": verdict_document(result.verdict)} if result.verdict else {}
        document = CapacityDocument(vcenter=result.about, hosts=host_documents(result.hosts), **verdict)
        click.echo(json_text(document))
    else:
        click.echo(capacity_text(result.hosts, result.verdict, full=full))
    return result.exit_code
