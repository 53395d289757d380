"""`vsphere-ai explain`: what is known of a name, with its sources."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from vsphere_ai.cli.console.forms import output_option

HELP_ENTRY = "Look up, without a connection", 10, "Print what the documentation says of a name."


def _names(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    from vsphere_ai.app.project.explanations import listed
    from vsphere_ai.report.explain_text import TOPICS

    names = (*TOPICS, *(each.name for each in listed()))
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(begun)]


@click.command("explain")
@click.argument("words", nargs=-1, metavar="[NAME]", shell_complete=_names)
@output_option(names="topics")
def command(words: tuple[str, ...], form: str) -> None:
    """Explain NAME, with its source; needs no connection. Without NAME, list what can be explained.

    NAME is a kind (mig), a key (mig.layout), the id of a rule (vm.rdma-path), a check of health (ecc), a GPU board
    (a100-40gb), a MIG profile or vGPU type, an XID (79), or a topic.

    busbw: bus bandwidth of nccl-tests, its formula for each collective, and what to compare it with.

    rdma-options: the ways pods on VMs get RDMA, where each works, what the VM has to own for it, vMotion, GPUDirect.
    """
    from vsphere_ai.app.project.explanations import explain, listed
    from vsphere_ai.report import explained_text as text
    from vsphere_ai.report.explain_text import TOPICS, explain_text
    from vsphere_ai.report.json_text import json_text

    name = " ".join(words)
    if name in TOPICS:
        topic = TOPICS[name]
        click.echo(json_text(topic=name, **topic.document()) if form == "json" else explain_text(topic))
        return
    if found := listed(name):
        topics = () if name else tuple(TOPICS)
        lines = text.listing_text(found, topics, whole=bool(name))
        click.echo(json_text(topics=text.listing_document(found, topics)) if form == "json" else lines)
        return
    known = explain(name, TOPICS)
    shown = text.explained_document(known)
    click.echo(json_text(topic=name, found=shown) if form == "json" else text.explained_text(known))
