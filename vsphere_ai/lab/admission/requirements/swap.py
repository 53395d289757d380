"""Swap file: there is room for it where the VM's settings put it when the VM powers on.

vSphere Resource Management 7.0 (GUID-3BA3AA28). It is as large as the memory that is not reserved. On VMFS it takes its
size; on vSAN and NFS it is thin (seen of a recorded VM on vSAN; NFS from knowledge), so nothing is refused there. A
vMotion makes a new one only where its place changes.
"""

from __future__ import annotations

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, requirement
from vsphere_ai.lab.managed.refusals import no_disk_space
from vsphere_ai.lab.managed.vms import swap_files


@requirement(64, RUNS, CheckTests.NONE)
def swap(case: LabCase) -> Faults:
    """Yield a fault where the datastore of the swap file has not the room."""
    store = swap_files.datastore(case.farm, case.vm, case.host, case.config)
    if case.runs_here or swap_files.held_on(case.vm) == store.moid:
        return
    size = swap_files.size_bytes(store, case.config)
    if size > store["summary"].freeSpace:
        name = str(store["name"])
        yield no_disk_space(name, f"[{name}] {case.vm['name']}/{case.vm['name']}.vswp")
