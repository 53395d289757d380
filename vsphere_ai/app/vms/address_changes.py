"""Reservations and releases by hand: changes of the ledger under the lock in vCenter, after a confirmation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vsphere_ai.addresses.evidence import assess
from vsphere_ai.addresses.leasing import release
from vsphere_ai.addresses.ledger_text import ledger_text
from vsphere_ai.addresses.request import AddressProblem
from vsphere_ai.addresses.reserving import reserve, unreserve
from vsphere_ai.app.estate.address_reading import RecordedLeases, read_evidence, read_recorded
from vsphere_ai.app.estate.connection import EstateConnection
from vsphere_ai.app.estate.scope import EstateRequest, EstateScope
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.runs.address_programs import release_at_programs
from vsphere_ai.app.runs.locking import held
from vsphere_ai.connect.address_ledger import write_text
from vsphere_ai.errors import Locked, Refused, UsageError
from vsphere_ai.model.names.networks import AddressRange, address_range

if TYPE_CHECKING:
    from vsphere_ai.addresses.holding import AddressLedger
    from vsphere_ai.runs.locks import Hold

Agree = Callable[[str], bool]
"""Is called with what is about to change, in a sentence; returns whether it may."""


@dataclass(frozen=True)
class ReserveRequest:
    """An address or a range of a pool, and what it is for. `pool` is needed where pools of several domains have it."""

    addresses: str
    note: str
    pool: str = ""
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class ReleaseRequest:
    """What to release: a reserved address or range, or the leases of a set behind its first `keep` VMs."""

    addresses: str = ""
    set: str = ""
    keep: int = 0
    pool: str = ""
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class AddressChange:
    """What was, or would have been, changed, and whether it was."""

    vcenter: str
    summary: str
    changed: bool


def reserve_addresses(request: ReserveRequest, confirm: Agree, emit: Emit = ignore) -> AddressChange:
    """Reserve addresses, so that no set gets them. `Refused` when they are held, or no pool gives them."""
    span = _range(request.addresses)
    with (
        open_session(request.estate, None, emit) as session,
        locked(session.scope, session.connection, "ipam reserve") as hold,
    ):
        found = read_recorded(session.scope, session.connection)
        after = _accepted(reserve(found.ledger, found.terms, span, request.note, request.pool))
        agreed = _agreed(confirm, f"reserve {span} for {request.note}", emit)
        if agreed:
            store(hold, found, after)
        return AddressChange(session.connection.vcenter.name, f"{span} reserved for {request.note}", agreed)


def release_addresses(request: ReleaseRequest, confirm: Agree, emit: Emit = ignore) -> AddressChange:
    """Release a reservation, or what a set holds for VMs that are gone. `Refused` when such a VM is there."""
    if bool(request.addresses) == bool(request.set):
        raise UsageError("neither an address nor a set to release was given", "give an address, or --set NAME")
    with (
        open_session(request.estate, None, emit) as session,
        locked(session.scope, session.connection, "ipam release") as hold,
    ):
        found = read_recorded(session.scope, session.connection)
        if request.set:
            after, what = _without_vms(session.scope, session.connection, found, request)
        else:
            span = _range(request.addresses)
            after, what = _accepted(unreserve(found.ledger, found.terms, span, request.pool)), str(span)
        agreed = _agreed(confirm, f"release {what}", emit)
        if agreed:
            release_at_programs(session.scope, session.connection, found.ledger, after)
            store(hold, found, after)
        return AddressChange(session.connection.vcenter.name, f"{what} released", agreed)


@contextmanager
def locked(scope: EstateScope, connection: EstateConnection, what: str) -> Iterator[Hold]:
    """Hold the lock in vCenter, whatever the inventory says of locks: the ledger is changed under it only."""
    with held(scope, connection, what, "vcenter") as hold:
        yield hold


def store(hold: Hold, found: RecordedLeases, after: AddressLedger) -> None:
    """Write the ledger in place of the one that was read."""
    if hold.lock is None:
        raise Locked(
            "the leases are changed only under the lock in vCenter", "apply with --lock vcenter", rule="lock.lost"
        )
    write_text(hold.lock, found.stored, ledger_text(after))


def _without_vms(
    scope: EstateScope, connection: EstateConnection, found: RecordedLeases, request: ReleaseRequest
) -> tuple[AddressLedger, str]:
    """Return the ledger without the leases of a set behind its first VMs, none of which has a VM."""
    own = [nic for nic in found.ledger.holdings if nic.set == request.set]
    if not own or request.set == "*":
        help = "vsphere-ai ipam show lists the sets that hold addresses"
        raise Refused(f"no set '{request.set}' holds addresses", help, rule="addresses.no-set")
    evidence = read_evidence(scope, connection)
    for (name, index), owner in sorted(evidence.owners.items()):
        if name == request.set and index > request.keep:
            text = f"VM {owner.name} of the set {name} is there, with index {index}"
            raise Refused(text, "destroy it with its playbook, which releases its addresses", rule="addresses.in-use")
    going = [
        each
        for each in assess(found.ledger, found.terms.pools, evidence)
        if each.lease.nic.set == request.set and each.lease.index > request.keep
    ]
    reasons = sorted({each.why for each in going if each.state in ("unsafe", "conflict")})
    if evidence.vms < found.ledger.vms:
        reasons.append(f"this account sees {evidence.vms} VMs, and there were {found.ledger.vms}")
    kept = f" behind its first {request.keep}" if request.keep else ""
    what = f"{len(going)} lease{'' if len(going) == 1 else 's'} of the set {request.set}{kept}"
    after = release(found.ledger, found.terms, request.set, request.keep)
    return replace(after, vms=evidence.vms), "; ".join((what, *reasons))


def _agreed(confirm: Agree, what: str, emit: Emit) -> bool:
    emit(Status(""))
    return confirm(what)


def _accepted(found: AddressLedger | AddressProblem) -> AddressLedger:
    if isinstance(found, AddressProblem):
        raise Refused(found.message, found.help, rule=found.rule)
    return found


def _range(text: str) -> AddressRange:
    try:
        return address_range(text)
    except ValueError as error:
        raise UsageError(str(error), "give an address, or a range such as 10.0.0.1-10.0.0.9") from None
