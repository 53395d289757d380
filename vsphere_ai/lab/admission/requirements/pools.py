"""Resource pool: reservation and overhead of the VM fit into what its pool, and those above, leave.

vSphere Resource Management 6.7, Expandable Reservations. InsufficientMemoryResourcesFault in bytes,
InsufficientCpuResourcesFault in MHz. A pool with nothing reserved that is not expandable runs no VM at all, because of
the overhead (github.com/vmware/pyvmomi issue 613).
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.admission.pool_tree import MEMORY, MHZ, is_plain, unreserved
from vsphere_ai.lab.admission.supply import cpu_need, memory_need


@requirement(60, frozenset({Occasion.POWER_ON, Occasion.VMOTION, Occasion.RECONFIGURE}), CheckTests.POOL)
def pools(case: LabCase) -> Faults:
    """Yield a fault for the memory and the CPU that the pool does not give."""
    if case.runs_here and case.vm["resourcePool"] == case.pool.ref and case.occasion is Occasion.VMOTION:
        return
    if is_plain(case.farm, case.pool):
        return
    grows = case.occasion is not Occasion.RECONFIGURE
    need = memory_need(case.vm, case.config)
    free = unreserved(case.farm, case.pool, MEMORY, without=case.vm)
    if need > free and (grows or need > memory_need(case.vm)):
        yield vim.fault.InsufficientMemoryResourcesFault(
            unreserved=max(0, free) << 20,
            requested=need << 20,
            msg="The available Memory resources in the parent resource pool are insufficient for the operation.",
        )
    need = cpu_need(case.vm, case.config)
    free = unreserved(case.farm, case.pool, MHZ, without=case.vm)
    if need and need > free and (grows or need > cpu_need(case.vm)):
        yield vim.fault.InsufficientCpuResourcesFault(
            unreserved=max(0, free),
            requested=need,
            msg="The available CPU resources in the parent resource pool are insufficient for the operation.",
        )
