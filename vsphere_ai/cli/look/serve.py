"""`vsphere-ai serve`: the farm, its drift and the runs of this machine as pages for a browser, and for Prometheus."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console import streams, web_extra
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.options import FILE, gathering, variable_estate_options

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.app.events import Event
    from vsphere_ai.web.run import ServeRequest

HELP_ENTRY = "Look, and compare", 80, "Serve the farm and the runs as pages on 127.0.0.1, read-only."
SHORTEST = 5
"""Seconds between two readings, at least."""
ssh_option = click.option("--ssh", is_flag=True, help="Ask hosts over SSH, too: for MIG instances, and for drift.")


def _request() -> type[ServeRequest]:
    with web_extra.needed():
        from vsphere_ai.web.run import ServeRequest

        return ServeRequest


@click.command("serve")
@click.argument("playbooks", metavar="[PLAYBOOK]...", type=FILE, nargs=-1)
@variable_estate_options
@ssh_option
@gathering(
    "request",
    _request,
    click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. [default: a free one]"),
    click.option(
        "--interval",
        type=click.FloatRange(SHORTEST),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="Seconds between two readings.",
    ),
    click.option(
        "--metrics-token",
        default="",
        metavar="REFERENCE",
        help="Let Prometheus in at /metrics with this bearer token: env:NAME, file:PATH, cmd:PROGRAM.",
    ),
)
def command(playbooks: tuple[Path, ...], estate: EstateRequest, request: ServeRequest, *, ssh: bool) -> int:
    """Serve pages on 127.0.0.1: the estate, GPUs, RDMA paths, drift from PLAYBOOKs, runs, and a run as it goes on.

    Nothing is changed. The link that is printed works once, for one browser; the next one is printed then. vCenter is
    read every --interval seconds, whatever the number of browsers; hosts over SSH only with --ssh. From elsewhere:
    ssh -L PORT:127.0.0.1:PORT MACHINE. Ctrl-C ends it.
    """
    from vsphere_ai import app
    from vsphere_ai.web.run import serve

    farm = app.FarmRequest(replace(estate, ask_hosts=ssh), playbooks)
    with streams.resting():
        serve(replace(request, farm=farm, metrics_token=_token(request.metrics_token)), _show, _announce)
    return 0


def _token(reference: str) -> str:
    if not reference:
        return ""
    from vsphere_ai.security.credentials import fetch

    return fetch(reference, Path.cwd(), purpose="token of Prometheus").reveal()


def _show(event: Event) -> None:
    from vsphere_ai.app import events

    if not isinstance(event, events.Status):
        show_event(event)


def _announce(link: str) -> None:
    click.echo(link)
    sys.stdout.flush()
