"""vSphere HA admission control: capacity that a cluster keeps for restarts."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import STARTS, Case, Quantity, Reason, requirement
from vsphere_ai.admission.ha_slots import DEFAULT_MHZ, SlotPolicy, slots_left
from vsphere_ai.admission.machine import NOTHING
from vsphere_ai.admission.requirements.cpu_reservation import capacity_mhz
from vsphere_ai.admission.requirements.memory import capacity
from vsphere_ai.model.cluster_rules import Object
from vsphere_ai.model.facts import Facts

CONTROL, MEMORY, CPU = "summary.admissionControlInfo", "summary.effectiveMemory", "summary.effectiveCpu"
PERCENTAGE, HOSTS, SLOTS = (
    "ClusterFailoverResourcesAdmissionControlPolicy",
    "ClusterFailoverHostAdmissionControlPolicy",
    "ClusterFailoverLevelAdmissionControlPolicy",
)
BAND = 1.0
"""Percentage points within which the answer is not known: how vCenter rounds is unverified."""
CONNECTION, MAINTENANCE = "runtime.connectionState", "runtime.inMaintenanceMode"


@requirement(
    "admission.ha",
    "vSphere HA admission control",
    occasions=STARTS | {"reconfigure"},
    source="vSphere Availability 8.0, admission control; vSphere API, InsufficientFailoverResourcesFault",
    reads={"ClusterComputeResource": ("configurationEx", CONTROL, MEMORY, CPU)},
    faults=("InsufficientFailoverResourcesFault", "DisallowedOperationOnFailoverHost"),
    shared=True,
)
def ha(case: Case) -> Iterator[Reason]:
    """HA keeps a part of the CPU and memory of a cluster free, and refuses power-ons that would take of it.

    With a percentage, the answer is unknown within one percentage point. A dedicated failover host powers no VM on.
    A VM with large reservations makes every slot of the slot policy large. HA reserves no GPUs.
    """
    cluster = case.situation.cluster(case.host.ref)
    das: Object = ((cluster.get("configurationEx") if cluster else None) or {}).get("dasConfig") or {}
    if cluster is None or not das.get("enabled") or das.get("admissionControlEnabled") is False:
        return
    policy = das.get("admissionControlPolicy") or {}
    kind = policy.get("_typeName")
    if kind == HOSTS and case.host.ref in (policy.get("failoverHosts") or ()):
        message = f"{cluster.name} keeps it as a failover host of vSphere HA"
        yield case.no(message, "choose another host", fault="DisallowedOperationOnFailoverHost")
    if case.situation.before.home(case.vm.ref) is not None and _takes_no_more(case):
        return
    if kind == SLOTS:
        yield from _slots(case, cluster, das)
    if kind == PERCENTAGE:
        more = case.situation.more
        mine = case.situation.on(case.situation.home(case.vm.ref) or "").get(case.vm.ref)
        used = more.cluster_mb.get(cluster.ref, NOTHING).high
        used -= mine.memory_need_mb.high if mine is not None and mine.memory_need_mb else 0
        need = case.vm.memory_need_mb or NOTHING
        info = cluster.get(CONTROL) or {}
        yield from _left(
            case,
            "memory",
            info.get("currentMemoryFailoverResourcesPercent"),
            policy.get("memoryFailoverResourcesPercent"),
            (used + need.high, cluster.get(MEMORY)),
        )
        cpu = more.cluster_mhz[cluster.ref] - (mine.reserved_mhz if mine is not None else 0)
        yield from _left(
            case,
            "CPU",
            info.get("currentCpuFailoverResourcesPercent"),
            policy.get("cpuFailoverResourcesPercent"),
            (cpu + max(case.vm.reserved_mhz, DEFAULT_MHZ), cluster.get(CPU)),
        )


def _slots(case: Case, cluster: Facts, das: Object) -> Iterator[Reason]:
    """Count slots as they are with the VM, on hosts in service."""
    estate, policy = case.situation.view.estate, SlotPolicy.of(das)
    every = [estate[h.ref] for h in estate.hosts_in(cluster.ref)]
    hosts = [h for h in every if h.get(CONNECTION) == "connected" and not h.get(MAINTENANCE)]
    hosts = [h for h in hosts if h.ref not in case.situation.down]
    rooms = [(mhz, mb) for h in hosts if (mhz := capacity_mhz(h)) and (mb := capacity(h))]
    others = [m for h in every for ref, m in case.situation.on(h.ref).items() if ref != case.vm.ref]
    left = slots_left(policy, rooms, (*others, case.vm)) if policy and rooms and len(rooms) == len(hosts) else None
    if policy is None or left is None or left.low < 0 <= left.high:
        yield case.unknown(f"whether HA of {cluster.name} has a slot left for it is not known")
    elif left.high < 0:
        message = f"vSphere HA of {cluster.name} keeps the slots of {policy.hosts} of its hosts free, and with this VM"
        message += f" the others have {-left.high:.0f} too few for {len(others) + 1} VMs"
        help = "power off VMs, reserve less, or change HA admission control"
        yield case.no(message, help, "InsufficientFailoverResourcesFault")


def _takes_no_more(case: Case) -> bool:
    now, then = case.situation.machines.present(case.vm.ref), case.vm
    more = (then.memory_need_mb or NOTHING).high > (now.memory_need_mb or NOTHING).high
    return not more and then.reserved_mhz <= now.reserved_mhz


def _left(
    case: Case, what: str, now: float | None, least: float | None, taken: tuple[float, float | None]
) -> Iterator[Reason]:
    more, capacity = taken
    if now is None or least is None or not capacity:
        yield case.unknown(f"how much {what} vSphere HA keeps free was not read")
        return
    after = float(now) - 100 * more / float(capacity)
    message = f"vSphere HA keeps {least} % of the cluster's {what} free, and {after:.1f} % would be left"
    if after < float(least) - BAND:
        yield case.no(
            message,
            "power off VMs, or change HA admission control",
            quantity=Quantity(float(least), after, "%"),
            fault="InsufficientFailoverResourcesFault",
        )
    elif after < float(least) + BAND:
        yield case.unknown(message)
