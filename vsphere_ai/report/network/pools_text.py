"""Address pools as a table and as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.pool_document import PoolDocument, PoolsDocument
from vsphere_ai.model.names.networks import AddressRange
from vsphere_ai.model.text import safe

_HEAD = ("POOL", "SUBNET", "GATEWAY", "VMS", "ADDRESSES FOR VMS")


def pools_text(pools: Mapping[str, AddressPool], reserved: Sequence[AddressRange]) -> str:
    """Return a line per pool: for how many VMs it has addresses, and which they are."""
    if not pools:
        return "the inventory has no pools; add them under 'pools:'"
    rows = [_HEAD, *(_row(name, pool, reserved) for name, pool in sorted(pools.items()))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True)).rstrip() for row in rows
    ]
    if reserved:
        lines.append(f"reserved: {', '.join(map(str, reserved))}")
    return "\n".join(lines)


def pools_document(pools: Mapping[str, AddressPool], reserved: Sequence[AddressRange]) -> PoolsDocument:
    """Return the pools as they are printed."""
    listed = (
        PoolDocument.model_validate(
            {
                **{key: getattr(pool, key) for key in AddressPool.model_fields},
                "name": name,
                "usable": tuple(map(str, pool.usable(reserved))),
                "vms": _vms(pool, reserved),
            }
        )
        for name, pool in sorted(pools.items())
    )
    return PoolsDocument(pools=tuple(listed), reserved=tuple(map(str, reserved)))


def _row(name: str, pool: AddressPool, reserved: Sequence[AddressRange]) -> tuple[str, ...]:
    usable = ", ".join(map(str, pool.usable(reserved))) or "none"
    notes = [f"a block /{pool.per_node} each"] if pool.per_node is not None else []
    notes += [f"address {pool.node_gateway} of it is the gateway"] if pool.node_gateway is not None else []
    notes += [f"program {pool.backend.exec[0]}"] if pool.backend is not None else []
    notes += ["default"] if pool.default else []
    notes += ["disabled"] if pool.disabled else []
    notes += [f"domain {pool.domain}"] if pool.domain else []
    shown = f"{usable} ({', '.join(notes)})" if notes else usable
    return safe(name), pool.subnet, pool.gateway or "-", str(_vms(pool, reserved)), safe(shown)


def _vms(pool: AddressPool, reserved: Sequence[AddressRange]) -> int:
    return sum(each.size for each in pool.usable(reserved)) // pool.block
