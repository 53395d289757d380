"""vSphere HA: hosts and capacity that a cluster keeps for restarts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vsphere_ai.admission.base import MOVES, STARTS, AdmissionCase, Quantity, Reason, requirement
from vsphere_ai.admission.ha_slots import DEFAULT_MHZ, SlotPolicy, policy_of, slots_left
from vsphere_ai.admission.machine import NOTHING, Bounds, Machine
from vsphere_ai.admission.requirements import cpu_reservation as cpu
from vsphere_ai.admission.requirements import memory
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.text import counted

CONTROL, MEMORY, CPU = "summary.admissionControlInfo", "summary.effectiveMemory", "summary.effectiveCpu"
HOSTS = "ClusterFailoverHostAdmissionControlPolicy"
PERCENTAGE, SLOTS = "ClusterFailoverResourcesAdmissionControlPolicy", "ClusterFailoverLevelAdmissionControlPolicy"
FEWEST = 2
"""Hosts in service below which no other one is left to restart VMs on. Whether a percentage then refuses is unverified:
ClusterFailoverResourcesAdmissionControlPolicy names no least number of hosts."""
REMEDY = "power off VMs, reserve less, or change HA admission control"
WINDOWS = "power off VMs, take fewer hosts at once, or change HA admission control"
BAND = 1.0
"""Percentage points by which a figure that vCenter shows may differ from its own: how it rounds is unverified."""


@requirement(
    "admission.failover-host",
    "Dedicated failover hosts of vSphere HA",
    occasions=STARTS | MOVES,
    source="vSphere Availability 8.0, dedicated failover hosts; vSphere API, DisallowedOperationOnFailoverHost",
    reads={"ClusterComputeResource": ("configurationEx",)},
    faults=("DisallowedOperationOnFailoverHost",),
)
def failover_host(case: AdmissionCase) -> Reason | None:
    """A host that vSphere HA keeps for a failover powers no VM on, and takes none by vMotion."""
    cluster = case.situation.cluster(case.host.ref)
    policy = policy_of(cluster)
    if cluster is None or policy.get("_typeName") != HOSTS or case.host.ref not in (policy.get("failoverHosts") or ()):
        return None
    message = f"{cluster.name} keeps it as a failover host of vSphere HA"
    return case.no(message, "choose another host", fault="DisallowedOperationOnFailoverHost")


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
    in_service=lambda cluster: policy_of(cluster).get("_typeName") in (SLOTS, PERCENTAGE),
)
def ha(case: AdmissionCase) -> Iterator[Reason]:
    """HA keeps a part of the CPU and memory of a cluster free, and refuses power-ons that would take of it.

    A VM that was on and needs no more is refused, too, where HA keeps less free than it has to. With a percentage, the
    answer is unknown within one percentage point. A VM with large reservations makes every slot of the slot policy
    large. Hosts that the plan takes out of service count for nothing at that time: DRS empties none that HA needs, and
    no VM powers on beside them that HA has no room for. Whether a percentage refuses where fewer than two hosts are
    left in service has no public source, so that it is unknown. HA reserves no GPUs.
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


def _percentages(case: AdmissionCase, cluster: Facts) -> Iterator[Reason]:
    situation, policy, info = case.situation, policy_of(cluster), cluster.get(CONTROL) or {}
    up = [h for h in situation.hosts_of(cluster.ref) if _is_up(h)]
    down = [h for h in up if h.ref in situation.down]
    if down and len(up) - len(down) < FEWEST:
        left = counted(len(up) - len(down), "host")
        message = f"{left} of {cluster.name} would be in service: whether vSphere HA admits a VM then is unverified"
        yield case.unknown(message, WINDOWS)
    mine = situation.on(situation.home(case.vm.ref) or "").get(case.vm.ref)
    more = situation.more.cluster_mb.get(cluster.ref, NOTHING)
    for vm, sign in ((mine, -1), (case.vm, 1)):
        need = (vm.memory_need_mb if vm is not None else None) or NOTHING
        more = Bounds(more.low + sign * need.low, more.high + sign * need.high)
    yield from _left(
        case,
        "memory",
        info.get("currentMemoryFailoverResourcesPercent"),
        policy.get("memoryFailoverResourcesPercent"),
        _Taken(more, cluster.get(MEMORY), _sum([memory.capacity(h) for h in down])),
    )
    mhz = situation.more.cluster_mhz[cluster.ref] - (_reckoned(mine) if mine is not None else 0) + _reckoned(case.vm)
    yield from _left(
        case,
        "CPU",
        info.get("currentCpuFailoverResourcesPercent"),
        policy.get("cpuFailoverResourcesPercent"),
        _Taken(Bounds(mhz, mhz), cluster.get(CPU), _sum([cpu.capacity_mhz(h) for h in down])),
    )


def _sum(spans: Sequence[Bounds | None]) -> Bounds | None:
    known = [s for s in spans if s is not None]
    return sum(known, NOTHING) if len(known) == len(spans) else None


def _reckoned(vm: Machine) -> int:
    return max(vm.reserved_mhz, DEFAULT_MHZ)


def _takes_no_more(case: AdmissionCase) -> bool:
    if case.situation.before.home(case.vm.ref) is None:
        return False
    now, then = case.situation.machines.present(case.vm.ref), case.vm
    more = (then.memory_need_mb or NOTHING).high > (now.memory_need_mb or NOTHING).high
    return not more and then.reserved_mhz <= now.reserved_mhz


def _slots(case: AdmissionCase, cluster: Facts) -> Iterator[Reason]:
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


def _all_as_before(case: AdmissionCase, cluster: Facts) -> bool:
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

    more: Bounds
    capacity: float | None
    lost: Bounds | None


def _left(case: AdmissionCase, what: str, now: float | None, least: float | None, taken: _Taken) -> Iterator[Reason]:
    if now is None or least is None or not taken.capacity or taken.lost is None:
        yield case.unknown(f"how much {what} vSphere HA keeps free was not read")
        return
    if taken.more.high <= 0 and not taken.lost.high and float(now) >= float(least):
        return
    left = _share_left(float(now), taken.more, float(taken.capacity), taken.lost)
    expected = max((left.low + left.high) / 2, 0)
    message = f"vSphere HA keeps {least} % of the cluster's {what} free, and {expected:.1f} % would be left"
    if left.high < float(least):
        yield case.no(
            message,
            WINDOWS if taken.lost.high else "power off VMs, or change HA admission control",
            quantity=Quantity(float(least), left.high, "%"),
            fault="InsufficientFailoverResourcesFault",
        )
    elif left.low < float(least):
        yield case.unknown(message)


def _share_left(now: float, more: Bounds, capacity: float, lost: Bounds) -> Bounds:
    """Return the percentage that is left once VMs take `more`, and `lost` of the capacity is out of service.

    `now` is off by at most `BAND`, which weighs more the less capacity is left.
    """

    def left(shown: float, taken: float, gone: float) -> float:
        remaining = capacity - gone
        return 100 * (1 - (capacity * (1 - shown / 100) + taken) / remaining) if remaining > 0 else 0.0

    return Bounds(left(now - BAND, more.high, lost.high), left(now + BAND, more.low, lost.low))
