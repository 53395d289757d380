"""Licensed VMs: a host runs at most as many VMs as its licence allows, and as ESXi does (VmLimitLicense).

vSphere Web Services API, HostCapability.maxRunningVMs; that the ceiling of ESXi ends a power-on with the same fault is
unverified.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, requirement
from vsphere_ai.lab.managed.host_resources import LICENSED_VMS, MOST_RUNNING
from vsphere_ai.lab.managed.running_vms import powered_on


@requirement(21, RUNS, CheckTests.HOST)
def licensed_vms(case: LabCase) -> Faults:
    """Yield a fault where as many VMs run on the host as may."""
    limit = min(case.host.extra.get(LICENSED_VMS) or MOST_RUNNING, MOST_RUNNING)
    others = sum(vm is not case.vm for vm in powered_on(case.farm, case.host))
    if others >= limit:
        yield vim.fault.VmLimitLicense(limit=limit, msg=f"There are not enough licenses: the host runs {limit} VMs.")
