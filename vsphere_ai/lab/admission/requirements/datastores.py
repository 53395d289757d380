"""Datastores: the host has mounted those of the VM's own files and of its disks.

vSphere API, CannotAccessVmConfig and CannotAccessVmDisk.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import ALWAYS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed import datastores as stores


@requirement(30, ALWAYS - {Occasion.RECONFIGURE}, CheckTests.DATASTORE)
def datastores(case: LabCase) -> Faults:
    """Yield a fault for the VM's own files and for each disk that the host does not reach."""
    home = stores.home_of(case.farm, case.config)
    if home.ref not in case.host["datastore"]:
        path = case.config.files.vmPathName
        yield vim.fault.CannotAccessVmConfig(
            reason=_not_mounted(case, home.ref), msg=f"The host cannot access the file '{path}' of the virtual machine."
        )
    for disk in stores.disks_of(case.config):
        ref = disk.backing.datastore
        if ref is not None and ref not in case.host["datastore"]:
            yield vim.fault.CannotAccessVmDisk(
                device=disk.deviceInfo.label,
                backing=disk.backing.fileName,
                connected=True,
                fault=_not_mounted(case, ref),
                msg=f"Virtual disk '{disk.deviceInfo.label}' is not accessible on the host: {disk.backing.fileName}",
            )


def _not_mounted(case: LabCase, ref: object) -> Exception:
    name = str(case.farm.store.get(ref)["name"])
    error: Exception = vim.fault.InvalidDatastore(
        datastore=ref, name=name, msg=f"Datastore '{name}' is not accessible from {case.host['name']}."
    )
    return error
