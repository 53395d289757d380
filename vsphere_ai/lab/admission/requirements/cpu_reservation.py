"""CPU of the host: the reservation of the VM fits into what those of running VMs leave.

vSphere Resource Management 7.0, Admission Control; InsufficientHostCpuCapacityFault, in MHz. Without a reservation
CPU refuses nothing. Hyperthreading adds nothing to what can be reserved.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.admission.supply import cpu_need, free_mhz


@requirement(52, RUNS | {Occasion.RECONFIGURE}, CheckTests.POOL)
def cpu_reservation(case: LabCase) -> Faults:
    """Yield a fault where the host has not the MHz to reserve."""
    need, free = cpu_need(case.vm, case.config), free_mhz(case.farm, case.host, case.vm)
    grows = case.occasion is not Occasion.RECONFIGURE or need > cpu_need(case.vm)
    if need and need > free and grows:
        yield vim.fault.InsufficientHostCpuCapacityFault(
            host=case.host.ref,
            unreserved=max(0, free),
            requested=need,
            msg="The host does not have sufficient CPU resources to satisfy the reservation.",
        )
