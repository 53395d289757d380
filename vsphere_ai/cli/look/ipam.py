"""`vsphere-ai ipam`: address pools of an inventory, and the leases of sets of VMs in a vCenter."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsphere_ai.cli.console.events import show_event
from vsphere_ai.cli.console.findings import Look, fail_on_option, show_findings
from vsphere_ai.cli.console.forms import output_option
from vsphere_ai.cli.console.help_examples import TRAINING, example
from vsphere_ai.cli.console.options import (
    FILE,
    agreed,
    changes_nothing,
    dry_run_option,
    gathering,
    inventory_option,
    show_all,
    variable_options,
    vcenter_options,
    yes_option,
)

if TYPE_CHECKING:
    from vsphere_ai.app import AddressChange, EstateRequest, ReleaseRequest, ReserveRequest
    from vsphere_ai.app.vms.address_reclaim import Reclaim
    from vsphere_ai.documents.printed import PrintedDocument
    from vsphere_ai.model.finding import FailOn

HELP_ENTRY = "Look, and compare", 70, "Show, verify and release the addresses of VMs."
_POOL = click.option("--pool", default="", metavar="NAME", help="The pool, where pools of several domains have it.")


@click.group("ipam")
def command() -> None:
    """Show, verify, reserve and reclaim addresses of the inventory's pools."""


@command.command("list")
@inventory_option
@output_option(names="pools.name")
@changes_nothing
@example("ipam list", needs=TRAINING)
def list_pools(inventory: Path | None, form: str) -> None:
    """List the pools, and for how many VMs each has addresses; needs no connection.

    Exits 0 whatever it shows.
    """
    from vsphere_ai import app
    from vsphere_ai.report.network.pools_text import pools_document, pools_text

    found = app.list_pools(app.PoolsRequest(inventory))
    if form == "json":
        _print(pools_document(found.pools, found.reserved))
    else:
        click.echo(pools_text(found.pools, found.reserved))


@command.command("show")
@click.argument("names", nargs=-1, metavar="[NAME|ADDRESS]...")
@vcenter_options
@output_option(names="leases.address")
@changes_nothing
@example("ipam show mgmt", needs=TRAINING)
def show(names: tuple[str, ...], estate: EstateRequest, form: str) -> None:
    """Show what is leased: of all sets and pools, or of those that are named, or who has an address.

    Exits 0, and 64 where nothing has the name.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.leased_addresses import LeasesDocument
    from vsphere_ai.report.network.addresses_text import leases_of, leases_text, reserved_of, uses

    found = app.list_leases(app.LeasesRequest(names, estate), show_event)
    shown = (found.use, found.leases, found.reservations)
    if form == "json":
        document = LeasesDocument(
            vcenter=found.vcenter,
            pools=uses(found.use),
            leases=leases_of(found.leases),
            reservations=reserved_of(found.reservations),
        )
        _print(document)
    else:
        click.echo(leases_text(*shown))


@command.command("verify")
@vcenter_options
@show_all("Do not group identical findings.")
@fail_on_option
@output_option()
@changes_nothing
@example("ipam verify", needs=TRAINING)
def verify(estate: EstateRequest, full: bool, fail_on: FailOn, form: str) -> int:
    """Compare leases with the addresses that VMs, hosts and vCenter's IP pools have.

    Exits 2 when someone else has a leased address, when a lease has no VM, or when its pool does not give it any more;
    1 when the VM of a lease may be one that is not seen. Changes nothing.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.leased_addresses import VerifiedLeasesDocument
    from vsphere_ai.report.network.addresses_text import judged_of, states_text

    found = app.verify_leases(app.VerifyLeasesRequest(estate), show_event)
    leases = judged_of(found.leases)
    document = partial(VerifiedLeasesDocument.of, vcenter=found.vcenter, vms=found.vms, leases=leases)
    code = show_findings(found.findings, form, fail_on, document, Look(passes=False, full=full))
    if form != "json":
        click.echo(states_text(found.leases, found.vms))
    return code


@command.command("reclaim")
@vcenter_options
@click.option("--grace", type=click.FloatRange(0), default=900.0, show_default=True, help="Seconds between the reads.")
@click.option("--vms", type=click.IntRange(1), help="How many VMs there are; fewer are refused.")
@output_option()
@yes_option
@dry_run_option
@example("ipam reclaim --grace 0 --dry-run", needs=TRAINING)
def reclaim(estate: EstateRequest, grace: float, vms: int | None, form: str, yes: bool) -> None:
    """Release leases whose VMs are gone, after asking.

    Leases and VMs are read twice. What may belong to a VM that is not seen, because a host is not connected or settings
    cannot be read, is never reclaimed.

    Exits 0, also when the answer is no.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.leased_addresses import ReclaimedDocument
    from vsphere_ai.report.network.addresses_text import judged_of, reclaim_text

    def confirm(found: Reclaim) -> bool:
        click.echo(reclaim_text(found.leases, found.left), err=form == "json")
        return _agreed(f"Release {len(found.leases)} leases?", yes)

    found = app.reclaim_addresses(app.ReclaimRequest(confirm, estate, grace, vms), show_event)
    if form == "json":
        reclaimed, left = judged_of(found.leases), judged_of(found.left)
        _print(ReclaimedDocument(vcenter=found.vcenter, changed=found.changed, reclaimed=reclaimed, left=left))
    elif not found.leases:
        click.echo(reclaim_text(found.leases, found.left))
    elif found.changed:
        click.echo(f"{len(found.leases)} leases were released.")


def _reserving() -> type[ReserveRequest]:
    from vsphere_ai.app import ReserveRequest

    return ReserveRequest


@command.command("reserve")
@vcenter_options
@gathering(
    "request",
    _reserving,
    click.argument("addresses", metavar="ADDRESS[-ADDRESS]"),
    click.option("--for", "note", required=True, metavar="TEXT", help="What they are for."),
    _POOL,
)
@output_option()
@yes_option
@dry_run_option
@example("ipam reserve 10.0.0.20-10.0.0.22 --for 'switches of row 3' --dry-run", needs="a pool with these addresses")
def reserve(request: ReserveRequest, form: str, yes: bool) -> None:
    """Keep addresses of a pool from all sets, after asking.

    Exits 0, also when the answer is no.
    """
    from vsphere_ai import app

    _changed(app.reserve_addresses(request, lambda what: _agreed(f"{what}?", yes), show_event), form)


def _releasing() -> type[ReleaseRequest]:
    from vsphere_ai.app import ReleaseRequest

    return ReleaseRequest


@command.command("release")
@vcenter_options
@gathering(
    "request",
    _releasing,
    click.argument("addresses", metavar="[ADDRESS[-ADDRESS]]", required=False, default=""),
    click.option("--set", default="", metavar="NAME", help="The leases of this set, whose VMs are gone."),
    click.option("--keep", type=click.IntRange(0), default=0, help="With --set: the first N VMs keep theirs."),
    _POOL,
)
@output_option()
@yes_option
@dry_run_option
@example("ipam release 10.0.0.22 --dry-run", needs="an address that is reserved")
def release(request: ReleaseRequest, form: str, yes: bool) -> None:
    """Release reserved addresses, or the leases of a set whose VMs are gone, after asking.

    Refused while a VM of the set is there: its playbook destroys it and releases its addresses.

    Exits 0, also when the answer is no.
    """
    from vsphere_ai import app

    _changed(app.release_addresses(request, lambda what: _agreed(f"{what}?", yes), show_event), form)


@command.command("lease")
@click.argument("playbook", type=FILE)
@variable_options
@output_option()
@yes_option
@dry_run_option
@example("ipam lease playbooks/training-set.yml --dry-run", needs=TRAINING)
def lease(playbook: Path, estate: EstateRequest, form: str, yes: bool) -> None:
    """Ask the programs of pools for the addresses that the sets of PLAYBOOK lack, and keep them, after asking.

    Plans have these addresses from then on. Pools without a program need it not: apply takes their addresses.

    Exits 0, also when the answer is no.
    """
    from vsphere_ai import app
    from vsphere_ai.documents.leased_addresses import NewLeasesDocument
    from vsphere_ai.report.network.addresses_text import leases_of, leases_text

    request = app.LeaseRequest(playbook, estate)
    found = app.lease_addresses(request, lambda what: _agreed(f"{what}?", yes), show_event)
    if form == "json":
        _print(NewLeasesDocument(vcenter=found.vcenter, changed=found.changed, leases=leases_of(found.leases)))
    elif found.changed:
        click.echo(leases_text((), found.leases, ()))
    else:
        click.echo("no address of a program is lacking", err=True)


def _changed(found: AddressChange, form: str) -> None:
    if form == "json":
        from vsphere_ai.documents.leased_addresses import AddressChangeDocument

        _print(AddressChangeDocument(vcenter=found.vcenter, summary=found.summary, changed=found.changed))
    elif found.changed:
        click.echo(f"{found.summary}.")


def _agreed(question: str, yes: bool) -> bool:
    answer = agreed(f"{question[0].upper()}{question[1:]} Type yes to confirm", yes=yes)
    if not answer:
        click.echo("Nothing was changed.", err=True)
    return answer


def _print(document: PrintedDocument) -> None:
    from vsphere_ai.report.json_text import json_text

    click.echo(json_text(document))
