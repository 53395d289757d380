"""Leases: addresses for the NICs of a set's VMs, all of them or none, and the problems where there are not enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from vsphere_ai.addresses.choosing import candidates, listed, no_room
from vsphere_ai.addresses.external import key_of, with_answers
from vsphere_ai.addresses.holding import (
    RESERVED,
    AddressLedger,
    HeldRange,
    Holding,
    NicHolding,
    PoolChoice,
    Pools,
    PoolsExhausted,
)
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import AddressProblem, Lease, Leases, NicRequest, PoolSettings, SetRequest, problem


def lease(ledger: AddressLedger, terms: PoolSettings, requests: Sequence[SetRequest]) -> Leases:
    """Return the leases of all requests, and the ledger that has them. It only adds: see `release`.

    The same ledger and requests have the same result. What a VM holds already it keeps.
    """
    after, problems = ledger, []
    for which, nic, count in _asked(terms.pools, requests):
        found = _grown(after, terms, which, nic, count)
        if isinstance(found, AddressProblem):
            problems.append(found)
        else:
            after = found
    asked = {which: count for which, _, count in _asked(terms.pools, requests)}
    before = tuple(_leases(ledger, terms.pools, asked))
    if problems:
        return Leases(ledger, before, (), tuple(sorted(set(problems))))
    leases = tuple(_leases(after, terms.pools, asked))
    known = set(before)
    return Leases(after, leases, tuple(each for each in leases if each not in known))


def wanted_keys(ledger: AddressLedger, terms: PoolSettings, requests: Sequence[SetRequest]) -> dict[str, list[str]]:
    """Return the keys that programs are to be asked for before `lease`, by the pools that are theirs."""
    found: dict[str, list[str]] = {}
    for which, nic, count in _asked(terms.pools, requests):
        present = ledger.holdings.get(which, Holding()).count
        for index in range(present + 1, count + nic.spare + 1):
            names = candidates(terms.pools, which, nic, nic.place(index))
            if not isinstance(names, AddressProblem) and terms.pools[names[0]].backend is not None:
                found.setdefault(names[0], []).append(key_of(terms.vcenter, which, index))
    return found


NO_VM = 0


def release(
    ledger: AddressLedger, terms: PoolSettings, set_name: str, keep: int | Mapping[NicHolding, int] = 0
) -> AddressLedger:
    """Return the ledger in which a set holds addresses for `keep` VMs, or by NIC for as many; none for other NICs.

    Do that once the VMs are gone: the rest is in quarantine from `terms.now`.
    """
    after = ledger
    for nic, holding in ledger.holdings.items():
        if nic.set == set_name:
            asked = keep if isinstance(keep, int) else keep.get(nic, NO_VM)
            count = min(asked, holding.count)
            kept = after.with_count(nic, count, PoolChoice(terms.pools, (), terms.avoided), terms.now)
            after = kept if isinstance(kept, AddressLedger) else after
    return after.tidied(terms.pools, terms.now)


def all_leases(ledger: AddressLedger, pools: Pools) -> list[Lease]:
    """Return every lease of the ledger in pools that are there, in order; reservations are none."""
    counts = {nic: holding.count for nic, holding in ledger.holdings.items() if nic.set != RESERVED}
    return sorted(_leases(ledger, pools, counts))


def versions_of(nic: NicRequest, pools: Pools) -> tuple[int, ...]:
    """Return the families in which a NIC asks for addresses: those of its pools, or of all pools that fit it."""
    if nic.versions:
        return nic.versions
    named = {pools[name].version for name in nic.pools if name in pools}
    fitting = {p.version for p in pools.values() if p.default or any(p.affinity.matches(nic.place(1)) or ())}
    return tuple(sorted(named if nic.pools else fitting)) or (4,)


def out_of_range(ledger: AddressLedger, terms: PoolSettings) -> Iterator[tuple[NicHolding, HeldRange, str]]:
    """Yield what is held and is no part of its pool any more, with the reason in words: the pool was edited."""
    names = {held.pool for holding in ledger.holdings.values() for held in holding.held} & terms.pools.keys()
    usable = {name: terms.pools[name].usable(terms.avoided) for name in names}
    for nic, holding in ledger.holdings.items():
        for held in holding.held:
            pool = terms.pools.get(held.pool)
            if pool is None:
                yield nic, held, f"the inventory has no pool '{held.pool}'"
            elif pool.block != holding.block and nic.set != RESERVED:
                yield nic, held, f"the blocks of '{held.pool}' have {pool.block} addresses, and not {holding.block}"
            elif not any(u.first <= held.range.first and held.range.last <= u.last for u in usable[held.pool]):
                yield nic, held, f"'{held.pool}' does not give these addresses, or reserved_addresses has them"


def _asked(pools: Pools, requests: Sequence[SetRequest]) -> Iterator[tuple[NicHolding, NicRequest, int]]:
    """Yield what holds addresses, one per NIC and family, with its request and the number of VMs."""
    for request in requests:
        for nic in request.nics:
            for version in versions_of(nic, pools):
                yield NicHolding(request.name, nic.name, version), nic, request.count


def _grown(
    ledger: AddressLedger, terms: PoolSettings, which: NicHolding, nic: NicRequest, count: int
) -> AddressLedger | AddressProblem:
    """Return the ledger in which a NIC has addresses for `count` VMs and the spare ones, or why it cannot."""
    holding = ledger.holdings.get(which, Holding())
    wrong = _edited(ledger, terms, which, nic)
    if wrong is not None:
        return wrong
    wanted = range(holding.count + 1, count + nic.spare + 1)
    for place, indices in groupby(wanted, nic.place):
        names = candidates(terms.pools, which, nic, place)
        if isinstance(names, AddressProblem):
            return names
        blocks = {terms.pools[name].block for name in names} | ({holding.block} if holding.held else set())
        if len(blocks) > 1:
            message = f"pools {listed(names)} give blocks of different sizes"
            return problem(
                which, "addresses.block-size", message, "name pools whose blocks have the size of those it holds"
            )
        new = list(indices)
        if any(terms.pools[name].backend for name in names):
            given = with_answers(ledger, terms, which, names, new)
            if isinstance(given, AddressProblem):
                return given
            ledger = given
        else:
            choice = PoolChoice(terms.pools, names, (*terms.avoided, *terms.seen))
            grown = ledger.with_count(which, new[-1], choice, terms.now)
            if isinstance(grown, PoolsExhausted):
                alike = [i for i in wanted if candidates(terms.pools, which, nic, nic.place(i)) == names]
                earlier = sum(index < new[0] for index in alike)
                return no_room(replace(grown, asked=len(alike), free=earlier + grown.free))
            ledger = grown
        holding = ledger.holdings[which]
    return ledger.with_spare(which, max(0, min(nic.spare, holding.count - count)))


def _edited(ledger: AddressLedger, terms: PoolSettings, which: NicHolding, nic: NicRequest) -> AddressProblem | None:
    """Return why what a NIC holds contradicts the inventory or the playbook of now."""
    own = AddressLedger({which: ledger.holdings[which]} if which in ledger.holdings else {})
    for _, held, why in out_of_range(own, terms):
        help = (
            "undo the change of the pool, or name the inventory that has it (-i): VMs of the set have these addresses"
        )
        return problem(which, "addresses.out-of-range", f"it holds {held.range} of '{held.pool}': {why}", help)
    for held in own.holdings[which].held if nic.pools and own.holdings else ():
        if held.pool not in nic.pools:
            message = f"it holds {held.range} of '{held.pool}', and the playbook names {listed(nic.pools)}"
            return problem(
                which, "addresses.other-pool", message, f"add '{held.pool}' to the pools, or destroy the VMs first"
            )
    return None


def _leases(ledger: AddressLedger, pools: Pools, counts: Mapping[NicHolding, int]) -> Iterator[Lease]:
    for nic, count in counts.items():
        holding = ledger.holdings.get(nic, Holding())
        for index in range(1, min(count, holding.count) + 1):
            held = holding.of(index)
            if held.pool in pools:
                yield lease_of(nic, index, held, pools[held.pool])


def lease_of(nic: NicHolding, index: int, held: HeldRange, pool: AddressPool) -> Lease:
    """Return the lease of a VM for what it holds of a pool."""
    gateway = pool.gateway_of(held.range)
    routes = tuple((route.to, route.via or gateway or "") for route in pool.routes)
    return Lease(nic, index, held.pool, held.range, str(pool.own_address(held.range)), pool.prefix, gateway, routes)
