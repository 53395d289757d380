"""`vsphere-ai explain`: what is known of a topic, with its sources."""

from __future__ import annotations

import click

from vsphere_ai.cli.options import format_option


@click.command("explain")
@click.argument("name", metavar="TOPIC")
@format_option()
def command(name: str, form: str) -> None:
    """Explain TOPIC, with sources; needs no connection.

    busbw: bus bandwidth of nccl-tests, its formula for each collective, and what to compare it with.

    rdma-options: the ways pods on VMs get RDMA, where each works, what the VM has to own for it, vMotion, GPUDirect.
    """
    from vsphere_ai.report.explain_text import explain_text, topic
    from vsphere_ai.report.json_text import json_text

    found = topic(name)
    click.echo(json_text(topic=name, **found.document()) if form == "json" else explain_text(found))
