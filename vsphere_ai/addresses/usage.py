"""Use of pools: how many addresses of each are held, reserved, in quarantine and free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from vsphere_ai.addresses.holding import RESERVED, AddressLedger
from vsphere_ai.addresses.leasing import out_of_range
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import PoolSettings
from vsphere_ai.model.names.networks import AddressRange, without


@dataclass(frozen=True)
class PoolUse:
    """Numbers of addresses of a pool; of one with blocks, numbers of blocks, but for reservations.

    `usable` is what the inventory lets it give. `out_of_range` is held and no part of that any more; `spare` is that
    part of `held` which is for VMs that sets may get later.
    """

    name: str
    usable: int
    held: int
    spare: int
    reserved: int
    quarantined: int
    free: int
    out_of_range: int


@dataclass(frozen=True)
class OutOfRange:
    """What a NIC of a set holds, or is reserved, that its pool does not give any more."""

    holder: str
    pool: str
    addresses: str
    why: str


def strays(ledger: AddressLedger, terms: PoolSettings) -> Iterator[OutOfRange]:
    """Yield what is held and is no part of its pool any more."""
    for nic, held, why in out_of_range(ledger, terms):
        yield OutOfRange(f"{nic.set}/{nic.name}", held.pool, str(held.range), why)


def usage(ledger: AddressLedger, terms: PoolSettings) -> Iterator[PoolUse]:
    """Yield the use of every pool of the inventory, by name, and of pools that it lacks and that are still held."""
    gone: Counter[str] = Counter()
    for _, held, _ in out_of_range(ledger, terms):
        gone[held.pool] += held.range.size
    holders = {held.pool for holding in ledger.holdings.values() for held in holding.held}
    for name in sorted({*terms.pools, *holders}):
        yield _use(ledger, terms, name, gone[name])


def _use(ledger: AddressLedger, terms: PoolSettings, name: str, gone: int) -> PoolUse:
    pool: AddressPool | None = terms.pools.get(name)
    block = pool.block if pool else 1
    usable = pool.usable(terms.avoided) if pool else []
    held = reserved = spare = 0
    for nic, holding in ledger.holdings.items():
        own = sum(each.range.size for each in holding.held if each.pool == name)
        if nic.set == RESERVED:
            reserved += own
        else:
            held += own // block
            spare += min(holding.spare, own // block)
    released = [
        each.range
        for holding in ledger.holdings.values()
        for each in holding.released
        if each.pool == name and (pool is None or terms.now - each.at < pool.quarantine)
    ]
    taken = list(ledger.taken(terms.pools, pool.domain, terms.now)) if pool else []
    return PoolUse(
        name=name,
        usable=_count(usable) // block,
        held=held,
        spare=spare,
        reserved=reserved,
        quarantined=_count(released) // block,
        free=_count(list(pool.blocks(without(usable, taken)))) // block if pool else 0,
        out_of_range=gone // block,
    )


def _count(ranges: list[AddressRange]) -> int:
    return sum(each.size for each in ranges)
