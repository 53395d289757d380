"""Hardware version: the release of the host runs that of the VM (VMware KB 315655)."""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed.placement import newest_hardware


@requirement(10, frozenset(Occasion) - {Occasion.RECONFIGURE}, CheckTests.HOST)
def hardware_version(case: LabCase) -> Faults:
    """Yield a fault where the hardware of the VM is newer than the host."""
    machine, wanted = case.farm.host(case.host), int(case.config.version.removeprefix("vmx-"))
    if wanted > newest_hardware(machine.version):
        yield vim.fault.VirtualHardwareVersionNotSupported(
            hostName=machine.name, host=case.host.ref, msg=f"The host does not support hardware version {wanted}."
        )
