"""`vsphere-ai show`: the live state as a playbook, for which plan is empty."""

from __future__ import annotations

from typing import Any

import click

from vsphere_ai.cli.options import estate_options, hush, open_bench


@click.command("show")
@click.argument("pattern", required=False, default="")
@estate_options
def command(pattern: str, **shared: Any) -> int:
    """Write what hosts and VMs are like now as a playbook; PATTERN narrows it to some of them.

    Planning the result finds nothing to do. What cannot be read is left out, with a comment saying why.
    """
    from vsphere_ai.report.playbook_text import playbook_text

    shared["limit"] = pattern or shared["limit"]
    with open_bench(shared) as bench:
        text = playbook_text(*bench.show())
    hush()
    click.echo(text, nl=False)
    return 0
