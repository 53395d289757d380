"""Memory and CPU of a host by its hardware: how much there is for VMs, how much they hold, how much one more needs.

A VM needs its reservation and an overhead of the monitor, which is there without a reservation too. The overhead grows
with memory and virtual CPUs; public samples of ESXi 6.5 have 20 MB with 256 MB and one CPU and 169 MB with 16 GB and
eight, recorded VMs of 6.7 and 7.0 twice that. The lab's own lies between: 20 MB, 6 MB for each CPU and a hundredth of
the memory. A VM of the scenario may have any other.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.running_vms import powered_on
from vsphere_ai.lab.store import ManagedObject

OVERHEAD = "overhead_mb"
"""Among what the lab keeps of a VM: its overhead, where the scenario says one."""
MONITOR_MB, PER_VCPU_MB, PART_OF_MEMORY = 20, 6, 100


def overhead_mb(vm: ManagedObject, config: Any = None) -> int:
    """Return the memory in MB that a host needs for a VM beside what the VM reserves; of a configuration to come."""
    given = vm.extra.get(OVERHEAD)
    if given is not None and given >= 0:
        return int(given)
    hardware = (config or vm["config"]).hardware
    return int(MONITOR_MB + PER_VCPU_MB * hardware.numCPU + hardware.memoryMB // PART_OF_MEMORY)


def memory_need(vm: ManagedObject, config: Any = None) -> int:
    """Return the memory in MB that a VM holds while it runs."""
    return int((config or vm["config"]).memoryAllocation.reservation or 0) + overhead_mb(vm, config)


def cpu_need(vm: ManagedObject, config: Any = None) -> int:
    """Return the MHz that a VM holds while it runs."""
    return int((config or vm["config"]).cpuAllocation.reservation or 0)


def free_memory(farm: Farm, host: ManagedObject, without: ManagedObject | None = None) -> int:
    """Return the memory in MB of a host that no running VM holds; one VM may be left out."""
    held = sum(memory_need(vm) for vm in powered_on(farm, host) if vm is not without)
    return farm.host(host).mainboard.memory_for_vms - held


def free_mhz(farm: Farm, host: ManagedObject, without: ManagedObject | None = None) -> int:
    """Return the MHz of a host that no running VM has reserved; one VM may be left out."""
    held = sum(cpu_need(vm) for vm in powered_on(farm, host) if vm is not without)
    return farm.host(host).mainboard.mhz_for_vms - held


def is_good(farm: Farm, host: ManagedObject) -> bool:
    """Return whether a host takes VMs: it is up, and neither in maintenance nor on the way there."""
    machine = farm.host(host)
    return machine.up and not machine.in_maintenance and "entering" not in host.extra


def hosts_of(farm: Farm, compute: ManagedObject) -> list[ManagedObject]:
    """Return the hosts of a compute resource."""
    return [farm.store.get(ref) for ref in compute["host"]]


def counted(farm: Farm, compute: ManagedObject) -> list[ManagedObject]:
    """Return the hosts that the root resource pool is made of: those that are connected and not in maintenance."""
    hosts = hosts_of(farm, compute)
    return [host for host in hosts if farm.host(host).up and not farm.host(host).in_maintenance]


def running(farm: Farm, compute: ManagedObject) -> list[ManagedObject]:
    """Return the powered-on VMs of a compute resource."""
    return [vm for host in hosts_of(farm, compute) for vm in powered_on(farm, host)]


def cluster_of(farm: Farm, host: ManagedObject) -> ManagedObject | None:
    """Return the cluster of a host; None of a host that is alone."""
    parent = farm.store.get(host["parent"])
    return parent if isinstance(parent.ref, vim.ClusterComputeResource) else None
