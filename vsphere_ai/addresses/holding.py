"""Holdings: which addresses the NICs of a set's VMs hold in pools, in the order of the VMs, and which were released.

The address of a VM follows from the holding of its set's NIC and from the VM's index alone: index 1 has the first
address that is held. So it is known before the VM exists, and the same again after a rebuild.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.model.names.networks import AddressRange, without

Pools = Mapping[str, AddressPool]
RESERVED = "*"
"""Stands in place of a set for addresses that an operator reserved by hand; no set has such a name."""


@dataclass(frozen=True)
class HeldRange:
    """A range of a pool."""

    pool: str
    range: AddressRange


@dataclass(frozen=True)
class Released:
    """A range of a pool that was held until `at`, in seconds since 1970."""

    pool: str
    range: AddressRange
    at: int


@dataclass(frozen=True, order=True)
class NicHolding:
    """What holds addresses: a NIC of all VMs of a set, in one family."""

    set: str
    name: str
    version: int


@dataclass(frozen=True)
class Holding:
    """What a NIC holds: ranges in the order of the VMs' indices, cut into blocks of `block` addresses, one per VM.

    The last `spare` of them are for VMs that the set may get later.
    """

    held: tuple[HeldRange, ...] = ()
    released: tuple[Released, ...] = ()
    block: int = 1
    spare: int = 0

    @property
    def count(self) -> int:
        """Return for how many VMs there are addresses."""
        return sum(each.range.size for each in self.held) // self.block

    def of(self, index: int) -> HeldRange:
        """Return what the VM with an index has, counted from 1; `IndexError` where it has nothing."""
        left = (index - 1) * self.block
        for each in self.held if left >= 0 else ():
            if left < each.range.size:
                first = each.range.first + left
                return HeldRange(each.pool, AddressRange(each.range.version, first, first + self.block - 1))
            left -= each.range.size
        raise IndexError(f"{self.count} VMs have addresses, and {index} is not one of them")


@dataclass(frozen=True)
class PoolsExhausted:
    """Pools that have not enough addresses: for how many VMs they were asked, and for how many they are free."""

    nic: NicHolding
    pools: tuple[str, ...]
    asked: int
    free: int
    quarantined: int
    """How many addresses are released and not free yet."""


@dataclass(frozen=True)
class AddressLedger:
    """All holdings of a vCenter. A change makes another one, which is written in one piece or not at all.

    `vms`: how many VMs the account saw that wrote it last, 0 where that was not counted.
    """

    holdings: Mapping[NicHolding, Holding] = field(default_factory=dict)
    vms: int = 0

    def taken(self, pools: Pools, domain: str, now: int, nic: NicHolding | None = None) -> Iterator[AddressRange]:
        """Yield what is held in the pools of a domain, and what is in quarantine at `now` for others than `nic`.

        What a NIC itself released may come back to it at once: what neighbours remember of it still fits.
        """
        for owner, holding in self.holdings.items():
            yield from (each.range for each in holding.held if _domain(pools, each.pool) == domain)
            waiting = _waiting(holding, pools, now) if owner != nic else ()
            yield from (each.range for each in waiting if _domain(pools, each.pool) == domain)

    def with_count(self, nic: NicHolding, count: int, choice: PoolChoice, now: int) -> AddressLedger | PoolsExhausted:
        """Return the ledger with addresses for exactly `count` VMs; what is beyond is released at `now`."""
        holding = self.holdings.get(nic, Holding())
        if not holding.held and choice.names:
            holding = replace(holding, block=choice.block)
        if count <= holding.count:
            return self._with(nic, _shrunk(holding, count, now))
        return self._grown(nic, holding, count, choice, now)

    def tidied(self, pools: Pools, now: int) -> AddressLedger:
        """Return the ledger without releases whose quarantine is over, and without holdings of nothing."""
        kept = {n: replace(h, released=tuple(_waiting(h, pools, now))) for n, h in self.holdings.items()}
        return replace(self, holdings={nic: each for nic, each in kept.items() if each.held or each.released})

    def with_spare(self, nic: NicHolding, spare: int) -> AddressLedger:
        """Return the ledger that says how many of a NIC's last addresses are for VMs that the set may get later."""
        holding = self.holdings.get(nic)
        return self if holding is None or holding.spare == spare else self._with(nic, replace(holding, spare=spare))

    def with_held(self, nic: NicHolding, held: Sequence[HeldRange], block: int) -> AddressLedger:
        """Return the ledger in which a NIC holds these as well, behind what it has; they are not looked for."""
        holding = self.holdings.get(nic, Holding())
        holding = holding if holding.held else replace(holding, block=block)
        return self._with(nic, replace(holding, held=_joined((*holding.held, *held))))

    def _with(self, nic: NicHolding, holding: Holding) -> AddressLedger:
        return replace(self, holdings={**self.holdings, nic: holding})

    def _grown(
        self, nic: NicHolding, holding: Holding, count: int, choice: PoolChoice, now: int
    ) -> AddressLedger | PoolsExhausted:
        missing = (count - holding.count) * holding.block
        found: list[HeldRange] = []
        for name in choice.names:
            pool = choice.pools[name]
            if pool.disabled:
                continue
            taken = [*self.taken(choice.pools, pool.domain, now, nic), *choice.avoided, *(each.range for each in found)]
            free = list(pool.blocks(without(pool.usable(), taken)))
            end = next((h.range.last + 1 for h in reversed((*holding.held, *found)) if h.pool == name), None)
            for part in _chosen(free, missing - sum(each.range.size for each in found), end):
                found.append(HeldRange(name, part))
        got = sum(each.range.size for each in found)
        if got < missing:
            waiting = (
                e for h in self.holdings.values() for e in _waiting(h, choice.pools, now) if e.pool in choice.names
            )
            quarantined = sum(each.range.size for each in waiting)
            return PoolsExhausted(nic, choice.names, missing // holding.block, got // holding.block, quarantined)
        released = tuple(
            Released(each.pool, rest, each.at)
            for each in holding.released
            for rest in without([each.range], [f.range for f in found if f.pool == each.pool])
        )
        return self._with(nic, replace(holding, held=_joined((*holding.held, *found)), released=released))


@dataclass(frozen=True)
class PoolChoice:
    """Where new addresses may come from: pools in the order of preference, all with blocks of one size.

    `avoided` are addresses that are not given although no set holds them: reserved, or seen in the network.
    """

    pools: Pools
    names: tuple[str, ...]
    avoided: tuple[AddressRange, ...] = ()

    @property
    def block(self) -> int:
        """Return how many addresses each VM gets."""
        return self.pools[self.names[0]].block if self.names else 1


def _domain(pools: Pools, name: str) -> str | None:
    return pools[name].domain if name in pools else None


def _waiting(holding: Holding, pools: Pools, now: int) -> Iterator[Released]:
    """Yield what is in quarantine; for a pool that the inventory has no longer, all of it."""
    for each in holding.released:
        if each.pool not in pools or now - each.at < pools[each.pool].quarantine:
            yield each


def _chosen(free: Sequence[AddressRange], missing: int, end: int | None) -> Iterator[AddressRange]:
    """Yield `missing` addresses, or as many as there are, in as few pieces as are easily found.

    First what follows `end`, then the first gap that holds all the rest, then the lowest ones.
    """
    after = [each for each in free if each.first == end]
    left = missing - sum(min(each.size, missing) for each in after)
    roomy = [each for each in free if each.size >= left and each not in after][:1]
    for each in dict.fromkeys((*after, *(roomy if left else ()), *free)):
        size = min(each.size, missing)
        if size <= 0:
            return
        missing -= size
        yield AddressRange(each.version, each.first, each.first + size - 1)


def _shrunk(holding: Holding, count: int, now: int) -> Holding:
    """Return the holding of the first `count` VMs; what the others had is released at `now`."""
    kept, gone, left = [], [], count * holding.block
    for each in holding.held:
        keep = min(each.range.size, left)
        left -= keep
        if keep:
            kept.append(
                HeldRange(each.pool, AddressRange(each.range.version, each.range.first, each.range.first + keep - 1))
            )
        if keep < each.range.size:
            rest = AddressRange(each.range.version, each.range.first + keep, each.range.last)
            gone.append(Released(each.pool, rest, now))
    spare = max(0, count - (holding.count - holding.spare))
    return replace(holding, held=tuple(kept), released=(*holding.released, *gone), spare=spare)


def _joined(held: Iterable[HeldRange]) -> tuple[HeldRange, ...]:
    """Join ranges that follow each other, and keep their order: it is that of the VMs."""
    found: list[HeldRange] = []
    for each in held:
        before = found[-1] if found else None
        if before is not None and before.pool == each.pool and before.range.last + 1 == each.range.first:
            found[-1] = HeldRange(each.pool, AddressRange(each.range.version, before.range.first, each.range.last))
        else:
            found.append(each)
    return tuple(found)
