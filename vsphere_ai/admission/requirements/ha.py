"""vSphere HA admission control: capacity that a cluster keeps for restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vsphere_ai.admission.base import STARTS, Case, Quantity, Reason, requirement
from vsphere_ai.admission.ha_slots import DEFAULT_MHZ, SlotPolicy, policy_of, slots_left
from vsphere_ai.admission.machine import NOTHING, Machine
from vsphere_ai.admission.requirements import cpu_reservation as cpu
from vsphere_ai.admission.requirements import memory
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.text import counted

CONTROL, MEMORY, CPU = "summary.admissionControlInfo", "summary.effectiveMemory", "summary.effectiveCpu"
PERCENTAGE, SLOTS = "ClusterFailoverResourcesAdmissionControlPolicy", "ClusterFailoverLevelAdmissionControlPolicy"
FEWEST = 2
"""Hosts in service without which a percentage covers no failure."""
REMEDY = "power off VMs, reserve less, or change HA admission control"
WINDOWS = "power off VMs, take fewer hosts at once, or change HA admission control"
BAND = 1.0
"""Percentage points within which the answer is not known: how vCenter rounds is unverified."""


@requirement(
    "admission.ha",
    "vSphere HA admission control",
    occasions=STARTS | {"reconfigure", "evacuate"},
    source="vSphere Availability 8.0, admission control; vSphere API, InsufficientFailoverResourcesFault",
    reads={
        "ClusterComputeResource": ("configurationEx", CONTROL, MEMORY, CPU),
        "HostSystem": (*memory.memory.reads["HostSystem"], *cpu.cpu_reservation.reads["HostSystem"]),
    },
    faults=("InsufficientFailoverResourcesFault",),
    shared=True,
    of_cluster=lambda cluster: policy_of(cluster).get("_typeName") == SLOTS,
)
def ha(case: Case) -> Iterator[Reason]:
    """HA keeps a part of the CPU and memory of a cluster free, and refuses power-ons that would take of it.

    A VM that was on and needs no more is refused, too, where HA keeps less free than it has to. With a percentage, the
    answer is unknown within one percentage point. A VM with large reservations makes every slot of the slot policy
    large. Hosts that the plan takes out of service count for nothing at that time: DRS empties none that HA needs. HA
    reserves no GPUs.
    """
    cluster = case.situation.cluster(case.host.ref)
    policy = policy_of(cluster)
    if cluster is None or not policy:
        return
    kind = policy.get("_typeName")
    if case.occasion == "reconfigure" and _takes_no_more(case):
        return
    if kind == SLOTS:
        yield from _slots(case, cluster)
    if kind == PERCENTAGE:
        yield from _percentages(case, cluster)


def _percentages(case: Case, cluster: Facts) -> Iterator[Reason]:
    situation, policy, info = case.situation, policy_of(cluster), cluster.get(CONTROL) or {}
    down = [h for h in situation.hosts_of(cluster.ref) if h.ref in situation.down and _is_up(h)]
    if down and sum(_is_up(h) for h in situation.hosts_of(cluster.ref)) - len(down) < FEWEST:
        yield case.no("vSphere HA needs two hosts in service", WINDOWS, "InsufficientFailoverResourcesFault")
        return
    mine = situation.on(situation.home(case.vm.ref) or "").get(case.vm.ref)
    used = situation.more.cluster_mb.get(cluster.ref, NOTHING).high
    used -= mine.memory_need_mb.high if mine is not None and mine.memory_need_mb else 0
    need = case.vm.memory_need_mb or NOTHING
    lost = [m.high for h in down if (m := memory.capacity(h)) is not None]
    yield from _left(
        case,
        "memory",
        info.get("currentMemoryFailoverResourcesPercent"),
        policy.get("memoryFailoverResourcesPercent"),
        _Taken(used + need.high, cluster.get(MEMORY), sum(lost) if len(lost) == len(down) else None),
    )
    mhz = situation.more.cluster_mhz[cluster.ref] - (_reckoned(mine) if mine is not None else 0)
    lost = [c.high for h in down if (c := cpu.capacity_mhz(h)) is not None]
    yield from _left(
        case,
        "CPU",
        info.get("currentCpuFailoverResourcesPercent"),
        policy.get("cpuFailoverResourcesPercent"),
        _Taken(mhz + _reckoned(case.vm), cluster.get(CPU), sum(lost) if len(lost) == len(down) else None),
    )


def _reckoned(vm: Machine) -> int:
    return max(vm.reserved_mhz, DEFAULT_MHZ)


def _takes_no_more(case: Case) -> bool:
    if case.situation.before.home(case.vm.ref) is None:
        return False
    now, then = case.situation.machines.present(case.vm.ref), case.vm
    more = (then.memory_need_mb or NOTHING).high > (now.memory_need_mb or NOTHING).high
    return not more and then.reserved_mhz <= now.reserved_mhz


def _slots(case: Case, cluster: Facts) -> Iterator[Reason]:
    """Count slots as they are with the VM, on hosts in service; vCenter's own figure where nothing changes."""
    situation, slots = case.situation, SlotPolicy.of(cluster.get("configurationEx")["dasConfig"])
    level = (cluster.get(CONTROL) or {}).get("currentFailoverLevel")
    if slots is not None and level is not None and not situation.down and _all_as_before(case, cluster):
        if int(level) < slots.hosts:
            message = f"vSphere HA has to cover the failure of {counted(slots.hosts, 'host')}, and covers {level}"
            quantity = Quantity(slots.hosts, int(level), "hosts")
            yield case.no(message, REMEDY, "InsufficientFailoverResourcesFault", quantity)
        return
    hosts = [h for h in situation.hosts_of(cluster.ref) if _is_up(h) and h.ref not in situation.down]
    rooms = [(c, m) for h in hosts if (c := cpu.capacity_mhz(h)) and (m := memory.capacity(h))]
    every = (vm for h in situation.hosts_of(cluster.ref) for vm in situation.on(h.ref).values())
    others = [vm for vm in every if vm.ref != case.vm.ref]
    left = slots_left(slots, rooms, (*others, case.vm)) if slots and rooms and len(rooms) == len(hosts) else None
    if slots is None or left is None or left.low < 0 <= left.high:
        yield case.unknown(f"whether HA of {cluster.name} has a slot left for it is not known")
    elif left.high < 0:
        message = f"vSphere HA of {cluster.name} keeps the slots of {slots.hosts} of its hosts free, and with this VM"
        message += f" the others have {-left.high:.0f} too few for {len(others) + 1} VMs"
        yield case.no(message, REMEDY, "InsufficientFailoverResourcesFault")


def _all_as_before(case: Case, cluster: Facts) -> bool:
    """Return whether the VMs of a cluster are those that ran when it was read, and need what they needed."""
    situation = case.situation
    for host in situation.hosts_of(cluster.ref):
        now = {**situation.on(host.ref)}
        if case.vm.ref in now or situation.before.home(case.vm.ref) == host.ref:
            now[case.vm.ref] = case.vm
        if {r: _needs(v) for r, v in now.items()} != {r: _needs(v) for r, v in situation.before.on(host.ref).items()}:
            return False
    return situation.before.home(case.vm.ref) is not None


def _needs(vm: Machine) -> tuple[object, int]:
    return vm.memory_need_mb, vm.reserved_mhz


def _is_up(host: Facts) -> bool:
    return host.get("runtime.connectionState") == "connected" and not host.get("runtime.inMaintenanceMode")


class _Taken(NamedTuple):
    """What VMs take more than when a cluster was read, its capacity then, and what it has lost of it."""

    more: float
    capacity: float | None
    lost: float | None


def _left(case: Case, what: str, now: float | None, least: float | None, taken: _Taken) -> Iterator[Reason]:
    more, capacity, lost = taken
    if now is None or least is None or not capacity or lost is None:
        yield case.unknown(f"how much {what} vSphere HA keeps free was not read")
        return
    if more <= 0 and not lost and float(now) >= float(least):
        return
    left = float(capacity) - lost
    after = 100 * (float(capacity) * float(now) / 100 - lost - more) / left if left > 0 else 0.0
    message = f"vSphere HA keeps {least} % of the cluster's {what} free, and {max(after, 0):.1f} % would be left"
    if after < float(least) - BAND:
        yield case.no(
            message,
            WINDOWS if lost else "power off VMs, or change HA admission control",
            quantity=Quantity(float(least), after, "%"),
            fault="InsufficientFailoverResourcesFault",
        )
    elif after < float(least) + BAND:
        yield case.unknown(message)
