"""Checks of bandwidth under Network I/O Control: of a switch and its pools, and of adapters of VMs.

Source: vSphere Networking 7.0, "vSphere Network I/O Control"; what these do not say is marked where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vsphere_ai.fabric import dvs, networks, nioc
from vsphere_ai.fabric.api_types import ResourcePool
from vsphere_ai.fabric.dvs import PORT_GROUP, switch_of
from vsphere_ai.fabric.nioc import Bandwidth
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers import ethernet, pool_use
from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter
from vsphere_ai.resources.host_settings import HasSwitches, SwitchSettings
from vsphere_ai.resources.mixins import stated


class JoinsPools:
    """A kind whose states put port groups into network resource pools."""

    def pools_joined(self, target: Target, estate: Estate) -> dict[str, str]:
        """Return port group, as `networks.label` names it -> pool."""
        raise NotImplementedError


def joining(target: Target, view: View) -> dict[str, str]:
    """Return the pools that the playbook puts port groups of a datacenter into, by port group."""
    found = (said.pools_joined(target, view.estate) for said in stated(view, target.ref, JoinsPools))
    return {group: pool for joined in found for group, pool in joined.items()}


def said_of(target: Target, view: View, switch: str) -> SwitchSettings | None:
    """Return what the playbook itself says of a switch of a datacenter; None when it says nothing."""
    return next((said.switch(switch) for said in stated(view, target.ref, HasSwitches)), None)


def is_off_by_hand(view: View, switch: Facts) -> bool:
    """Return whether the playbook states ``nioc: false`` for a switch."""
    at = view.estate.datacenter_of(switch.ref)
    said = said_of(at, view, switch.name) if at else None
    return said is not None and said.nioc is False


def _stated(target: Target, view: View, name: str, wanted: SwitchSettings) -> bool:
    """Return whether the playbook states bandwidth or pools that need Network I/O Control, changed or not."""
    said = said_of(target, view, name)
    if said is None or said.nioc is False:
        return False
    bandwidth = {k: b for k, b in (wanted.bandwidth or {}).items() if k in (said.bandwidth or {})}
    pools = {n: q for n, q in (wanted.resource_pools or {}).items() if n in (said.resource_pools or {})}
    return bool(any(pools.values()) or nioc.set_by_hand(bandwidth))


def switch_problems(
    target: Target, view: View, name: str, switch: Facts | None, wanted: SwitchSettings
) -> Iterator[Problem]:
    """Yield the problems of bandwidth and pools; `switch` is None for a new one."""
    now = nioc.bandwidths(switch) if switch else {}
    have = {n: nioc.quota(p) for n, p in nioc.pools(switch).items()} if switch else {}
    bandwidth, pools = nioc.changed(wanted.bandwidth, now), nioc.changed(wanted.resource_pools, have)
    used = _stated(target, view, name, wanted)
    changes = any(pools.values()) or nioc.set_by_hand(bandwidth)
    if (changes and not wanted.nioc) or (used and wanted.nioc is False):
        message = f"{name}: bandwidth and pools need Network I/O Control, which is off"
        yield Finding.problem(target, "switches.nioc", message, f"write switches: {{{name}: {{nioc: true}}}}")
    if not bandwidth and not pools and not used:
        return
    version = switch.get(nioc.VERSION, "version3") if switch else "version3"
    if version != "version3":
        message = f"{name} has Network I/O Control {version}, bandwidth and pools need version3"
        remedy = "upgrade Network I/O Control of the switch in the vSphere Client; it cannot be undone"
        yield Finding.problem(target, "switches.nioc", message, remedy)
    if not bandwidth and not pools:
        return  # what is there already is not in the way
    for kind, given in bandwidth.items():
        if isinstance(given.limit, int) and (given.reservation or 0) > given.limit:
            message = f"{name}: {kind} reserves {given.reservation} Mbit/s, and its limit is {given.limit}"
            yield Finding.problem(
                target, "switches.reservation", message, "write a limit that is not below the reservation"
            )
    after = {**now, **bandwidth}
    if switch is not None:
        yield from _too_much(target, view.estate, switch, after)
        each = max(nioc.reserved(now), nioc.reserved(after))
        yield from _in_use(target, view, switch, nioc.in_turn(switch, pools, each))
        yield from _held(target, view, switch, pools, (nioc.reserved(now), nioc.reserved(after)))
    yield from _over_quota(target, name, switch, after, {**have, **pools})


def _too_much(target: Target, estate: Estate, switch: Facts, after: Mapping[object, Bandwidth]) -> Iterator[Problem]:
    """All reservations together fit on the slowest NIC, of which a part stays free."""
    total, slowest = sum(b.reservation or 0 for b in after.values()), nioc.slowest_nic(switch, estate)
    percent = switch.get(nioc.RATIO, nioc.DEFAULT_RATIO)
    if slowest and total > (most := slowest[0] * percent // 100):
        possible = f"{percent} % of {slowest[0]} can be on {slowest[1]}"
        message = f"{switch.name}: {total} Mbit/s are reserved on each NIC; {possible}"
        remedy = f"reserve at most {most} Mbit/s for all kinds of traffic together"
        yield Finding.problem(target, "switches.reservation", message, remedy)


def _in_use(
    target: Target, view: View, switch: Facts, rounds: tuple[dict[str, Any], dict[str, Any]]
) -> Iterator[Problem]:
    """A pool goes when no port group is in it: those that leave it in this plan do so before what comes last."""
    said, (first, last) = joining(target, view), rounds
    groups = [g for g in view.estate.of_type(PORT_GROUP) if g.get("config.distributedVirtualSwitch") == switch.ref]
    for name in (n for n, quota in {**first, **last}.items() if quota is None):
        leaving = said if name in last else {}
        labels = {g.ref: networks.label(view.estate, g) for g in groups}
        users = sorted(labels[g.ref] for g in groups if leaving.get(labels[g.ref], nioc.pool_of(g, switch)) == name)
        if users:
            given = ", ".join(f"{u}: {{resource_pool: {nioc.NO_POOL}}}" for u in users)
            message = f"{switch.name}: {name} has port groups and is not removed: {', '.join(users)}"
            yield Finding.problem(target, "switches.pool-in-use", message, f"take them out: port_groups: {{{given}}}")


def _over_quota(
    target: Target, name: str, switch: Facts | None, after: Mapping[Any, Bandwidth], pools: Mapping[str, Any]
) -> Iterator[Problem]:
    """All quotas together are not more than VM traffic has reserved on all NICs of the switch."""
    total, each = sum(q or 0 for q in pools.values()), nioc.reserved(after)
    count = nioc.nic_count(switch) if switch else 0
    if total > each * count:
        there = f"{each * count}: {each} Mbit/s for {nioc.VIRTUAL_MACHINE} on each of {count} NICs"
        message = f"{name}: its pools reserve {total} Mbit/s; there are {there}"
        more = f"reserve more with bandwidth: {{{nioc.VIRTUAL_MACHINE}: {{reservation: N}}}}"
        remedy = f"{more}, or less in the pools; NICs that hosts do not give it yet do not count"
        yield Finding.problem(target, "switches.resource-pools", message, remedy)


def _held(
    target: Target, view: View, switch: Facts, pools: Mapping[str, Any], each: tuple[int, int]
) -> Iterator[Problem]:
    """What running VMs reserve stays theirs: with less, they would not power on again."""
    have = {n: nioc.quota(p) for n, p in nioc.pools(switch).items()}
    less = {n: q for n, q in pools.items() if q is not None and q < have.get(n, 0)}
    if not less and each[1] >= each[0]:
        return
    found, moved = pool_use.use(view, switch), joining(target, view)
    groups = dvs.groups_of(view.estate, switch)
    for name, quota in less.items():
        after = ((g.ref, moved.get(networks.label(view.estate, g), nioc.pool_of(g, switch))) for g in groups)
        held = found.of(ref for ref, pool in after if pool == name)
        if held > quota:
            reserved = f"running VMs reserve {held} Mbit/s of {name}, more than {quota}"
            message = f"{switch.name}: {reserved}: they would not power on again"
            remedy = "keep as much, or let them reserve less with adapters in the same playbook"
            yield Finding.problem(target, "switches.resource-pools", message, remedy)
    above = [vm for vm, most in found.largest.items() if most > each[1]] if each[1] < each[0] else []
    if above:
        less_than = f"less than adapters of running VMs reserve: {pool_use.listed(above)}"
        message = f"{switch.name}: {each[1]} Mbit/s for {nioc.VIRTUAL_MACHINE} is {less_than}"
        remedy = f"reserve {max(found.largest.values())}, or less for them with adapters in the same playbook"
        yield Finding.problem(target, "switches.reservation", message, remedy)


def switch_notes(target: Target, view: View, name: str, switch: Facts | None, wanted: SwitchSettings) -> Iterator[str]:
    """Say whose bandwidth goes with Network I/O Control, and whose part of a pool that shrinks is not known."""
    said = said_of(target, view, name)
    if wanted.nioc is False and said is not None and (said.bandwidth or said.resource_pools):
        yield f"{name}: bandwidth and pools count only with Network I/O Control, which is off"
    if switch is None:
        return
    goes_off = wanted.nioc is False and bool(switch.get(nioc.ENABLED))
    have = {n: nioc.quota(p) for n, p in nioc.pools(switch).items()}
    pools_less = [n for n, q in (wanted.resource_pools or {}).items() if q is not None and q < have.get(n, 0)]
    each = nioc.reserved(wanted.bandwidth) if wanted.bandwidth else None
    shrinks = bool(pools_less) or (each is not None and each < nioc.reserved(nioc.bandwidths(switch)))
    if not goes_off and not shrinks:
        return
    found = pool_use.use(view, switch)
    if goes_off:
        pools = sorted(n for n, quota in have.items() if quota)
        lost = [f"pools {', '.join(pools)}"] if pools else []
        lost += [f"what VMs reserve ({pool_use.listed(found.largest)})"] if found.largest else []
        if lost:
            yield f"{name}: without Network I/O Control nothing holds to {' and '.join(lost)}"
    if found.unread and shrinks:
        yield unread_note(switch, found.unread)


def unread_note(switch: Facts, names: Iterable[str]) -> str:
    """Say whose reservations are not in a sum."""
    listed = pool_use.listed(list(names))
    return f"{switch.name}: what running VMs reserve that cannot be read is not known and not counted: {listed}"


def group_problems(target: Target, view: View, name: str, pool: str | None, switch: Facts) -> Iterator[Problem]:
    """Yield the problems of a port group in a pool of its switch; it may be there already."""
    group = _labelled(target, view, name, switch)
    if pool in (None, nioc.NO_POOL):
        return
    if group is not None and nioc.pool_of(group, switch) == pool:
        if joining(target, view).get(name) == pool and not nioc.is_on(switch) and not is_off_by_hand(view, switch):
            yield _pool_without(target, name, switch)
        return
    there = nioc.pools(switch)
    if pool not in there:
        add = f"add one with switches: {{{switch.name}: {{resource_pools: {{{pool}: N}}}}}}"
        message = f"{name}: {switch.name} has no network resource pool {pool}"
        remedy = f"it has {', '.join(sorted(there)) or 'none'}; {add}"
        yield Finding.problem(target, "port_groups.resource-pool", message, remedy)
    if not nioc.is_on(switch):
        yield _pool_without(target, name, switch)
    elif group is not None and pool in there:
        yield from _joined(target, view, group, switch, there[pool])


def _labelled(target: Target, view: View, name: str, switch: Facts) -> Facts | None:
    """Return the port group of a switch that has a label."""
    group = networks.port_group(view.estate, target.ref, name)
    return group if group is not None and group.get("config.distributedVirtualSwitch") == switch.ref else None


def _pool_without(target: Target, name: str, switch: Facts) -> Problem:
    message = f"{name}: a pool needs version 3 of Network I/O Control, and {switch.name} has it off or older"
    return Finding.problem(
        target, "port_groups.resource-pool", message, f"write switches: {{{switch.name}: {{nioc: true}}}}"
    )


def _joined(target: Target, view: View, group: Facts, switch: Facts, pool: ResourcePool) -> Iterator[Problem]:
    """A port group brings what its running VMs reserve."""
    found, moved = pool_use.use(view, switch), joining(target, view)
    there = dvs.groups_of(view.estate, switch)
    after = ((g.ref, moved.get(networks.label(view.estate, g), nioc.pool_of(g, switch))) for g in there)
    held = found.of(ref for ref, name in after if name == pool["name"])
    if found.of([group.ref]) and held > nioc.quota(pool):
        too_much = f"{held} Mbit/s of {pool['name']}, which has {nioc.quota(pool)}"
        message = f"{group.name}: running VMs would reserve {too_much}: they would not power on again"
        more = f"write switches: {{{switch.name}: {{resource_pools: {{{pool['name']}: {held}}}}}}}"
        remedy = f"{more}, or let them reserve less with adapters in the same playbook"
        yield Finding.problem(target, "port_groups.resource-pool", message, remedy)


def group_notes(target: Target, view: View, name: str, pool: str | None, switch: Facts | None) -> Iterator[str]:
    """Say whose part of a pool is not known that a port group joins."""
    group = _labelled(target, view, name, switch) if switch else None
    if switch is None or group is None or pool in (None, nioc.NO_POOL, nioc.pool_of(group, switch)):
        return
    found = pool_use.use(view, switch)
    if found.unread:
        yield unread_note(switch, found.unread)


def adapter_problems(target: Target, view: View, nics: Iterable[NetworkAdapter]) -> Iterator[Problem]:
    """Yield the problems of the bandwidth of adapters that have some."""
    for nic in nics:
        name, rule = ethernet.named(view.estate, nic.port_group), "adapters.bandwidth"
        group = view.estate.get(nic.port_group) if ethernet.is_distributed(nic.port_group) else None
        switch = switch_of(view.estate, group)
        if nic.type == "sriov":
            # vSphere Networking 7.0, "About vSphere Network I/O Control Version 3"
            message = f"the traffic of an SR-IOV adapter on {name} passes Network I/O Control by"
            yield Finding.problem(target, rule, message, "leave shares, reservation and limit out for it")
            continue
        if isinstance(nic.limit, int) and (nic.reservation or 0) > nic.limit:
            message = f"{nic.reservation} Mbit/s are reserved on {name}, the limit is {nic.limit}"
            yield Finding.problem(target, rule, message, "write a limit that is not below the reservation")
        if group is None or switch is None:
            if ethernet.is_port_group(nic.port_group):  # else something says that there is none
                remedy = "leave shares, reservation and limit out, or name a distributed port group"
                yield Finding.problem(target, rule, f"{name} is on no distributed switch, bandwidth needs one", remedy)
        elif not nioc.is_on(switch):
            yield _without(target, name, switch)
        elif nic.reservation:
            yield from _reservation_problems(target, view, nic, group, switch)


def _without(target: Target, group: str, switch: Facts) -> Problem:
    message = f"{group}: Network I/O Control of {switch.name} is off, or not version 3"
    remedy = f"add switches: {{{switch.name}: {{nioc: true}}}} to a play for the datacenter"
    return Finding.problem(target, "adapters.bandwidth", message, remedy)


def counts(view: View, nic: NetworkAdapter) -> bool:
    """Return whether bandwidth of an adapter counts: Network I/O Control of its switch is not off."""
    group = view.estate.get(nic.port_group)
    switch = switch_of(view.estate, group)
    return switch is None or nioc.is_on(switch) or switch.get(nioc.ENABLED) is None


def kept_problems(target: Target, view: View, nics: Iterable[NetworkAdapter]) -> Iterator[Problem]:
    """Yield the problems of bandwidth that is stated and there: without Network I/O Control it is only written."""
    for nic in nics:
        group = view.estate.get(nic.port_group)
        switch = switch_of(view.estate, group)
        if switch is not None and not counts(view, nic) and not is_off_by_hand(view, switch):
            yield _without(target, ethernet.named(view.estate, nic.port_group), switch)


def _reservation_problems(
    target: Target, view: View, nic: NetworkAdapter, group: Facts, switch: Facts
) -> Iterator[Problem]:
    """One adapter sends over one NIC at a time; all adapters of a pool that are on share its quota."""
    most, wanted = nioc.reserved(nioc.bandwidths(switch)), nic.reservation or 0
    if wanted > most:
        message = f"{wanted} Mbit/s on {group.name}: VMs have {most} reserved on each NIC of {switch.name}"
        more = f"bandwidth: {{{nioc.VIRTUAL_MACHINE}: {{reservation: {wanted}}}}}"
        remedy = f"reserve less, or write switches: {{{switch.name}: {{{more}}}}}"
        yield Finding.problem(target, "adapters.reservation", message, remedy)
    pool = nioc.pools(switch).get(nioc.pool_of(group, switch))
    if pool is None:
        return
    short = pool_use.short_of(view, switch, str(pool["name"]), also=target)
    if short is None:
        return
    used, found = short
    at_least = "at least " if found.unread else ""
    enough = "N" if found.unread else used
    write = f"write switches: {{{switch.name}: {{resource_pools: {{{pool['name']}: {enough}}}}}}}"
    quota = f"pool {pool['name']}, which reserves {nioc.quota(pool)}"
    message = f"{at_least}{used} Mbit/s with what running VMs have of {quota}"
    yield Finding.problem(target, "adapters.reservation", message, f"reserve less, or {write}")


def adapter_notes(target: Target, view: View, nics: Iterable[NetworkAdapter]) -> Iterator[str]:
    """Say which running VMs may have a part of the same pools, and could not be read."""
    for group in (view.estate.get(n.port_group) for n in nics if n.reservation):
        switch = switch_of(view.estate, group)
        if group is not None and switch is not None and nioc.pools(switch).get(nioc.pool_of(group, switch)):
            unread = pool_use.use(view, switch, also=target).unread
            if unread:
                yield unread_note(switch, unread)
