"""The host has as many logical processors as the VM has vCPUs."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import RUNS, STARTS, Case, Quantity, Reason, requirement

THREADS, CORES, ACTIVE = "summary.hardware.numCpuThreads", "summary.hardware.numCpuCores", "config.hyperThread"


@requirement(
    "admission.vcpus",
    "vCPUs against logical processors",
    occasions=RUNS | {"reconfigure", "clone"},
    source="vSphere Virtual Machine Administration 8.0, virtual CPU limits; vSphere API, NotEnoughLogicalCpus",
    reads={"HostSystem": (THREADS, CORES, ACTIVE)},
    faults=("NotEnoughLogicalCpus", "NotEnoughCpus"),
)
def vcpus(case: Case) -> Iterator[Reason]:
    """A VM has at most as many vCPUs as its host has logical processors, which are cores without hyper-threading."""
    vm, host = case.vm, case.host
    threads, cores = host.get(THREADS), host.get(CORES)
    if vm.cpus is None:
        if not case.ran_alike("cpus"):
            yield case.unknown("its number of vCPUs was not read")
        return
    active = (host.get(ACTIVE) or {}).get("active")
    have = cores if active is False and cores is not None else threads
    if have is None:
        if not case.ran_alike("cpus"):
            yield case.unknown("the number of its logical processors was not read")
    elif vm.cpus > have:
        what, fault = (
            ("cores, and hyper-threading is off", "NotEnoughCpus")
            if active is False
            else ("logical processors", "NotEnoughLogicalCpus")
        )
        message = f"it has {have} {what}; the VM has {vm.cpus} vCPUs"
        yield case.no(
            message, f"give the VM at most {have} vCPUs", fault=fault, quantity=Quantity(vm.cpus, have, "vCPUs")
        )


@requirement(
    "admission.sockets",
    "Cores per socket",
    occasions=STARTS,
    source="vSphere Web Services API, VirtualHardware.numCoresPerSocket",
    faults=("NumVirtualCoresPerSocketNotSupported",),
)
def sockets(case: Case) -> Reason | None:
    """The number of cores per socket divides the number of vCPUs; of a host this says nothing."""
    vm = case.vm
    if vm.cpus is None or not vm.cores_per_socket or not vm.cpus % vm.cores_per_socket:
        return None
    message = f"{vm.cpus} vCPUs are no multiple of {vm.cores_per_socket} cores per socket"
    help = "write tuning: {cores_per_socket: N} with an N that divides the vCPUs"
    return case.no(message, help, "NumVirtualCoresPerSocketNotSupported")
