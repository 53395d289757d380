"""CPUs that a host has for a VM, and the sockets that a VM can have.

Sources: vSphere Virtual Machine Administration 8.0, virtual CPU limits; vSphere Web Services API reference,
VirtualHardware.numCoresPerSocket.
"""

from __future__ import annotations

from typing import NamedTuple

from vsphere_ai.model.facts import Facts

THREADS, CORES, ACTIVE = "summary.hardware.numCpuThreads", "summary.hardware.numCpuCores", "config.hyperThread"
PATHS = (THREADS, CORES, ACTIVE)
VM_CORES, AUTO_CORES = "config.hardware.numCoresPerSocket", "config.hardware.autoCoresPerSocket"
"""Of a VM: cores of each virtual socket, and whether vSphere chooses their number at power-on (since 8.0)."""
MOST_OF_VM, MOST_OF_HOST = "capability.maxSupportedVcpus", "capability.maxHostSupportedVcpus"
"""Ceilings of release and licence: vCPUs of a VM, and of all running VMs of a host; unset where there is none."""


class Processors(NamedTuple):
    """The most vCPUs that a VM has on a host; without hyper-threading they are its cores."""

    number: int
    hyper_threading: bool

    def takes(self, cpus: int) -> bool:
        """Return whether a VM with so many vCPUs powers on."""
        return cpus <= self.number

    @property
    def words(self) -> str:
        """How many there are, in words."""
        return f"{self.number} {'logical processors' if self.hyper_threading else 'cores, and hyper-threading is off'}"


def processors(host: Facts) -> Processors | None:
    """Return the logical processors of a host; None where they were not read."""
    threads, cores = host.get(THREADS), host.get(CORES)
    active = (host.get(ACTIVE) or {}).get("active") is not False
    have = threads if active or cores is None else cores
    return None if have is None else Processors(int(have), active)


def cores_of_socket(vm: Facts) -> int | None:
    """Return the cores of each virtual socket of a VM; None where they were not read, or are chosen as it powers on."""
    cores, chosen = vm.get(VM_CORES), vm.get(AUTO_CORES)
    return None if cores is None or (chosen and vm.get("runtime.powerState") != "poweredOn") else int(cores)


def makes_sockets(cpus: int, cores_per_socket: int) -> bool:
    """Return whether so many vCPUs are whole sockets of so many cores."""
    return cpus % cores_per_socket == 0
