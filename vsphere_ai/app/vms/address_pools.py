"""Address pools of an inventory, which no vCenter is asked for, and what is leased of them in a vCenter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, ignore
from vsphere_ai.errors import UsageError
from vsphere_ai.language.inventories.inventory import find_inventory
from vsphere_ai.model.names.networks import AddressRange, address_range
from vsphere_ai.model.names.suggestion import suggest

if TYPE_CHECKING:
    from vsphere_ai.addresses.request import Lease
    from vsphere_ai.addresses.reserving import Reservation
    from vsphere_ai.addresses.usage import PoolUse


@dataclass(frozen=True)
class PoolsRequest:
    """An inventory file; None: the one that is found, see `EstateRequest`."""

    inventory: Path | None = None


@dataclass(frozen=True)
class PoolsResult:
    """The pools of an inventory by name, and the addresses that none of them gives away."""

    inventory: Path
    pools: Mapping[str, AddressPool]
    reserved: tuple[AddressRange, ...]


@dataclass(frozen=True)
class LeasesRequest:
    """Whose leases to show: those of sets or pools by name, and those that have an address; none: all."""

    names: tuple[str, ...] = ()
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class LeasesResult:
    """The use of the pools, the leases of sets, and the reservations."""

    vcenter: str
    use: tuple[PoolUse, ...]
    leases: tuple[Lease, ...]
    reservations: tuple[Reservation, ...]


def list_pools(request: PoolsRequest) -> PoolsResult:
    """Return the pools of an inventory; `InputError` when one is wrong or conflicts with another."""
    inventory = find_inventory(request.inventory)
    return PoolsResult(inventory.path, inventory.pools, inventory.reserved)


def list_leases(request: LeasesRequest, emit: Emit = ignore) -> LeasesResult:
    """Return what is leased in a vCenter; `UsageError` for a name that is neither of a set nor of a pool."""
    from vsphere_ai.addresses.leasing import all_leases
    from vsphere_ai.addresses.reserving import reservations
    from vsphere_ai.addresses.usage import usage
    from vsphere_ai.app.estate.address_reading import read_recorded

    with open_session(request.estate, None, emit) as session:
        found = read_recorded(session.scope, session.connection)
        leases, kept = all_leases(found.ledger, found.terms.pools), reservations(found.ledger)
        use = tuple(usage(found.ledger, found.terms))
        known = {each.name for each in use} | {nic.set for nic in found.ledger.holdings}
        if request.names:
            spans = [_asked(name, known) for name in request.names]
            leases = [e for e in leases if _meant(request.names, spans, e.pool, e.nic.set, e.given)]
            kept = [e for e in kept if _meant(request.names, spans, e.pool, "", e.range)]
            named = {*request.names, *(e.pool for e in leases), *(e.pool for e in kept)}
            use = tuple(each for each in use if each.name in named)
        return LeasesResult(session.connection.vcenter.name, use, tuple(leases), tuple(kept))


def _asked(name: str, known: set[str]) -> AddressRange | None:
    """Return the addresses that a name is; None for the name of a set or pool."""
    try:
        return address_range(name)
    except ValueError:
        if name not in known:
            help = suggest(name, known - {"*"}, "give one of") or "there are none"
            raise UsageError(f"'{name}' is no address, pool, or set that holds addresses", help) from None
        return None


def _meant(
    names: tuple[str, ...], spans: list[AddressRange | None], pool: str, set_name: str, span: AddressRange
) -> bool:
    return pool in names or set_name in names or any(asked and asked.overlaps(span) for asked in spans)
