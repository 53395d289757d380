"""`vsphere-ai rdma`: the hosts' RDMA devices, and whether RDMA gets from a VM to the wire, link by link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from vsphere_ai.cli.options import estate_options, format_option, open_session, pause_status, say_left_out


@click.group("rdma")
def command() -> None:
    """Follow RDMA from a VM to the wire."""


@command.command("devices")
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@estate_options
@format_option("text", "json")
def devices_command(hosts: Sequence[str], form: str, **shared: Any) -> int:
    """List the RDMA devices of hosts, with NIC, uplink, speed, protocols, driver and firmware.

    HOST is a name or a pattern as in a play; all hosts without one. Before vSphere 8.0 only a host's shell knows driver
    and firmware versions: they are read over SSH where that runs, or may be started. Changes nothing.
    """
    from vsphere_ai.fabric.devices import rdma_devices
    from vsphere_ai.model.malformed import evaluate
    from vsphere_ai.planning.document import SCHEMA_VERSION, dumps, plain
    from vsphere_ai.report.devices_text import devices_document, devices_text

    with open_session(shared) as session:
        estate, chosen = session.read_hosts(hosts)
    pause_status()
    found, estate = evaluate(estate, lambda e: tuple(rdma_devices(e, chosen)))
    say_left_out(estate)
    if form == "json":
        document = {"schema_version": SCHEMA_VERSION, "vcenter": plain(estate.about), "hosts": devices_document(found)}
        click.echo(dumps(document))
    else:
        click.echo(devices_text(found))
    return 0


@command.command("trace")
@click.argument("vms", nargs=-1, required=True, metavar="VM...")
@estate_options
@format_option("text", "json", "playbook")
def trace_command(vms: Sequence[str], form: str, **shared: Any) -> int:
    """Follow the PVRDMA adapters of each VM link by link, and show what the traffic between the VMs uses.

    Every broken link is shown with its fix. VM is a name or a pattern as in a play. Exits 0 when every path is whole,
    2 when a link is broken, 1 when a link is not known. Changes nothing.
    """
    from vsphere_ai.fabric.pairs import pairs
    from vsphere_ai.fabric.trace import Trace, trace
    from vsphere_ai.model.facts import Estate
    from vsphere_ai.model.view import View
    from vsphere_ai.planning.document import SCHEMA_VERSION, dumps, plain
    from vsphere_ai.planning.observing import evaluate_with, observe
    from vsphere_ai.report.trace_text import fixes_text, trace_document, trace_text
    from vsphere_ai.resources import kinds

    with open_session(shared) as session:
        estate, chosen = session.read_vms(vms)
    pause_status()

    def followed(estate: Estate) -> list[Trace]:
        view = View(estate, observe(estate, kinds()))
        return [t for vm in chosen for t in trace(estate, vm, view.candidates(vm.ref))]

    traces, estate = evaluate_with(kinds(), estate, followed)
    say_left_out(estate)
    between = tuple(pairs(traces))
    if form == "json":
        document = trace_document(estate, traces, between)
        click.echo(dumps({"schema_version": SCHEMA_VERSION, "vcenter": plain(estate.about), **document}))
    elif form == "playbook":
        click.echo(fixes_text(estate, traces), nl=False)
    else:
        click.echo(trace_text(estate, traces, between))
    if any(t.having("broken") for t in traces):
        return 2
    return 1 if any(t.having("unknown") for t in traces) else 0
