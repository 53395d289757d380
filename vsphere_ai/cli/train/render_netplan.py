"""`vsphere-ai render netplan`: the network files that VMs carry for their guests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import changes_nothing, vcenter_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest


@click.command("netplan")
@click.argument("vms", metavar="VM...", nargs=-1, required=True)
@vcenter_options
@output_option(names="vms.vm")
@changes_nothing
@example("render netplan train-01", needs=TRAINING)
def command(vms: Sequence[str], form: str, estate: EstateRequest) -> int:
    """Print the network file that each VM carries for cloud-init, decoded and checked.

    It is what `guestinfo.metadata` holds now: a guest may have been given another one since it booted. VM is a name or
    a pattern as in a play. Exits 1 when a VM has no network file, or one that is wrong. Changes nothing.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.network.guest_text import networks_document, networks_text, remarks_text

    result = app.guest_networks(app.GuestNetworkRequest(vms, estate), show_event)
    if form == "json":
        click.echo(json_text(networks_document(result.estate, result.networks)))
    else:
        click.echo(networks_text(result.networks), nl=False)
        click.echo(remarks_text(result.networks), err=True, nl=False)
    return result.exit_code
