"""Leases of addresses, their states and what is reclaimed, as tables and as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from vsphere_ai.model.text import safe

if TYPE_CHECKING:
    from vsphere_ai.addresses.evidence import LeaseState
    from vsphere_ai.addresses.request import Lease
    from vsphere_ai.app.address_check import CheckLeasesResult
    from vsphere_ai.app.address_pools import LeasesResult
    from vsphere_ai.app.address_reclaim import Reclaim

_USE = ("POOL", "USABLE", "HELD", "RESERVED", "QUARANTINE", "FREE")
_LEASE = ("SET", "VM", "NIC", "ADDRESS", "POOL")


def leases_text(found: LeasesResult) -> str:
    """Return the use of pools, the leases of sets, and the reservations."""
    rows = [(u.name, *map(str, (u.usable, u.held, u.reserved, u.quarantined, u.free))) for u in found.use]
    parts = [_table((_USE, *rows)) if rows else "the inventory has no pools; add them under 'pools:'"]
    if found.leases:
        parts.append(_table((_LEASE, *map(_row, found.leases))))
    parts += [f"reserved: {r.range} of {r.pool}: {r.note}" for r in found.reservations]
    parts += [f"{u.name}: {u.out_of_range} held addresses are not in its range" for u in found.use if u.out_of_range]
    return "\n".join(map(safe_lines, parts))


def leases_document(found: LeasesResult) -> dict[str, JsonValue]:
    """Return them as JSON values."""
    return {
        "vcenter": found.vcenter,
        "pools": [dict(vars(each)) for each in found.use],
        "leases": [_document(each) for each in found.leases],
        "reservations": [{"pool": r.pool, "addresses": str(r.range), "note": r.note} for r in found.reservations],
    }


def check_text(found: CheckLeasesResult) -> str:
    """Return leases that are not simply in use, leases out of range, and a summary."""
    noted = [each for each in found.leases if each.state not in ("in use", "spare")]
    lines = _states(noted)
    lines += [f"out of range: {each.addresses} of {each.holder}: {each.why}" for each in found.out_of_range]
    counts: dict[str, int] = {"leases": len(found.leases)}
    for each in found.leases:
        counts[each.state] = counts.get(each.state, 0) + 1
    counts |= {"out of range": len(found.out_of_range)} if found.out_of_range else {}
    summary = ", ".join(f"{number} {what}" for what, number in counts.items())
    return "\n".join([*map(safe, lines), f"{summary}; {found.vms} VMs were seen"])


def check_document(found: CheckLeasesResult) -> dict[str, JsonValue]:
    """Return every lease with its state as JSON values."""
    return {
        "vcenter": found.vcenter,
        "vms": found.vms,
        "leases": [_state_document(each) for each in found.leases],
        "out_of_range": [dict(vars(each)) for each in found.out_of_range],
    }


def reclaim_text(found: Reclaim) -> str:
    """Return what is reclaimed, and what is not and why."""
    lines = [f"{each.lease.address} of {_who(each.lease)} is reclaimed: {each.why}" for each in found.leases]
    lines += [f"{each.lease.address} of {_who(each.lease)} stays ({each.state}): {each.why}" for each in found.left]
    return "\n".join(map(safe, lines or ["no lease is leaked"]))


def reclaim_document(found: Reclaim) -> dict[str, JsonValue]:
    """Return it as JSON values."""
    return {
        "vcenter": found.vcenter,
        "changed": found.changed,
        "reclaimed": [_state_document(each) for each in found.leases],
        "left": [_state_document(each) for each in found.left],
    }


def safe_lines(text: str) -> str:
    """Return text of several lines without control characters in them."""
    return "\n".join(map(safe, text.split("\n")))


def _states(states: Iterable[LeaseState]) -> list[str]:
    return [f"{each.state}: {each.lease.address} of {_who(each.lease)}: {each.why}" for each in states]


def _who(lease: Lease) -> str:
    return f"{lease.nic.set}/{lease.index}/{lease.nic.name}"


def _row(lease: Lease) -> tuple[str, ...]:
    block = f" of {lease.given}" if lease.given.size > 1 else ""
    return lease.nic.set, str(lease.index), lease.nic.name, f"{lease.address}/{lease.prefix}{block}", lease.pool


def _document(lease: Lease) -> dict[str, JsonValue]:
    return {
        "set": lease.nic.set,
        "index": lease.index,
        "nic": lease.nic.name,
        "version": lease.nic.version,
        "pool": lease.pool,
        "address": lease.address,
        "prefix": lease.prefix,
        "given": str(lease.given),
        "gateway": lease.gateway,
    }


def _state_document(each: LeaseState) -> dict[str, JsonValue]:
    return {**_document(each.lease), "state": each.state, "why": each.why}


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, (*widths, 0), strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
