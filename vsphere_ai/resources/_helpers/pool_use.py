"""Use of network resource pools: Mbit/s that running VMs reserve, now or after a plan, and the VMs not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from vsphere_ai.fabric import dvs, networks, nioc
from vsphere_ai.fabric.dvs import SWITCHES, groups_of, switch_of
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.network_adapter import HasAdapters, NetworkAdapter
from vsphere_ai.resources.mixins import kinds_with, offered, stated


@dataclass(frozen=True)
class Use:
    """What VMs reserve on one switch in Mbit/s: together by port group, and each one's largest adapter by VM."""

    by_group: Mapping[str, int]
    largest: Mapping[str, int]
    unread: tuple[str, ...]
    """Running VMs on its hosts whose devices could not be read."""

    def of(self, groups: Iterable[str]) -> int:
        """Return what is reserved on port groups together."""
        return sum(self.by_group.get(ref, 0) for ref in groups)


def is_on(view: View, vm: Target) -> bool:
    """Return whether a VM is powered on; a VM that is off reserves nothing."""
    return bool(view.facts(vm.ref).get("runtime.powerState") == "poweredOn")


def neighbours(estate: Estate, hosts: Collection[str]) -> set[str]:
    """Return the references of the running VMs that share pools with any VM of these hosts."""
    found: set[str] = set()
    for switch in estate.of_type(*SWITCHES):
        members = dvs.members(switch).keys()
        if members & set(hosts) and any(map(nioc.quota, nioc.pools(switch).values())):
            found |= members
    return {v.ref for h in found for v in estate.vms_on(h) if estate[v.ref].get("runtime.powerState") == "poweredOn"}


def groups_in(estate: Estate, switch: Facts, pool: str) -> tuple[str, ...]:
    """Return the references of the port groups that are in a pool."""
    return tuple(g.ref for g in groups_of(estate, switch) if nioc.pool_of(g, switch) == pool)


def use(view: View, switch: Facts, *, also: Target | None = None) -> Use:
    """Return what running VMs, and `also` one that may be off, reserve on a switch.

    A VM whose adapters are planned later counts with the less that the playbook says of it; more it has to ask for.
    """
    mine, found, largest = {g.ref for g in groups_of(view.estate, switch)}, Counter[str](), Counter[str]()
    unread, members = [], dvs.members(switch)
    # only VMs on hosts of a switch are on its ports; where its hosts are not known, any may be
    near = [v for host in members for v in view.estate.vms_on(host)] if members else view.estate.vms
    for vm in sorted({v for v in near if is_on(view, v)} | ({also} if also else set())):
        nics = next((s.cards() for s in offered(view, vm.ref, HasAdapters)), None)
        if nics is None and view.facts(vm.ref).get("runtime.host") in members:
            unread.append(vm.name)
        for ref in dict.fromkeys(n.port_group for n in nics or () if n.reservation and n.port_group in mine):
            each = [n.reservation or 0 for n in nics or () if n.port_group == ref]
            said = _said(view, vm, ref, len(each))
            each = each if said is None else min(each, said, key=sum)
            found[ref] += sum(each)
            if any(each):
                largest[vm.name] = max(largest[vm.name], *each)
    return Use(found, largest, tuple(unread))


def _said(view: View, vm: Target, group: str, count: int) -> list[int] | None:
    """Return what a playbook says that the adapters of a VM on a port group are to reserve; None if not of each."""
    planned = any(view.is_planned(vm.ref, kind) for kind in kinds_with(HasAdapters))
    said = None if planned else next(stated(view, vm.ref, HasAdapters), None)
    cards = (said.cards() if said else None) or ()
    meant = ((networks.for_vm(view.estate, vm.ref, card.port_group).network, card) for card in cards)
    entries = [card.reservation for network, card in meant if network is not None and network.ref == group]
    whole = len(entries) == count or (not entries and said is not None and said.removes_others())
    known = [entry for entry in entries if entry is not None]
    return known if whole and len(known) == len(entries) else None


def short_of(view: View, switch: Facts, pool: str, *, also: Target | None = None) -> tuple[int, Use] | None:
    """Return what is reserved of a pool that has not as much, and by whom; None when it suffices or has no quota."""
    there = nioc.pools(switch).get(pool)
    found = use(view, switch, also=also) if there is not None else None
    if there is None or found is None:
        return None
    total = found.of(groups_in(view.estate, switch, pool))
    return (total, found) if total > nioc.quota(there) else None


def no_power_on(view: View, nics: Iterable[NetworkAdapter]) -> str:
    """Return which pool is too small for the reservations of these adapters and of running VMs; empty if none is."""
    for group in (view.estate.get(n.port_group) for n in nics if n.reservation):
        switch = switch_of(view.estate, group)
        if group is None or switch is None or not nioc.is_on(switch):
            continue
        pool = nioc.pool_of(group, switch)
        if short := short_of(view, switch, pool):
            reserved = nioc.quota(nioc.pools(switch)[pool])
            return f"pool {pool} of {switch.name} reserves {reserved} Mbit/s, and running VMs have {short[0]}"
    return ""


def listed(names: Collection[str]) -> str:
    """Return the first three names, and the number of the others."""
    found = sorted(names)
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
