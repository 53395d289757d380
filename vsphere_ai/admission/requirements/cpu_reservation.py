"""CPU that a VM has reserved, and cores that one with high latency sensitivity has for itself."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import RUNS, AdmissionCase, Quantity, Reason, requirement
from vsphere_ai.admission.machine import NOTHING, Bounds
from vsphere_ai.fabric.host_cpus import CORES
from vsphere_ai.model.estate.vm_corrections import CpuSettings
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.corrections import text_of

MHZ, SYSTEM = "summary.hardware.cpuMhz", "systemResources.config.cpuAllocation.reservation"
SYSTEM_SHARE, SYSTEM_MHZ = 0.03, 500
"""Where the host does not say what is its own, it is at most 3 % and 500 MHz (unverified bound)."""


def capacity_mhz(host: Facts) -> Bounds | None:
    """Return the MHz that a host can guarantee to VMs; None where its CPUs were not read."""
    cores, mhz = host.get(CORES), host.get(MHZ)
    if cores is None or mhz is None:
        return None
    total, own = float(cores * mhz), host.get(SYSTEM)
    system = Bounds(int(own), int(own)) if own else Bounds(0, total * SYSTEM_SHARE + SYSTEM_MHZ)
    return Bounds(total, total) - system


@requirement(
    "admission.cpu-reservation",
    "Reserved CPU",
    occasions=RUNS | {"reconfigure"},
    source="vSphere Resource Management 8.0, admission control and latency sensitivity",
    reads={"HostSystem": (CORES, MHZ, SYSTEM)},
    faults=("InsufficientHostCpuCapacityFault",),
    shared=True,
)
def cpu_reservation(case: AdmissionCase) -> Iterator[Reason]:
    """A host guarantees at most what its cores do; logical processors do not count.

    High latency sensitivity takes the full speed of every vCPU reserved, and a core for each, or for each two with
    virtual hyper-threading. One core at least stays with the hypervisor (unverified).
    """
    vm, host = case.vm, case.host
    if not vm.reserved_mhz and not vm.latency_high:
        return
    cores, mhz = host.get(CORES), host.get(MHZ)
    if cores is None or mhz is None:
        yield case.unknown("the speed of its CPUs was not read, and the VM reserves CPU")
        return
    load = case.situation.load(host.ref, vm.ref)
    have = (capacity_mhz(host) or NOTHING) - Bounds(load.mhz, load.mhz)
    need = Bounds(vm.reserved_mhz, vm.reserved_mhz)
    words = f"it has {max(have.high, 0):,.0f} MHz left to reserve; the VM reserves {vm.reserved_mhz:,} MHz"
    unproved = f"{vm.reserved_mhz:,} MHz of {have.low:,.0f} to {have.high:,.0f} MHz that it has left to reserve"
    reason = case.compared(need, have, "MHz", (words, unproved, "reserve less", "InsufficientHostCpuCapacityFault"))
    if reason is not None:
        yield reason
    if vm.latency_high:
        full = vm.exclusive_cores * mhz
        if vm.reserved_mhz < full:
            message = f"high latency sensitivity needs {full:,} MHz reserved, the VM reserves {vm.reserved_mhz:,} MHz"
            yield case.no(
                message,
                f"write {text_of(CpuSettings(vm.target, is_reserved=True))}",
                quantity=Quantity(full, vm.reserved_mhz, "MHz"),
                fault="InsufficientHostCpuCapacityFault",
            )
        free = cores - 1 - load.exclusive_cores
        if vm.exclusive_cores > free:
            message = f"it has {max(free, 0)} cores that a VM can have for itself; the VM needs {vm.exclusive_cores}"
            yield case.no(
                message,
                "give it fewer vCPUs",
                quantity=Quantity(vm.exclusive_cores, free, "cores"),
                fault="InsufficientHostCpuCapacityFault",
            )
