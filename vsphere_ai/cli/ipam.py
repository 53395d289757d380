"""`vsphere-ai ipam`: the address pools of an inventory."""

from __future__ import annotations

from pathlib import Path

import click

from vsphere_ai.cli.options import format_option, inventory_option


@click.group("ipam")
def command() -> None:
    """Show the address pools of an inventory; needs no connection."""


@command.command("list")
@inventory_option
@format_option("text", "json")
def list_pools(inventory: Path | None, form: str) -> None:
    """List the pools, and for how many VMs each has addresses."""
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.pools_text import pools_document, pools_text

    found = app.list_pools(app.PoolsRequest(inventory))
    if form == "json":
        click.echo(
            json_text(pools=pools_document(found.pools, found.reserved), reserved=list(map(str, found.reserved)))
        )
    else:
        click.echo(pools_text(found.pools, found.reserved))
