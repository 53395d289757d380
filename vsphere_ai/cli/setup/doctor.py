"""`vsphere-ai doctor`: whether everything a run needs is there, and which privileges a playbook takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import Look, fail_on_option, show_findings
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import FILE, changes_nothing, variable_estate_options
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.model.finding import FailOn

HELP_ENTRY = "Set up", 50, "Report what is not ready for a run, and missing privileges."


@click.command("doctor")
@click.argument("playbook", required=False, type=FILE)
@variable_estate_options
@output_option()
@fail_on_option
@click.option(
    "--permissions",
    is_flag=True,
    help="Only: which privileges PLAYBOOK takes, and which of them the account lacks.",
)
@changes_nothing
@example("doctor")
@example("doctor --permissions playbooks/ai-ready-cluster.yml")
def command(form: str, playbook: Path | None, estate: EstateRequest, fail_on: FailOn, *, permissions: bool) -> int:
    """Look at libraries, files, names, certificate, login, clocks, SSH, drivers and DRS; changes nothing.

    Exits 0 when nothing or only warnings are reported, 1 when something is not known, 2 when something fails. With
    --permissions, exits 4 when the account lacks a privilege, and 1 when the plan has problems, so that the list may be
    incomplete.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.findings import DoctorDocument

    if permissions == (playbook is None):
        text = "--permissions is about a PLAYBOOK" if permissions else f"{playbook} is not looked at"
        raise UsageError(text, "give both, as in: vsphere-ai doctor --permissions PLAYBOOK")
    if playbook is not None:
        return _permissions(playbook, form, estate)
    return show_findings(app.doctor(estate, show_event), form, fail_on, DoctorDocument.of, Look(wraps=False))


def _permissions(playbook: Path, form: str, estate: EstateRequest) -> int:
    from vsphere_ai import app
    from vsphere_ai.documents.reference.privileges import PrivilegeDocument, PrivilegesDocument
    from vsphere_ai.report.doctor_text import needs_text
    from vsphere_ai.report.json_text import json_text

    result = app.privileges(app.PrivilegesRequest(playbook, estate), show_event)
    if form == "json":
        needs = tuple(PrivilegeDocument(**vars(need), granted=need not in result.missing) for need in result.needs)
        click.echo(json_text(PrivilegesDocument(account=result.account, complete=result.complete, privileges=needs)))
    else:
        click.echo(needs_text(sorted(result.needs), result.missing, result.account, complete=result.complete))
    if not result.complete:
        click.echo("The plan has problems, so this list may not be all of it: see vsphere-ai plan", err=True)
    return result.exit_code
