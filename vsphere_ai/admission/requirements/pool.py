"""Resource pools: what a pool still guarantees, from its own reservation or from those above it."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import MOVES, STARTS, AdmissionCase, Reason, gb, requirement
from vsphere_ai.admission.machine import NOTHING, Bounds
from vsphere_ai.admission.requirements import cpu_reservation as cpu
from vsphere_ai.admission.requirements import memory
from vsphere_ai.model.facts import Facts

CONFIG, RUNTIME = "config", "runtime"
_MIB = 1 << 20


@requirement(
    "admission.pool",
    "Resource pools",
    occasions=STARTS | MOVES | {"reconfigure"},
    source="vSphere Resource Management 6.7, resource pool admission control; vSphere API, ResourcePoolResourceUsage",
    reads={
        "ResourcePool": ("name", "parent", "owner", CONFIG, RUNTIME),
        "HostSystem": (*memory.memory.reads["HostSystem"], *cpu.cpu_reservation.reads["HostSystem"]),
    },
    faults=("InsufficientMemoryResourcesFault", "InsufficientCpuResourcesFault"),
    shared=True,
    in_service=lambda cluster: cluster.ref.startswith("ClusterComputeResource:"),
)
def pool(case: AdmissionCase) -> Iterator[Reason]:
    """A resource pool guarantees what it has reserved, and what pools above it give where it is expandable.

    A limit of the pool is never exceeded. A pool without reservation that is not expandable runs no VM at all, because
    of the overhead. Suspended VMs and those that are off take nothing. The pool of the whole cluster has what its hosts
    in service have: hosts that the plan takes out of service count for nothing at that time. vSphere HA restarts VMs
    without asking a pool (vSphere Availability 6.5, GUID-1D8B1384).
    """
    vm, situation = case.vm, case.situation
    own = situation.view.estate.get(vm.pool)
    if own is None or (situation.home(vm.ref) is not None and case.occasion in MOVES):
        return
    if _is_root(own) and not (situation.down and case.occasion not in MOVES):
        return  # what its hosts have left decides
    need = vm.memory_need_mb
    have = _left(case, own, "memory") if need is not None else None
    if need is not None and have is not None:
        left = (
            f"the resource pool {own.name} has {gb(max(have.high, 0))} of memory left to reserve{_during_window(case)}"
        )
        refusal = f"{left}, the VM needs {gb(need.low)}"
        unproved = f"{left}, the VM needs up to {gb(need.high)}"
        help = "raise the reservation of the pool, make it expandable, or use another pool"
        reason = case.compared(need, have, "MB", (refusal, unproved, help, "InsufficientMemoryResourcesFault"))
        if reason is not None:
            yield reason
    have = _left(case, own, "cpu") if vm.reserved_mhz else None
    if have is not None:
        left = f"the resource pool {own.name} has {max(have.high, 0):,.0f} MHz left to reserve{_during_window(case)}"
        text = f"{left}, the VM reserves {vm.reserved_mhz:,} MHz"
        words = (text, text, "raise the reservation of the pool, or reserve less", "InsufficientCpuResourcesFault")
        reason = case.compared(Bounds(vm.reserved_mhz, vm.reserved_mhz), have, "MHz", words)
        if reason is not None:
            yield reason


def _is_root(pool: Facts) -> bool:
    """Return whether a pool is that of a whole cluster or host."""
    return not str(pool.get("parent") or "").startswith(("ResourcePool:", "VirtualApp:"))


def _during_window(case: AdmissionCase) -> str:
    names = sorted(case.situation.view.estate[ref].name for ref in case.situation.down)
    return f" while {', '.join(names)} is out of service" if names else ""


def _left(case: AdmissionCase, pool: Facts, what: str) -> Bounds | None:
    """Return what a pool can still reserve for the VM, in MB or MHz; None where it does not say."""
    taken = _taken(case, pool, what)
    free, least = _free(pool, taken.low, what), _free(pool, taken.high, what)
    if free is None or least is None:
        return None
    lost = _lost(case, pool, what)
    return Bounds(least - lost.high, free - lost.low)


def _taken(case: AdmissionCase, pool: Facts, what: str) -> Bounds:
    """Return what the plan takes of a pool beyond what it had when it was read, this VM left out.

    VMs of pools below that of a cluster take of it what their own pools have not reserved: between nothing and all.
    """
    situation, vm = case.situation, case.vm
    mine = situation.on(situation.home(vm.ref) or "").get(vm.ref)
    if what == "cpu":
        own = float(mine.reserved_mhz) if mine is not None else 0.0
        more = Bounds(situation.more.pool_mhz[pool.ref], situation.more.pool_mhz[pool.ref])
        every = more  # CPU that pools below have not reserved themselves is not counted
    else:
        own = mine.memory_need_mb.low if mine is not None and mine.memory_need_mb else 0.0
        more = situation.more.pool_mb.get(pool.ref, NOTHING)
        every = situation.more.cluster_mb.get(str(pool.get("owner") or ""), NOTHING) if _is_root(pool) else more
    below = every.low - more.low
    return Bounds(more.low - own + min(0.0, below), more.low - own + max(0.0, below))


def _lost(case: AdmissionCase, pool: Facts, what: str) -> Bounds:
    """Return what a pool has less while hosts are out of service: what comes of the pool of the cluster, if it does.

    The pool of the cluster loses what these hosts have. Where that is more than it has left, a pool below keeps what is
    its own: of that, the least is certain.
    """
    estate, situation = case.situation.view.estate, case.situation
    out = [estate[ref] for ref in situation.down if _is_counted(estate[ref], pool)]
    root: Facts | None = pool
    while root is not None and not _is_root(root):
        if not ((root.get(CONFIG) or {}).get(f"{what}Allocation") or {}).get("expandableReservation"):
            return NOTHING
        root = estate.get(str(root.get("parent") or ""))
    if not out or case.occasion in MOVES or root is None:
        return NOTHING
    spans = [memory.capacity(host) if what == "memory" else cpu.capacity_mhz(host) for host in out]
    if None in spans:
        return Bounds(0, float("inf"))
    gone = sum((span for span in spans if span is not None), NOTHING)
    if root is pool:
        return gone
    left = _free(root, _taken(case, root, what).high, what)
    return Bounds(min(gone.low, max(0.0, left)) if left is not None else 0.0, gone.high)


def _is_counted(host: Facts, pool: Facts) -> bool:
    """Return whether the pool of a cluster had what a host has when it was read."""
    connected = host.get("runtime.connectionState") == "connected" and not host.get("runtime.inMaintenanceMode")
    return connected and str(host.get("parent") or "") == str(pool.get("owner") or "")


def _free(pool: Facts, taken: float, what: str) -> float | None:
    """Return what a pool can still reserve, in MB or MHz; None where it does not say.

    `unreservedForVm` has the chain above in it already. What the plan itself takes comes off it; where the pool is
    expandable, the chain above bears the excess, and its free reservation is in that figure.
    """
    usage = (pool.get(RUNTIME) or {}).get(what) or {}
    unreserved = usage.get("unreservedForVm")
    if unreserved is None:
        return None
    free = (int(unreserved) / _MIB if what == "memory" else float(unreserved)) - taken
    allocation = (pool.get(CONFIG) or {}).get(f"{what}Allocation") or {}
    limit = allocation.get("limit")
    if limit is not None and int(limit) >= 0:
        used = usage.get("reservationUsed") or 0
        used = int(used) / _MIB if what == "memory" else float(used)
        free = min(free, int(limit) - used - taken)
    return free
