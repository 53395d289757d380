"""`vsphere-ai show`: the live state as a playbook, for which plan is empty; or what a run was and did."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.options import estate_options, full_option, to_option, width
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest

HELP_ENTRY = "Look, and compare", 10, "Write the live state as a playbook, or say what a run did."


def _kinds(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    done, comma, last = begun.rpartition(",")
    pages = (resources.files("vsphere_ai") / "docs" / "kinds").iterdir()  # quicker than to import the kinds
    known = sorted(page.name.removesuffix(".md") for page in pages)
    return [CompletionItem(f"{done}{comma}{name}") for name in known if name.startswith(last)]


@click.command("show")
@click.argument("what", metavar="[PATTERN|RUN]", required=False, default="")
@estate_options
@click.option("--kind", metavar="KIND[,KIND]", default="", help="Only these kinds of settings.", shell_complete=_kinds)
@to_option("Write the playbook to FILE, which must not be there yet.")
@output_option()
@full_option
def command(what: str, kind: str, to: Path | None, form: str, estate: EstateRequest, **flags: bool) -> int:
    """Write what hosts and VMs are like now as a playbook; PATTERN narrows it to some of them.

    Targets that have the same settings are one play, with their names as ranges. Planning the result finds nothing to
    do. What cannot be read is left out, with a comment saying why.

    With the name of a RUN, or its beginning: who ran what and when, what was approved, how each step ended, and what
    is still pending. Equal steps of several targets are one line; --full shows each. No vCenter is asked for that.
    """
    from vsphere_ai import app
    from vsphere_ai.app.project.schemas import schema_near
    from vsphere_ai.report.playbooks.playbook_text import MODELINE, playbook_text

    if what and app.is_recorded(what):
        if kind or to:
            raise UsageError("--kind and --to are for the live state, not for a run", "leave them out")
        return _show_run(what, form, full=flags["full"])
    if form == "json":
        raise UsageError("--output json is for a run", "the live state is written as a playbook, which is YAML")
    if to:
        app.require_absent([to])
    kinds = tuple(each.strip() for each in kind.split(",") if each.strip())
    result = app.show(app.ShowRequest(replace(estate, limit=what or estate.limit), kinds), show_event)
    near = schema_near("playbook", to.parent if to else Path())
    text = f"{MODELINE.format(near)}\n" if near else ""
    text += playbook_text(result.estate, result.plays, result.remarks, result.groups)
    if to:
        app.write_new({to: text})
        click.echo(f"{to} is written.")
    else:
        click.echo(text, nl=False)
    return 0


def _show_run(name: str, form: str, *, full: bool) -> int:
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.plans.run_record import record_text, run_document

    record = app.open_record(name)
    click.echo(json_text(**run_document(record)) if form == "json" else record_text(record, width(), full=full))
    return 0
