"""`vsphere-ai metrics`: metrics of the farm, read once, for a timer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import web_extra
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.options import FILE, to_option, variable_estate_options
from vsphere_ai.cli.look.serve import ssh_option
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest

HELP_ENTRY = "Look, and compare", 90, "Print metrics of the farm for Prometheus, read once."


@click.command("metrics")
@click.argument("playbooks", metavar="[PLAYBOOK]...", type=FILE, nargs=-1)
@variable_estate_options
@ssh_option
@to_option("File for the textfile collector of node_exporter.")
@click.option("--group", default="", metavar="NAME", help="Group that may read FILE, such as that of node_exporter.")
def command(playbooks: tuple[Path, ...], estate: EstateRequest, to: Path | None, group: str, *, ssh: bool) -> int:
    """Print metrics of the farm as Prometheus reads them, of the drift from PLAYBOOKs, and of the runs of this machine.

    Reads once; changes nothing. Where vCenter cannot be read, vsphere_ai_up is 0, and the exit code is that of the
    error.
    """
    from vsphere_ai import app

    if group and not to:
        raise UsageError("--group is for the file of --to", "give --to FILE, or leave it out")
    with web_extra.needed():
        from vsphere_ai.web.metrics import exposition, write_textfile
        from vsphere_ai.web.run_pages import Runs

    state = app.read_farm(app.FarmRequest(replace(estate, ask_hosts=ssh), playbooks), show_event)
    text = exposition(state, Runs().rows())
    if to:
        write_textfile(to, text, group)
    else:
        click.echo(text.decode(), nl=False)
    if state.error is not None:
        raise state.error
    return 0
