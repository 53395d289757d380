"""The host has as many logical processors as the VM has vCPUs."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import RUNS, STARTS, AdmissionCase, Quantity, Reason, requirement
from vsphere_ai.fabric.host_cpus import MOST_OF_HOST, MOST_OF_VM, PATHS, makes_sockets, processors
from vsphere_ai.model.estate.vm_corrections import CpuSettings
from vsphere_ai.resources.corrections import text_of


@requirement(
    "admission.vcpus",
    "vCPUs against logical processors",
    occasions=RUNS | {"reconfigure", "clone"},
    source="vSphere Virtual Machine Administration 8.0, virtual CPU limits; vSphere API, NotEnoughLogicalCpus",
    reads={"HostSystem": (*PATHS, MOST_OF_VM)},
    faults=("NotEnoughLogicalCpus", "NotEnoughCpus", "NumVirtualCpusNotSupported"),
)
def vcpus(case: AdmissionCase) -> Iterator[Reason]:
    """A VM has at most as many vCPUs as its host has logical processors, which are cores without hyper-threading.

    Nor has it more than the release of the host runs in one VM.
    """
    vm, have = case.vm, processors(case.host)
    if vm.cpus is None:
        if not case.ran_alike("cpus"):
            yield case.unknown("its number of vCPUs was not read")
        return
    if have is None:
        if not case.ran_alike("cpus"):
            yield case.unknown("the number of its logical processors was not read")
    elif not have.takes(vm.cpus):
        message, fault = f"it has {have.words}; the VM has {vm.cpus} vCPUs", "NotEnoughCpus"
        if have.hyper_threading:
            fault = "NotEnoughLogicalCpus"
        help = f"give the VM at most {have.number} vCPUs"
        yield case.no(message, help, fault, Quantity(vm.cpus, have.number, "vCPUs"))
    most = case.host.get(MOST_OF_VM)
    if most and vm.cpus > int(most):
        message = f"it runs VMs of at most {most} vCPUs, the VM has {vm.cpus}"
        help, quantity = f"give the VM at most {most} vCPUs", Quantity(vm.cpus, int(most), "vCPUs")
        yield case.no(message, help, "NumVirtualCpusNotSupported", quantity)


@requirement(
    "admission.vcpus-of-host",
    "vCPUs of all VMs of a host",
    occasions=RUNS | {"reconfigure"},
    source="vSphere Web Services API, HostCapability.maxHostSupportedVcpus and NumVirtualCpusExceedsLimit",
    reads={"HostSystem": (MOST_OF_HOST,)},
    faults=("NumVirtualCpusExceedsLimit",),
    shared=True,
)
def vcpus_of_host(case: AdmissionCase) -> Reason | None:
    """All running VMs of a host together have at most as many vCPUs as its release and its licence allow."""
    most, own = case.host.get(MOST_OF_HOST), case.vm.cpus
    if not most or own is None:
        return None
    total = case.situation.load(case.host.ref, case.vm.ref).cpus + own
    if total <= int(most):
        return None
    message = f"its running VMs would have {total} vCPUs together, it supports {most}"
    help = "power off VMs there, or use another host"
    return case.no(message, help, "NumVirtualCpusExceedsLimit", Quantity(total, int(most), "vCPUs"))


@requirement(
    "admission.sockets",
    "Cores per socket",
    occasions=STARTS,
    source="vSphere Web Services API, VirtualHardware.numCoresPerSocket",
    faults=("NumVirtualCoresPerSocketNotSupported",),
    of_vm=True,
)
def sockets(case: AdmissionCase) -> Reason | None:
    """The number of cores per socket divides the number of vCPUs; of a host this says nothing."""
    vm = case.vm
    if vm.cpus is None or not vm.cores_per_socket or makes_sockets(vm.cpus, vm.cores_per_socket):
        return None
    message = f"{vm.cpus} vCPUs are no multiple of {vm.cores_per_socket} cores per socket"
    # the nearest smaller number of cores that makes whole sockets
    fitting = max(n for n in range(1, min(vm.cores_per_socket, vm.cpus) + 1) if makes_sockets(vm.cpus, n))
    help = f"write {text_of(CpuSettings(vm.target, cores_per_socket=fitting))}, or another divisor of {vm.cpus}"
    return case.no(message, help, "NumVirtualCoresPerSocketNotSupported")
