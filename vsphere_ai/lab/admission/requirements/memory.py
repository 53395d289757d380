"""Memory of the host: reservation and overhead of the VM fit into what running VMs leave of it.

vSphere Resource Management 7.0, Admission Control; InsufficientHostMemoryCapacityFault, in bytes. The overhead counts
with a reservation of 0 too.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.admission.supply import free_memory, memory_need
from vsphere_ai.lab.managed.host_resources import MOST_MEMORY_MB


@requirement(50, RUNS | {Occasion.RECONFIGURE}, CheckTests.POOL)
def memory(case: LabCase) -> Faults:
    """Yield a fault where the host has not the memory to reserve."""
    size = int(case.config.hardware.memoryMB)
    if size > MOST_MEMORY_MB:
        yield vim.fault.MemorySizeNotSupported(
            memorySizeMB=size,
            minMemorySizeMB=4,
            maxMemorySizeMB=MOST_MEMORY_MB,
            msg="The memory size is not supported.",
        )
    need, free = memory_need(case.vm, case.config), free_memory(case.farm, case.host, case.vm)
    grows = case.occasion is not Occasion.RECONFIGURE or need > memory_need(case.vm)
    if need > free and grows:
        yield vim.fault.InsufficientHostMemoryCapacityFault(
            host=case.host.ref,
            unreserved=max(0, free) << 20,
            requested=need << 20,
            msg="The host does not have sufficient memory resources to satisfy the reservation.",
        )
