"""Demands of the monitor on a VM's CPUs and on high latency sensitivity when it powers on."""

from __future__ import annotations

from vsphere_ai.lab.managed.refusals import power_on_failed
from vsphere_ai.lab.store import ManagedObject


def check_power_on(vm: ManagedObject, host: ManagedObject) -> None:
    """Raise the fault of a power-on that the host's processors or the VM's reservations do not allow."""
    config, hardware = vm["config"], host["summary"].hardware
    cpus = config.hardware.numCPU
    if cpus > hardware.numCpuThreads:
        raise power_on_failed(f"The virtual machine has {cpus} CPUs, the host has {hardware.numCpuThreads}.")
    if config.latencySensitivity is None or config.latencySensitivity.level != "high":
        return
    if config.cpuAllocation.reservation < cpus * hardware.cpuMhz:
        raise power_on_failed(
            f"Invalid CPU reservation for the latency-sensitive VM, (sched.cpu.min) should be at least "
            f"{cpus * hardware.cpuMhz} MHz."
        )
    if config.memoryAllocation.reservation < config.hardware.memoryMB:
        raise power_on_failed(
            "Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize "
            f"({config.hardware.memoryMB})."
        )
