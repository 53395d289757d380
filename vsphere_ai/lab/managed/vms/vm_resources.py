"""Memory that a VM needs beside its own, as vCenter shows it: its overhead, and the space of its swap file."""

from __future__ import annotations

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.admission.supply import overhead_mb
from vsphere_ai.lab.store import ManagedObject

LONG = Vmomi.vmodlTypes["long"]
VMX_SWAP_MB = 100
"""Swap of the monitor itself, beside that of the VM (seen of recorded VMs: about 80 MB)."""
LIMIT_PERCENT = 8
"""By how much the overhead may grow before vCenter's own limit: 67.4 and 73 MB of a recorded VM."""


def show(mo: ManagedObject) -> None:
    """Write the overhead into a VM's configuration: in bytes what it begins with, in MB its limit."""
    config, overhead = mo["config"], overhead_mb(mo)
    unreserved = max(0, int(config.hardware.memoryMB) - int(config.memoryAllocation.reservation or 0))
    config.initialOverhead = vim.vm.ConfigInfo.OverheadInfo(
        initialMemoryReservation=LONG(overhead << 20), initialSwapReservation=LONG((unreserved + VMX_SWAP_MB) << 20)
    )
    config.memoryAllocation.overheadLimit = LONG(-(-overhead * (100 + LIMIT_PERCENT) // 100))
