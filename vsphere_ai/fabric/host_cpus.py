"""CPUs that a host has for a VM, and the sockets that a VM can have.

Sources: vSphere Virtual Machine Administration 8.0, virtual CPU limits; vSphere Web Services API reference,
VirtualHardware.numCoresPerSocket.
"""

from __future__ import annotations

from typing import NamedTuple

from vsphere_ai.model.facts import Facts

THREADS, CORES, ACTIVE = "summary.hardware.numCpuThreads", "summary.hardware.numCpuCores", "config.hyperThread"
PATHS = (THREADS, CORES, ACTIVE)
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


def makes_sockets(cpus: int, cores_per_socket: int) -> bool:
    """Return whether so many vCPUs are whole sockets of so many cores."""
    return cpus % cores_per_socket == 0
