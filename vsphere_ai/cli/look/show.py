"""`vsphere-ai show`: the live state as a playbook, for which plan is empty."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, estate_options, kinds_option, to_option
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest

HELP_ENTRY = "Look, and compare", 10, "Write the live state as a playbook."


@click.command("show")
@click.argument("what", metavar="[PATTERN]", required=False, default="")
@estate_options
@kinds_option("kinds", "Only these resource types.")
@to_option("Write the playbook to FILE, which must not be there yet.")
@output_option("yaml", "json", names="objects.name")
@changes_nothing
@example("show train-01")
@example("show --limit 'gpu=A100' --kind mig,graphics")
def command(what: str, kinds: tuple[str, ...], to: Path | None, form: str, estate: EstateRequest) -> int:
    """Write what hosts and VMs are like now as a playbook; PATTERN narrows it to some of them.

    Targets that have the same settings are one play, with their names as ranges. Planning the result finds nothing to
    do. What cannot be read is left out, with a comment saying why.

    YAML has the comments; JSON has the same plays under `playbook`, and the names of the objects. Exits 0.
    """
    from vsphere_ai import app
    from vsphere_ai.app.project.schemas import schema_near
    from vsphere_ai.documents.state import ShownObject, StateDocument
    from vsphere_ai.model.bounded import yaml_value
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.playbooks.playbook_text import MODELINE, playbook_text

    if to and form != "yaml":
        raise UsageError(f"--to writes a playbook, and --output is {form}", "leave one of them out")
    if to:
        app.require_absent([to])
    result = app.show(app.ShowRequest(replace(estate, limit=what or estate.limit), kinds), show_event)
    near = schema_near("playbook", to.parent if to else Path())
    text = f"{MODELINE.format(near)}\n" if near else ""
    text += playbook_text(result.estate, result.plays, result.remarks, result.groups)
    if form == "json":
        objects = tuple(ShownObject(kind=target.kind, name=target.name) for target in result.states)
        plays: Any = yaml_value(text)
        document = StateDocument(vcenter=result.estate.about, objects=objects, playbook=plays)
        click.echo(json_text(document))
        return 0
    if to:
        app.write_new({to: text})
        click.echo(f"{to} is written.")
    else:
        click.echo(text, nl=False)
    return 0
