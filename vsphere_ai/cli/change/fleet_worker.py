"""`vsphere-ai fleet worker`: carries out shards of fleets at one site."""

from __future__ import annotations

import time
from pathlib import Path

import click

from vsphere_ai.cli.change.fleet_options import tls_ca_option, tls_cert_option, tls_key_option, vcenters_option
from vsphere_ai.cli.console import signals, streams
from vsphere_ai.cli.console.help_examples import example
from vsphere_ai.cli.console.options import inventory_option, previewed_by, prints_only
from vsphere_ai.model.text import safe


@click.command("worker")
@click.argument("address")
@inventory_option
@vcenters_option
@tls_ca_option
@tls_cert_option
@tls_key_option
@click.option("--listen", default="", metavar="HOST", help="Address of this machine that the scheduler reaches.")
@click.option("--name", default="", help="Name of this worker, unlike all others. [default: host and process]")
@prints_only("what the worker does")
@previewed_by("fleet apply --dry-run")
@example(
    "fleet worker tls://fleet.example:8786 -i site.yml --tls-ca ca.pem --tls-cert worker.pem --tls-key worker.key",
    needs="a Dask scheduler",
)
def worker(address: str, inventory: Path | None, vcenters: tuple[str, ...], listen: str, **more: object) -> int:
    """Serve vCenters of an inventory to the fleet of the Dask scheduler at ADDRESS, such as tls://fleet.example:8786.

    Passwords are read here and leave this machine only for their vCenter. A first Ctrl-C or SIGTERM finishes what is in
    flight, and leaves the rest to another worker.

    Exits 0 when it was stopped in order, 5 when the scheduler does not answer.
    """
    from vsphere_ai.fleet.address import parse_address
    from vsphere_ai.fleet.certificates import TlsFiles
    from vsphere_ai.fleet.run import FleetStop
    from vsphere_ai.fleet.worker import WorkerRequest, work

    tls = TlsFiles(more["tls_ca"], more["tls_cert"], more["tls_key"])  # type: ignore[arg-type]
    request = WorkerRequest(parse_address(address), tls, inventory, vcenters, str(more["name"]), listen)
    stop = FleetStop()
    with signals.first(stop, "vsphere-ai fleet resume, at the coordinator"), streams.resting():
        work(request, stop, _say)
    return 0


def _say(text: str) -> None:
    if not streams.is_quiet():
        click.echo(safe(f"{time.strftime('%H:%M:%S')} {text}"))
