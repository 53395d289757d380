"""Full reservation: a VM with a device that writes into its memory by itself reserves all of it.

Passthrough, vGPU, SR-IOV and PVRDMA; the text is that of
github.com/cloudfoundry/bosh-vsphere-cpi-release issue 372, the type of the fault is unverified.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed.refusals import power_on_failed

DEV = vim.vm.device
NEEDING = (DEV.VirtualPCIPassthrough, DEV.VirtualVmxnet3Vrdma, DEV.VirtualSriovEthernetCard)


@requirement(54, RUNS | {Occasion.START}, CheckTests.SOURCE)
def full_reservation(case: LabCase) -> Faults:
    """Yield a fault where such a VM reserves less than its memory."""
    config = case.config
    needing = any(isinstance(device, NEEDING) for device in config.hardware.device)
    if needing and int(config.memoryAllocation.reservation or 0) < config.hardware.memoryMB:
        yield power_on_failed("Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize.")
