"""Choice of pools for a NIC: those it names, else those with an affinity to its place, else the default of its family.

Precedence of affinities: VMs, hosts, folders, port groups. A pool that matches in the first of them in which two pools
differ comes first; those that are equal go by name. Pools that a NIC names keep the order in which it names them.
"""

from __future__ import annotations

from collections.abc import Iterable

from vsphere_ai.addresses.holding import NicHolding, Pools, PoolsExhausted
from vsphere_ai.addresses.pool import AffinityPlace
from vsphere_ai.addresses.request import AddressProblem, NicRequest, problem


def candidates(
    pools: Pools, which: NicHolding, nic: NicRequest, place: AffinityPlace
) -> tuple[str, ...] | AddressProblem:
    """Return the pools that a NIC at a place may have addresses of, in the order of preference."""
    unknown = [name for name in nic.pools if name not in pools]
    if unknown:
        return _no_pool(which, f"the inventory has no pool {listed(unknown)}")
    family = {n: p for n, p in pools.items() if p.version == which.version and (not nic.pools or n in nic.pools)}
    if nic.pools and not family:
        return _no_pool(which, f"none of {listed(nic.pools)} is of IPv{which.version}")
    fitting = {name: match for name, p in family.items() if (match := p.affinity.matches(place)) is not None}
    if nic.pools:
        chosen = [name for name in nic.pools if name in fitting]
    else:
        own = sorted((n for n in fitting if any(fitting[n])), key=lambda n: (*(not m for m in fitting[n]), n))
        chosen = list(dict.fromkeys((*own, *(n for n in fitting if family[n].default))))
    open_ones = tuple(name for name in chosen if not family[name].disabled)
    if open_ones:
        return open_ones
    if chosen:
        return problem(
            which, "addresses.pool-disabled", f"{listed(chosen)} is disabled", "enable it, or name another pool"
        )
    if nic.pools:
        message = f"{listed(nic.pools)} is not for it: {_words(place)}"
        return problem(which, "addresses.affinity", message, "correct 'affinity' of the pool, or name another pool")
    return _no_pool(
        which, f"no pool is named, none has an affinity to it, and none is the default of IPv{which.version}"
    )


def no_room(found: PoolsExhausted) -> AddressProblem:
    """Return the problem of pools that have not enough addresses."""
    waits = f"; {found.quarantined} are in quarantine" if found.quarantined else ""
    message = f"{listed(found.pools)} has addresses for {found.free} of {found.asked} VMs more{waits}"
    help = "add ranges or a further pool, or take fewer VMs; vsphere-ai ipam show says who holds addresses"
    return problem(found.nic, "addresses.no-room", message, help)


def listed(names: Iterable[str]) -> str:
    """Return names of pools in words."""
    return ", ".join(f"'{name}'" for name in names)


def _no_pool(nic: NicHolding, why: str) -> AddressProblem:
    return problem(nic, "addresses.no-pool", why, "name a pool of the inventory; vsphere-ai ipam list shows them")


def _words(place: AffinityPlace) -> str:
    parts = (
        ("VM", place.vms),
        ("host", place.hosts),
        ("folder", place.folders[-1:]),
        ("port group", place.portgroups[:1]),
    )
    named = [f"{what} {', '.join(names)}" for what, names in parts if any(names)]
    return ", ".join(named) or "its place is not known"
