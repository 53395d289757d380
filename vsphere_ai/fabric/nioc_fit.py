"""What stands against bandwidth under Network I/O Control: of a switch and its pools, and of adapters of VMs.

Source: vSphere Networking 7.0, "vSphere Network I/O Control"; what these do not say is marked where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from vsphere_ai.fabric import PORT_GROUP, ethernet, nioc, switch_of
from vsphere_ai.fabric.adapter import NetworkAdapter
from vsphere_ai.fabric.nioc import Bandwidth
from vsphere_ai.facts import Estate, Facts, View
from vsphere_ai.state import Problem, Target


class Wanted(Protocol):
    """What a switch is to have, in full."""

    nioc: bool | None
    bandwidth: Mapping[Any, Bandwidth] | None
    resource_pools: Mapping[str, Any] | None


def joining(target: Target, view: View) -> dict[str, str]:
    """Return the pools that the playbook puts port groups of a datacenter into, by port group."""
    said = getattr(view.stated.get((target.ref, "port_groups")), "port_groups", None) or {}
    return {name: group.resource_pool for name, group in said.items() if group.resource_pool}


def switch_problems(target: Target, view: View, name: str, switch: Facts | None, wanted: Wanted) -> Iterator[Problem]:
    """Yield what stands against bandwidth and pools that change; `switch` is None for a new one."""
    now = nioc.bandwidths(switch) if switch else {}
    have = {n: nioc.quota(p) for n, p in nioc.pools(switch).items()} if switch else {}
    bandwidth, pools = nioc.changed(wanted.bandwidth, now), nioc.changed(wanted.resource_pools, have)
    if not bandwidth and not pools:
        return
    if not wanted.nioc and (any(pools.values()) or nioc.set_by_hand(bandwidth)):
        yield Problem(target, "switches.nioc", f"{name}: bandwidth and pools need Network I/O Control, which is off",
                      f"write switches: {{{name}: {{nioc: true}}}}")  # fmt: skip
    version = switch.get(nioc.VERSION, "version3") if switch else "version3"
    if version != "version3":
        yield Problem(target, "switches.nioc",
                      f"{name} has Network I/O Control {version}, bandwidth and pools need version3",
                      "upgrade Network I/O Control of the switch in the vSphere Client; it cannot be undone",
                      )  # fmt: skip
    for kind, given in bandwidth.items():
        if isinstance(given.limit, int) and (given.reservation or 0) > given.limit:
            yield Problem(target, "switches.reservation",
                          f"{name}: {kind} reserves {given.reservation} Mbit/s, and its limit is {given.limit}",
                          "write a limit that is not below the reservation")  # fmt: skip
    after = {**now, **bandwidth}
    if switch is not None:
        yield from _too_much(target, view.estate, switch, after)
        each = max(nioc.reserved(now), nioc.reserved(after))
        yield from _in_use(target, view, switch, nioc.in_turn(switch, pools, each))
    yield from _over_quota(target, name, switch, after, {**have, **pools})


def _too_much(target: Target, estate: Estate, switch: Facts, after: Mapping[Any, Bandwidth]) -> Iterator[Problem]:
    """All reservations together fit on the slowest NIC, of which a part stays free."""
    total, slowest = sum(b.reservation or 0 for b in after.values()), nioc.slowest_nic(switch, estate)
    percent = switch.get(nioc.RATIO, nioc.DEFAULT_RATIO)
    if slowest and total > slowest[0] * percent // 100:
        yield Problem(target, "switches.reservation",
                      f"{switch.name}: {total} Mbit/s are reserved on each NIC; {percent} % of {slowest[0]} can be on "
                      f"{slowest[1]}",
                      f"reserve at most {slowest[0] * percent // 100} Mbit/s for all kinds of traffic together",
                      )  # fmt: skip


def _in_use(
    target: Target, view: View, switch: Facts, turns: tuple[dict[str, Any], dict[str, Any]]
) -> Iterator[Problem]:
    """A pool goes when no port group is in it: those that leave it in this plan do so before what comes last."""
    said, (first, last) = joining(target, view), turns
    groups = [g for g in view.estate.of_type(PORT_GROUP) if g.get("config.distributedVirtualSwitch") == switch.ref]
    for name in (n for n, quota in {**first, **last}.items() if quota is None):
        leaving = said if name in last else {}
        users = sorted(g.name for g in groups if leaving.get(g.name, nioc.pool_of(g, switch)) == name)
        if users:
            given = ", ".join(f"{u}: {{resource_pool: {nioc.NO_POOL}}}" for u in users)
            yield Problem(target, "switches.pool-in-use",
                          f"{switch.name}: {name} has port groups and is not removed: {', '.join(users)}",
                          f"take them out: port_groups: {{{given}}}")  # fmt: skip


def _over_quota(
    target: Target, name: str, switch: Facts | None, after: Mapping[Any, Bandwidth], pools: Mapping[str, Any]
) -> Iterator[Problem]:
    """All quotas together are not more than VM traffic has reserved on all NICs of the switch."""
    total, each = sum(q or 0 for q in pools.values()), nioc.reserved(after)
    count = nioc.nic_count(switch) if switch else 0
    if total > each * count:
        yield Problem(target, "switches.resource-pools",
                      f"{name}: its pools reserve {total} Mbit/s; there are {each * count}: {each} Mbit/s for "
                      f"{nioc.VIRTUAL_MACHINE} on each of {count} NICs",
                      f"reserve more with bandwidth: {{{nioc.VIRTUAL_MACHINE}: {{reservation: N}}}}, or less in the "
                      "pools; NICs that hosts do not give it yet do not count")  # fmt: skip


def group_problems(target: Target, estate: Estate, name: str, pool: str | None, switch: Facts) -> Iterator[Problem]:
    """Yield what stands against putting a port group into a pool of its switch; it may be there already."""
    group = next((g for g in estate.of_type(PORT_GROUP) if g.name == name
                  and g.get("config.distributedVirtualSwitch") == switch.ref), None)  # fmt: skip
    if pool in (None, nioc.NO_POOL) or (group is not None and nioc.pool_of(group, switch) == pool):
        return
    there = nioc.pools(switch)
    if pool not in there:
        yield Problem(target, "port_groups.resource-pool", f"{name}: {switch.name} has no network resource pool {pool}",
                      f"it has {', '.join(sorted(there)) or 'none'}; add one with switches: {{{switch.name}: "
                      f"{{resource_pools: {{{pool}: N}}}}}}")  # fmt: skip
    if not nioc.is_on(switch):
        yield Problem(target, "port_groups.resource-pool",
                      f"{name}: a pool needs version 3 of Network I/O Control, and {switch.name} has it off or older",
                      f"write switches: {{{switch.name}: {{nioc: true}}}}")  # fmt: skip


def adapter_problems(target: Target, view: View, nics: Iterable[NetworkAdapter]) -> Iterator[Problem]:
    """Yield what stands against the bandwidth of adapters that have some."""
    for nic in nics:
        name, rule = ethernet.named(view.estate, nic.port_group), "adapters.bandwidth"
        group = view.estate.get(nic.port_group) if ethernet.is_distributed(nic.port_group) else None
        switch = switch_of(view.estate, group) if group else None
        if nic.type == "sriov":
            # vSphere Networking 7.0, "About vSphere Network I/O Control Version 3"
            yield Problem(target, rule, f"the traffic of an SR-IOV adapter on {name} passes Network I/O Control by",
                          "leave shares, reservation and limit out for it")  # fmt: skip
            continue
        if isinstance(nic.limit, int) and (nic.reservation or 0) > nic.limit:
            yield Problem(target, rule, f"{nic.reservation} Mbit/s are reserved on {name}, the limit is {nic.limit}",
                          "write a limit that is not below the reservation")  # fmt: skip
        if group is None or switch is None:
            if ethernet.is_port_group(nic.port_group):  # else something says that there is none
                yield Problem(target, rule, f"{name} is on no distributed switch, bandwidth needs one",
                              "leave shares, reservation and limit out, or name a distributed port group",
                              )  # fmt: skip
        elif not nioc.is_on(switch):
            yield Problem(target, rule, f"{name}: Network I/O Control of {switch.name} is off, or not version 3",
                          f"add switches: {{{switch.name}: {{nioc: true}}}} to a play for the datacenter")  # fmt: skip
        elif nic.reservation:
            yield from _reservation_problems(target, view, nic, group, switch)


def _reservation_problems(
    target: Target, view: View, nic: NetworkAdapter, group: Facts, switch: Facts
) -> Iterator[Problem]:
    """One adapter sends over one NIC at a time; all adapters of a pool that are on share its quota."""
    most, wanted = nioc.reserved(nioc.bandwidths(switch)), nic.reservation or 0
    if wanted > most:
        kind = nioc.VIRTUAL_MACHINE
        yield Problem(target, "adapters.reservation",
                      f"{wanted} Mbit/s on {group.name}: VMs have {most} reserved on each NIC of {switch.name}",
                      f"reserve less, or write switches: {{{switch.name}: {{bandwidth: {{{kind}: {{reservation: "
                      f"{wanted}}}}}}}}}")  # fmt: skip
    pool = nioc.pools(switch).get(nioc.pool_of(group, switch))
    if pool is None:
        return
    used = sum(
        _reserved(view, vm, switch, str(pool["key"])) for vm in view.estate.vms if vm == target or _is_on(view, vm)
    )
    if used > nioc.quota(pool):
        yield Problem(target, "adapters.reservation",
                      f"{used} Mbit/s with what running VMs have of pool {pool['name']}, which reserves "
                      f"{nioc.quota(pool)}",
                      f"reserve less, or write switches: {{{switch.name}: {{resource_pools: "
                      f"{{{pool['name']}: {used}}}}}}}")  # fmt: skip


def _is_on(view: View, vm: Target) -> bool:
    return bool(view.facts(vm.ref).get("runtime.powerState") == "poweredOn")


def _reserved(view: View, vm: Target, switch: Facts, key: str) -> int:
    """Return what the adapters of a VM reserve of a pool; a VM that was not read counts for nothing."""
    found = 0
    for nic in getattr(view.state(vm.ref, "adapters"), "adapters", None) or ():
        group = view.estate.get(nic.port_group)
        same = group is not None and group.get("config.distributedVirtualSwitch") == switch.ref
        found += (nic.reservation or 0) if same and group and group.get(nioc.POOL_KEY) == key else 0
    return found
