"""Memory that VMs have reserved, with what the host adds, against what the host can guarantee."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import RUNS, AdmissionCase, Quantity, Reason, gb, requirement
from vsphere_ai.admission.machine import Bounds
from vsphere_ai.model.facts import Facts

SIZE, SYSTEM, MOST, TIERS = (
    "hardware.memorySize",
    "systemResources.config.memoryAllocation.reservation",
    "capability.maxSupportedVmMemory",
    "hardware.memoryTierInfo",
)
UNREAD_SHARE, UNREAD_MB = 0.06, 2048
"""Where the host does not say what is its own, it is between nothing and 6 % and 2 GB (unverified bound)."""
_MIB = 1 << 20


def capacity(host: Facts) -> Bounds | None:
    """Return the MB that a host can guarantee to VMs; None where its memory was not read.

    What the hypervisor keeps is the reservation of its system resources where the host shows it. With memory tiering
    the size may include NVMe, and reservations are counted against DRAM: between nothing and all where its size was
    not read.
    """
    size = host.get(SIZE)
    if size is None:
        return None
    total, system = int(size) / _MIB, host.get(SYSTEM)
    tiers = host.get(TIERS) or ()
    if len({str(tier.get("type")) for tier in tiers}) > 1:
        sizes = [tier.get("size") for tier in tiers if tier.get("type") == "DRAM"]
        if not sizes or None in sizes:
            return Bounds(0, total)
        total = min(total, sum(map(float, sizes)) / _MIB)
    elif system:
        return Bounds(total - int(system), total - int(system))
    return Bounds(total - total * UNREAD_SHARE - UNREAD_MB, total)


def _needs_no_more(case: AdmissionCase) -> bool:
    """Return whether the VM ran on the host, and all VMs there need no more together than when they were read."""
    if not case.ran_alike("reserved_mb", "overhead_mb", "memory_mb"):
        return False
    now, before = (s.load(case.host.ref, case.vm.ref) for s in (case.situation, case.situation.before))
    return now.memory_mb.high <= before.memory_mb.high and now.unknown_memory <= before.unknown_memory


@requirement(
    "admission.memory",
    "Reserved memory",
    occasions=RUNS | {"reconfigure"},
    source="vSphere Resource Management 8.0, admission control; vSphere API, InsufficientHostMemoryCapacityFault",
    reads={"HostSystem": (SIZE, SYSTEM, MOST, TIERS)},
    faults=("InsufficientHostMemoryCapacityFault", "MemorySizeNotSupported"),
    shared=True,
)
def memory(case: AdmissionCase) -> Iterator[Reason]:
    """A host guarantees at most its memory less what the hypervisor keeps.

    A VM takes its reservation and an overhead, which counts for a VM without reservation, too. VMs that are off or
    suspended take nothing. Between bounds the answer is unknown.
    """
    vm, host = case.vm, case.host
    need, have = vm.memory_need_mb, capacity(host)
    if _needs_no_more(case):
        return  # they ran there together
    if need is None or have is None:
        what = "how much memory it reserves" if need is None else "how much memory the host has"
        yield case.unknown(f"{what} was not read")
        return
    load = case.situation.load(host.ref, vm.ref)
    left = have - load.memory_mb
    count = len([ref for ref in case.situation.on(host.ref) if ref != vm.ref])
    if load.unknown_memory:
        left = Bounds(0.0, left.high)
    there = "1 VM there reserves" if count == 1 else f"{count} VMs there reserve"
    others = f", {there} {gb(load.memory_mb.low)}" if count else ""
    refusal = (
        f"the VM reserves {gb(need.low)} of memory with its overhead, and the host has {gb(max(left.high, 0))} left to "
        f"reserve (of {gb(have.high)}{others})"
    )
    unproved = (
        f"the VM reserves {gb(need.low)} to {gb(need.high)} of memory with its overhead, and the host has between "
        f"{gb(max(left.low, 0))} and {gb(max(left.high, 0))} left to reserve"
    )
    help = "reserve less memory, make room on the host, or use another one"
    reason = case.compared(need, left, "MB", (refusal, unproved, help, "InsufficientHostMemoryCapacityFault"))
    if reason is not None:
        yield reason
    most = host.get(MOST)
    if most and vm.memory_mb and vm.memory_mb > int(most):
        message = f"it runs VMs of at most {gb(int(most))}, the VM has {gb(vm.memory_mb)}"
        yield case.no(
            message,
            "give the VM less memory",
            quantity=Quantity(vm.memory_mb, int(most), "MB"),
            fault="MemorySizeNotSupported",
        )
