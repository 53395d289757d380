"""Options of `vsphere-ai bench` that say which VMs are measured, and how its events are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.train.options import set_option

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest, NodesRequest
    from vsphere_ai.app.events import Emit, Event

NODES = (
    click.argument("vms", nargs=-1, required=True, metavar="PLAYBOOK|PATTERN..."),
    set_option(),
    click.option("--nic", default="", metavar="NAME", help="NIC for SSH and control traffic."),
)


def nodes_request() -> type[NodesRequest]:
    """Return the request that `NODES` fill."""
    from vsphere_ai.app import NodesRequest

    return NodesRequest


def meant(nodes: NodesRequest, estate: EstateRequest) -> NodesRequest:
    """Return the nodes of a playbook's set where one file is named, else those of the patterns."""
    from vsphere_ai.app import meant

    if len(nodes.vms) == 1:
        return meant(nodes.vms[0], estate, set=nodes.set, nic=nodes.nic)
    return replace(nodes, estate=estate)


def without_lines(form: str) -> Emit:
    """Return what shows events; lines of results only in text."""
    from vsphere_ai.app.events import BenchmarkRow, OutputLine
    from vsphere_ai.report.training.benchmark_text import live_line

    def emit(event: Event) -> None:
        if isinstance(event, BenchmarkRow):
            values = event.size, event.time, event.algbw, event.busbw
            click.echo(live_line(*values, is_first=event.is_first))
        elif form == "text" or not isinstance(event, OutputLine):
            show_event(event)

    return emit
