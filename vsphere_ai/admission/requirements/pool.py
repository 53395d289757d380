"""Resource pools: what a pool still guarantees, from its own reservation or from those above it."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import MOVES, STARTS, Case, Quantity, Reason, gb, requirement
from vsphere_ai.admission.machine import Span
from vsphere_ai.model.facts import Facts

CONFIG, RUNTIME = "config", "runtime"
_MIB = 1 << 20


@requirement(
    "admission.pool",
    "Resource pools",
    occasions=STARTS | MOVES | {"reconfigure"},
    source="vSphere Resource Management 6.7, resource pool admission control; vSphere API, ResourcePoolResourceUsage",
    reads={"ResourcePool": ("name", "parent", "owner", CONFIG, RUNTIME)},
    faults=("InsufficientMemoryResourcesFault", "InsufficientCpuResourcesFault"),
    shared=True,
)
def pool(case: Case) -> Iterator[Reason]:
    """A resource pool guarantees what it has reserved, and what pools above it give where it is expandable.

    A limit of the pool is never exceeded. A pool without reservation that is not expandable runs no VM at all, because
    of the overhead. Suspended VMs and those that are off take nothing. vSphere HA restarts VMs without asking a pool
    (vSphere Availability 6.5, GUID-1D8B1384).
    """
    vm, situation = case.vm, case.situation
    own = situation.view.estate.get(vm.pool)
    if own is not None and not str(own.get("parent") or "").startswith(("ResourcePool:", "VirtualApp:")):
        own = None  # the pool of a whole cluster or host: what its hosts have left decides
    if own is None or (situation.home(vm.ref) is not None and case.occasion in ("vmotion", "evacuate")):
        return
    need = vm.memory_need_mb
    if need is not None:
        took = _extra(case, vm.ref)
        free = _free(case, own, took)
        if free is not None:
            have = Span(free, free)
            left = f"the resource pool {own.name} has {gb(max(free, 0))} of memory left to reserve"
            refusal = f"{left}, the VM needs {gb(need.low)}"
            unproved = f"{left}, the VM needs up to {gb(need.high)}"
            help = "raise the reservation of the pool, make it expandable, or use another pool"
            reason = case.compared(need, have, "MB", (refusal, unproved, help, "InsufficientMemoryResourcesFault"))
            if reason is not None:
                yield reason
    if vm.reserved_mhz:
        free = _free(case, own, situation.more.pool_mhz[vm.pool] - _own(case, "reserved_mhz"), what="cpu")
        if free is not None and vm.reserved_mhz > free:
            left = f"the resource pool {own.name} has {free:,.0f} MHz left to reserve"
            message = f"{left}, the VM reserves {vm.reserved_mhz:,} MHz"
            yield case.no(
                message,
                "raise the reservation of the pool, or reserve less",
                quantity=Quantity(vm.reserved_mhz, free, "MHz"),
                fault="InsufficientCpuResourcesFault",
            )


def _extra(case: Case, ref: str) -> float:
    """Return the MB that the plan takes of the pool beyond what it had when it was read, this VM left out."""
    more = case.situation.more.pool_mb.get(case.vm.pool)
    mine = case.situation.on(case.situation.home(ref) or "").get(ref)
    taken = more.low if more else 0.0
    return taken - (mine.memory_need_mb.low if mine is not None and mine.memory_need_mb else 0.0)


def _own(case: Case, figure: str) -> float:
    mine = case.situation.on(case.situation.home(case.vm.ref) or "").get(case.vm.ref)
    return float(getattr(mine, figure)) if mine is not None else 0.0


def _free(case: Case, pool: Facts, taken: float, what: str = "memory") -> float | None:
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
