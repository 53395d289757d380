"""`vsphere-ai serve`: hosts, drift and runs of this machine as pages for a browser, and as metrics for Prometheus."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from vsphere_ai.cli.console import streams, web_extra
from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import (
    FILE,
    changes_nothing,
    gathering,
    interval_option,
    prints_only,
    to_option,
    variable_estate_options,
)
from vsphere_ai.errors import UsageError

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest, FarmRequest
    from vsphere_ai.app.events import Event
    from vsphere_ai.web.run import ServeRequest

HELP_ENTRY = "Look, and compare", 80, "Serve pages on 127.0.0.1, or print metrics, read-only."
"""Seconds between two readings, at least."""


@dataclass(frozen=True)
class Metrics:
    """Whether metrics are printed `once` instead of pages served; the file that gets them, and who may read it."""

    once: bool = False
    to: Path | None = None
    group: str = ""


def _request() -> type[ServeRequest]:
    with web_extra.needed():
        from vsphere_ai.web.run import ServeRequest

        return ServeRequest


@click.command("serve")
@click.argument("playbooks", metavar="[PLAYBOOK]...", type=FILE, nargs=-1)
@variable_estate_options
@click.option("--ssh", is_flag=True, help="Ask hosts over SSH, too: for MIG instances, and for drift.")
@gathering(
    "request",
    _request,
    click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. [default: a free one]"),
    interval_option(),
    click.option(
        "--metrics-token",
        default="",
        metavar="REFERENCE",
        help="Let Prometheus in at /metrics with this bearer token: env:NAME, file:PATH, cmd:PROGRAM.",
    ),
)
@gathering(
    "metrics",
    lambda: Metrics,
    click.option("--once", is_flag=True, help="Read once, print the metrics for Prometheus, and end; for a timer."),
    to_option("With --once: file for the textfile collector of node_exporter; standard output without it."),
    click.option("--group", default="", metavar="NAME", help="Group that may read the file of --to: node_exporter's."),
)
@prints_only("the address of the pages, or metrics of Prometheus")
@changes_nothing
@example("serve --once")
@example("serve playbooks/ai-ready-cluster.yml --ssh", needs="a browser, until it is stopped with Ctrl-C")
def command(
    playbooks: tuple[Path, ...], estate: EstateRequest, request: ServeRequest, metrics: Metrics, *, ssh: bool
) -> int:
    """Serve pages on 127.0.0.1: the environment, GPUs, RDMA paths, drift from PLAYBOOKs, runs, and a run as it goes on.

    Nothing is changed. The link that is printed works once, for one browser; the next one is printed then. vCenter is
    read every --interval seconds, whatever the number of browsers; hosts over SSH only with --ssh. From elsewhere:
    ssh -L PORT:127.0.0.1:PORT MACHINE. Ctrl-C ends it (exit code 130).

    With --once, exits 0, or with the code of the error where vCenter cannot be read: vsphere_ai_up is 0 then.
    """
    from vsphere_ai import app
    from vsphere_ai.web.run import serve

    _require_fitting(metrics)
    farm = app.FarmRequest(replace(estate, ask_hosts=ssh), playbooks)
    if metrics.once:
        return _once(farm, metrics)
    with streams.resting():
        serve(replace(request, farm=farm, metrics_token=_token(request.metrics_token)), _show, _announce)
    return 0


def _require_fitting(metrics: Metrics) -> None:
    """Refuse options that have no effect."""
    if not metrics.once and (metrics.to or metrics.group):
        raise UsageError(f"{'--to' if metrics.to else '--group'} is for --once", "give --once, or leave it out")
    if metrics.group and not metrics.to:
        raise UsageError("--group is for the file of --to", "give --to FILE, or leave it out")
    source = click.get_current_context().get_parameter_source
    for name in ("port", "interval", "metrics_token") if metrics.once else ():
        if source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is for the server, which --once does not start", f"leave {option} out")


def _once(farm: FarmRequest, metrics: Metrics) -> int:
    """Print metrics, or write them to a file; raise the error of the reading afterwards."""
    from vsphere_ai import app
    from vsphere_ai.web.metrics import exposition, write_textfile
    from vsphere_ai.web.run_pages import Runs

    state = app.read_farm(farm, show_event)
    text = exposition(state, Runs().rows())
    if metrics.to:
        write_textfile(metrics.to, text, metrics.group)
    else:
        click.echo(text.decode(), nl=False)
    if state.error is not None:
        raise state.error
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
