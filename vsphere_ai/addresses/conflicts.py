"""Conflicts of leases: with addresses in use by others, and with each other."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from vsphere_ai.addresses.holding import Pools
from vsphere_ai.addresses.in_use import InUse
from vsphere_ai.addresses.request import AddressProblem, Lease
from vsphere_ai.model.names.networks import AddressRange

CONFLICT = "addresses.conflict"


def find_conflicts(leases: Sequence[Lease], in_use: Iterable[InUse], pools: Pools) -> list[AddressProblem]:
    """Return the problems of leases whose addresses someone else has, naming the VM, the adapter or the pool.

    What the VM of a lease itself reports is no conflict, unless its guest says that the address is a duplicate.
    """
    index = _Index(leases, pools)
    found = [*_held_twice(leases, pools)]
    for each in in_use:
        for domain in _domains(each, pools):
            for lease in index.overlapping(domain, each.range):
                own = (each.set, each.index) == (lease.nic.set, lease.index)
                if not own or each.state == "duplicate":
                    found.append(_conflict(lease, each, own))
    return sorted(set(found))


def _conflict(lease: Lease, found: InUse, own: bool) -> AddressProblem:
    who = f"{found.who}{f' in {found.network}' if found.network else ''}"
    said = f"{found.range} of '{lease.pool}'"
    if own:
        message = f"{said}: the guest of {who} reports that another machine has it too"
        help = "find the other machine by its MAC address, in the neighbour table of the guest or of the switch"
    else:
        message = f"{said} is in use by {who}"
        help = "reserve the address for its user with vsphere-ai ipam reserve, or add it to 'exclude' of the pool"
    return AddressProblem(subject(lease), CONFLICT, f"{subject(lease)}: {message}", help)


def subject(lease: Lease) -> str:
    """Return what a lease is of: ``set/index/NIC``."""
    return f"{lease.nic.set}/{lease.index}/{lease.nic.name}"


def _held_twice(leases: Sequence[Lease], pools: Pools) -> Iterator[AddressProblem]:
    """Yield addresses that two leases have: a pool was given what another one gave before."""
    index = _Index(leases, pools)
    for lease in leases:
        domain = pools[lease.pool].domain if lease.pool in pools else ""
        for other in index.overlapping(domain, lease.given):
            if (other.nic, other.index) > (lease.nic, lease.index):
                message = f"{subject(lease)} and {subject(other)} both hold {lease.given}, of '{lease.pool}'"
                help = (
                    f"and of '{other.pool}': take the edit of the pools back, destroy one of the VMs, then edit again"
                )
                yield AddressProblem(subject(lease), CONFLICT, message, help)


class _Index:
    """Leases by domain, family and first address."""

    def __init__(self, leases: Iterable[Lease], pools: Pools) -> None:
        by_place: dict[tuple[str, int], list[Lease]] = defaultdict(list)
        for lease in leases:
            domain = pools[lease.pool].domain if lease.pool in pools else ""
            by_place[domain, lease.given.version].append(lease)
        self._sorted = {at: sorted(each, key=lambda one: one.given) for at, each in by_place.items()}
        self._firsts = {at: [one.given.first for one in each] for at, each in self._sorted.items()}
        self._largest = {at: max(one.given.size for one in each) for at, each in self._sorted.items()}

    def overlapping(self, domain: str, span: AddressRange) -> Iterator[Lease]:
        """Yield the leases of a domain that have an address of a range."""
        at = (domain, span.version)
        for number in range(bisect_right(self._firsts.get(at, []), span.last) - 1, -1, -1):
            lease = self._sorted[at][number]
            if lease.given.first + self._largest[at] <= span.first:
                return
            if lease.given.overlaps(span):
                yield lease


def _domains(found: InUse, pools: Pools) -> set[str]:
    """Return the domains that a network belongs to: those of the pools for it, or the one without a name."""
    if found.domain is not None:
        return {found.domain}
    own = {pool.domain for pool in pools.values() if pool.affinity.has_network(found.network)}
    return own or {""}
