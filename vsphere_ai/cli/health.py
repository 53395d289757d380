"""`vsphere-ai health`: whether VMs are fit for training, as their guests and their hosts show it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.events import show_event
from vsphere_ai.cli.options import FILE, estate_options, format_option

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest


@click.command("health")
@click.argument("what", metavar="PLAYBOOK|PATTERN")
@click.option("--profile", type=FILE, help="What a healthy VM is like; see --learn.")
@click.option("--learn", is_flag=True, help="Print the profile of the VM, which is known to be good.")
@estate_options
@format_option()
def command(what: str, profile: Path | None, learn: bool, form: str, estate: EstateRequest) -> int:
    """Check GPUs, RDMA, network and versions of the VMs of a PLAYBOOK, or of those that PATTERN means.

    Guests and hosts are asked; nothing is changed. Exits 0 when all are well, 1 for a warning or what is not known,
    2 when a check failed.
    """
    from vsphere_ai import app
    from vsphere_ai.report.health_text import health_document, health_text, profile_text
    from vsphere_ai.report.json_text import json_text

    request = app.HealthRequest(app.meant(what, estate), profile)
    if learn:
        click.echo(profile_text(app.learn_profile(request, show_event)), nl=False)
        return 0
    result = app.check_health(request, show_event)
    click.echo(json_text(**health_document(result.vcenter, result.vms)) if form == "json" else health_text(result.vms))
    return result.exit_code
