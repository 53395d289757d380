"""`vsphere-ai explain`: what is known of a name, with its sources."""

from __future__ import annotations

from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing
from vsphere_ai.cli.reference.explained_commands import GROUP, explained_commands
from vsphere_ai.model.records.explained import Listed, NameExplained

HELP_ENTRY = "Look up, without a connection", 10, "Print what the documentation says of a name."


def _names(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    from vsphere_ai.app.project.explanations import listed
    from vsphere_ai.report.explain_text import TOPICS

    names = (*explained_commands(), *TOPICS, *(each.name for each in listed()))
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(begun)]


@click.command("explain")
@click.argument("words", nargs=-1, metavar="[NAME]", shell_complete=_names)
@output_option(names="topics")
@changes_nothing
@example("explain XID 79")
@example("explain mig.layout")
def command(words: tuple[str, ...], form: str) -> None:
    """Explain NAME, with its source; needs no connection. Without NAME, list what can be explained.

    NAME is a command (run show), a kind (mig), a key (mig.layout), the id of a rule (vm.rdma-path), a check of health
    (ecc), a GPU board (a100-40gb), a MIG profile or vGPU type, an XID (79), or a topic. A name with a dot behind it
    lists the keys and rules that begin so.

    busbw: bus bandwidth of nccl-tests, its formula for each collective, and what to compare it with.

    infiniband: InfiniBand, RoCE and iWARP side by side: how VMs get each, performance, scale, upkeep, cost, vendors.

    rdma-options: the ways pods on VMs get RDMA, where each works, what the VM has to own for it, vMotion, GPUDirect.

    Exits 0, and 64 where nothing has the name.
    """
    from vsphere_ai.app.project.explanations import explain, listed
    from vsphere_ai.report import explained_text as text
    from vsphere_ai.report.explain_text import TOPICS, explain_text
    from vsphere_ai.report.json_text import json_text

    name, commands = " ".join(words), explained_commands()
    if name in TOPICS:
        topic = TOPICS[name]
        click.echo(json_text(topic.document()) if form == "json" else explain_text(topic))
        return
    if name not in commands and (found := (*_listed(name, commands), *listed(name))):
        topics = () if name else tuple(TOPICS)
        lines = text.listing_text(found, topics, whole=bool(name))
        click.echo(json_text(text.listing_document(found, topics)) if form == "json" else lines)
        return
    if name in commands:
        known = explain(name, also=[commands[name]])
    else:
        known = explain(name, (*TOPICS, *(commands if "." not in name else ())))
    click.echo(json_text(text.explained_document(name, known)) if form == "json" else text.explained_text(known))


def _listed(name: str, commands: Mapping[str, NameExplained]) -> list[Listed]:
    """Return the commands of a list: those that are no part of a group, or all of them where a name asks for them."""
    every = [Listed(each.name, each.group, each.title) for each in commands.values()]
    return every if name == GROUP else [each for each in every if not name and " " not in each.name]
