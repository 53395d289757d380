"""Reservations: addresses that an operator keeps from all sets, with a note that says for what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from vsphere_ai.addresses.holding import RESERVED, AddressLedger, HeldRange, Holding, NicHolding, Released
from vsphere_ai.addresses.request import AddressProblem, PoolSettings
from vsphere_ai.model.names.networks import AddressRange, without

_NOTE = re.compile(r"[^/\x00-\x1f]{1,80}")


@dataclass(frozen=True, order=True)
class Reservation:
    """A range of a pool that is kept from all sets; `note` says for what."""

    pool: str
    range: AddressRange
    note: str


def reservations(ledger: AddressLedger) -> list[Reservation]:
    """Return all reservations, in order."""
    own = ((nic.name, holding) for nic, holding in ledger.holdings.items() if nic.set == RESERVED)
    return sorted(Reservation(held.pool, held.range, note) for note, holding in own for held in holding.held)


def reserve(
    ledger: AddressLedger, terms: PoolSettings, span: AddressRange, note: str, pool_name: str = ""
) -> AddressLedger | AddressProblem:
    """Return the ledger in which a range of a pool is reserved, or why it cannot be.

    The pool is the one that gives these addresses; it is named where pools of several domains do.
    """
    if not _NOTE.fullmatch(note):
        return problem(span, "addresses.note", "the note needs 1 to 80 characters, without '/'", "give a shorter --for")
    names = [
        name
        for name, pool in terms.pools.items()
        if pool_name in ("", name)
        and any(u.first <= span.first and span.last <= u.last for u in pool.usable(terms.avoided))
        and pool.version == span.version
    ]
    if not names:
        where = f"'{pool_name}'" if pool_name else "no pool of the inventory"
        said = f"{where} does not give these addresses" if pool_name else f"{where} gives all of these addresses"
        return problem(
            span, "addresses.no-pool", said, "nothing is to be reserved there; vsphere-ai ipam list shows the pools"
        )
    if len(names) > 1:
        return problem(
            span, "addresses.domain", f"pools {', '.join(names)} give these addresses", "name one with --pool"
        )
    domain = terms.pools[names[0]].domain
    for nic, held in _holders(ledger, terms, domain, span):
        who = f"reserved for {nic.name}" if nic.set == RESERVED else f"held by {nic.name} of the set {nic.set}"
        help = "destroy its VMs or reserve other addresses" if nic.set != RESERVED else "release it first"
        return problem(span, "addresses.held", f"{held.range} is {who}", help)
    key = NicHolding(RESERVED, note, span.version)
    before = ledger.holdings.get(key, Holding())
    after = replace(before, held=(*before.held, HeldRange(names[0], span)))
    return replace(ledger, holdings={**ledger.holdings, key: after})


def unreserve(
    ledger: AddressLedger, terms: PoolSettings, span: AddressRange, pool_name: str = ""
) -> AddressLedger | AddressProblem:
    """Return the ledger in which a range is not reserved any more, or why it cannot be: it was not.

    The range is in quarantine afterwards, like what a set releases.
    """
    holdings, gone = dict(ledger.holdings), 0
    for nic, holding in ledger.holdings.items():
        if nic.set != RESERVED:
            continue
        kept, released = [], []
        for held in holding.held:
            if pool_name not in ("", held.pool) or not held.range.overlaps(span):
                kept.append(held)
                continue
            rest = without([held.range], [span])
            kept += [HeldRange(held.pool, part) for part in rest]
            released += [Released(held.pool, part, terms.now) for part in without([held.range], rest)]
        gone += sum(each.range.size for each in released)
        holdings[nic] = replace(holding, held=tuple(kept), released=(*holding.released, *released))
    if gone != span.size:
        message = f"{gone} of these {span.size} addresses are reserved"
        return problem(span, "addresses.not-reserved", message, "vsphere-ai ipam show lists the reservations")
    return replace(ledger, holdings=holdings).tidied(terms.pools, terms.now)


def _holders(
    ledger: AddressLedger, terms: PoolSettings, domain: str, span: AddressRange
) -> Iterator[tuple[NicHolding, HeldRange]]:
    for nic, holding in ledger.holdings.items():
        for held in holding.held:
            pool = terms.pools.get(held.pool)
            if held.range.overlaps(span) and (pool is None or pool.domain == domain):
                yield nic, held


def problem(span: AddressRange, rule: str, message: str, help: str) -> AddressProblem:
    """Return a problem of a range."""
    return AddressProblem(str(span), rule, f"{span}: {message}", help)
