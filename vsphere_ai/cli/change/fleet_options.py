"""Options of `vsphere-ai fleet` that say where shards are carried out, and what secures the way there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from vsphere_ai.cli.console.options import FILE, comma_list, gathering

if TYPE_CHECKING:
    from vsphere_ai.fleet.place import PlaceRequest

F = TypeVar("F", bound=Callable[..., int | None])

vcenters_option = click.option(
    "--vcenter",
    "vcenters",
    default="",
    metavar="NAME[,NAME]",
    callback=comma_list,
    help="Only these vCenters. [default: all of the inventory]",
)
executor_option = click.option(
    "--executor",
    metavar="local|dask:ADDRESS",
    default="",
    help="Where vCenters are planned and changed: here, or by the workers of the Dask scheduler tls://HOST:PORT.",
)
tls_ca_option = click.option("--tls-ca", type=FILE, help="Certificate authority of the fleet. [default: Dask's own]")
tls_cert_option = click.option("--tls-cert", type=FILE, help="Certificate of this process in the fleet.")
tls_key_option = click.option("--tls-key", type=FILE, help="Key of that certificate.")
listen_option = click.option(
    "--listen", default="", metavar="HOST[:PORT]", help="Address of this machine that the workers reach."
)


def _place(*options: Callable[[F], F]) -> Callable[[F], F]:
    def load() -> type[PlaceRequest]:
        from vsphere_ai.fleet.place import PlaceRequest

        return PlaceRequest

    return gathering("place", load, *options)


plan_place = _place(executor_option, tls_ca_option, tls_cert_option, tls_key_option)
"""Add the options of where to plan; a command gets them as `place`."""
run_place = _place(executor_option, tls_ca_option, tls_cert_option, tls_key_option, listen_option)
