"""Leases of addresses, their states and what is reclaimed, as tables and as JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vsphere_ai.documents.leased_addresses import (
    JudgedLeaseDocument,
    LeaseDocument,
    PoolUseDocument,
    ReservationDocument,
)
from vsphere_ai.model.text import counted, safe

if TYPE_CHECKING:
    from vsphere_ai.addresses.evidence import LeaseState
    from vsphere_ai.addresses.request import Lease
    from vsphere_ai.addresses.reserving import Reservation
    from vsphere_ai.addresses.usage import PoolUse

_USE = ("POOL", "USABLE", "HELD", "RESERVED", "QUARANTINE", "FREE")
_LEASE = ("SET", "VM", "NIC", "ADDRESS", "POOL")


def leases_text(use: Sequence[PoolUse], leases: Sequence[Lease], kept: Sequence[Reservation]) -> str:
    """Return the use of pools, the leases of sets, and the reservations."""
    rows = [(u.name, *map(str, (u.usable, u.held, u.reserved, u.quarantined, u.free))) for u in use]
    none = "the inventory has no pools; add them under 'pools:'"
    parts = [_table((_USE, *rows))] if rows else [] if leases else [none]
    if leases:
        parts.append(_table((_LEASE, *map(_row, leases))))
    parts += [f"reserved: {r.range} of {r.pool}: {r.note}" for r in kept]
    parts += [f"{u.name}: {u.out_of_range} held addresses are not in its range" for u in use if u.out_of_range]
    return "\n".join(map(_safe_lines, parts))


def uses(use: Sequence[PoolUse]) -> tuple[PoolUseDocument, ...]:
    """Return the use of pools as parts of a document."""
    return tuple(PoolUseDocument(**vars(each)) for each in use)


def leases_of(leases: Sequence[Lease]) -> tuple[LeaseDocument, ...]:
    """Return leases as parts of a document."""
    return tuple(map(_lease, leases))


def reserved_of(kept: Sequence[Reservation]) -> tuple[ReservationDocument, ...]:
    """Return reservations as parts of a document."""
    return tuple(ReservationDocument(pool=r.pool, addresses=str(r.range), note=r.note) for r in kept)


def states_text(states: Sequence[LeaseState], vms: int) -> str:
    """Return how many leases are in which state; `vms`: how many VMs were seen."""
    counts = Counter(each.state for each in states)
    summary = ", ".join([f"{len(states)} leases", *(f"{number} {state}" for state, number in counts.items())])
    return f"{summary}; {counted(vms, 'VM')} seen"


def judged_of(states: Sequence[LeaseState]) -> tuple[JudgedLeaseDocument, ...]:
    """Return leases with their states as parts of a document."""
    return tuple(JudgedLeaseDocument(**vars(_lease(each.lease)), state=each.state, why=each.why) for each in states)


def reclaim_text(going: Sequence[LeaseState], left: Sequence[LeaseState]) -> str:
    """Return what is reclaimed, and what is not and why."""
    lines = [f"{each.lease.address} of {_who(each.lease)} is reclaimed: {each.why}" for each in going]
    lines += [f"{each.lease.address} of {_who(each.lease)} stays ({each.state}): {each.why}" for each in left]
    return "\n".join(map(safe, lines or ["no lease is leaked"]))


def _safe_lines(text: str) -> str:
    """Return text of several lines without control characters in them."""
    return "\n".join(map(safe, text.split("\n")))


def _who(lease: Lease) -> str:
    return f"{lease.nic.set}/{lease.index}/{lease.nic.name}"


def _row(lease: Lease) -> tuple[str, ...]:
    block = f" of {lease.given}" if lease.given.size > 1 else ""
    return lease.nic.set, str(lease.index), lease.nic.name, f"{lease.address}/{lease.prefix}{block}", lease.pool


def _lease(lease: Lease) -> LeaseDocument:
    return LeaseDocument(
        set=lease.nic.set,
        index=lease.index,
        nic=lease.nic.name,
        version=lease.nic.version,
        pool=lease.pool,
        address=lease.address,
        prefix=lease.prefix,
        given=str(lease.given),
        gateway=lease.gateway,
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, (*widths, 0), strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
