"""`vsphere-ai rdma`: the hosts' RDMA devices, and whether RDMA gets from a VM to the wire, link by link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import fail_on_option
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import changes_nothing, estate_options, show_all, width

if TYPE_CHECKING:
    from vsphere_ai.app import EstateRequest
    from vsphere_ai.model.finding import FailOn

HELP_ENTRY = "Look, and compare", 60, "Follow RDMA from a VM to the wire, link by link."


@click.group("rdma")
def command() -> None:
    """Follow RDMA from a VM to the wire."""


@command.command("devices")
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@estate_options
@output_option(names="hosts.host")
@changes_nothing
@example("rdma devices --start-ssh")
def devices_command(hosts: Sequence[str], form: str, estate: EstateRequest) -> int:
    """List the RDMA devices of hosts, with NIC, uplink, speed, protocols, driver and firmware.

    HOST is a name or a pattern as in a play; all hosts without one. Before vSphere 8.0 only a host's shell knows driver
    and firmware versions: they are read over SSH where that runs, or may be started. Changes nothing.

    Exits 0 whatever it shows.
    """
    from vsphere_ai import app
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.network.devices_text import devices_document, devices_text

    result = app.devices(app.DevicesRequest(hosts, estate), show_event)
    if form == "json":
        click.echo(json_text(devices_document(result.estate, result.hosts)))
    else:
        click.echo(devices_text(result.hosts))
    return 0


@command.command("trace")
@click.argument("vms", nargs=-1, required=True, metavar="VM...")
@estate_options
@show_all("Show every path and every pair of VMs, also those that are alike.")
@fail_on_option
@output_option("text", "json", "playbook")
@changes_nothing
@example("rdma trace train-01 train-02")
def trace_command(vms: Sequence[str], *, full: bool, fail_on: FailOn, form: str, estate: EstateRequest) -> int:
    """Follow the PVRDMA adapters of each VM link by link, and show what the traffic between the VMs uses.

    Every broken link is shown with its fix; paths that are alike are shown once. VM is a name or a pattern as in a
    play. Changes nothing.

    Exits 0 when every path is healthy, 2 when a link is broken, 1 when a link is not known or the command fails;
    `--fail-on` changes from which verdict on.
    """
    from vsphere_ai import app
    from vsphere_ai.model.finding import exit_code
    from vsphere_ai.report.json_text import json_text
    from vsphere_ai.report.network.trace_text import fixes_text, trace_document, trace_text

    result = app.trace(app.TraceRequest(vms, estate), show_event)
    found, traces = result.estate, result.traces
    if form == "json":
        click.echo(json_text(trace_document(found, traces, result.pairs)))
    elif form == "playbook":
        click.echo(fixes_text(found, traces), nl=False)
    else:
        click.echo(trace_text(found, traces, result.pairs, width(), full=full))
    return exit_code(result.findings, fail_on)
