"""Removable devices: an image or a drive that is connected is there on the target of a vMotion too.

vSphere API: CannotAccessVmDevice for an image on a datastore that the target lacks; RemoteDeviceNotSupported within
DisallowedMigrationDeviceAttached for the drive of a client. What is not connected is a warning at most. A VM that is
powered on where its image is not starts without it (from knowledge, unverified).
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement

DEV = vim.vm.device


@requirement(34, frozenset({Occasion.VMOTION, Occasion.EVACUATE}), CheckTests.DATASTORE)
def removable(case: LabCase) -> Faults:
    """Yield a fault for each drive that is connected to what the target does not reach."""
    for drive in case.config.hardware.device:
        if not isinstance(drive, (DEV.VirtualCdrom, DEV.VirtualFloppy)) or case.runs_here:
            continue
        if drive.connectable is not None and drive.connectable.connected:
            yield from _faults(case, drive, drive.deviceInfo.label, drive.backing)


def _faults(case: LabCase, drive: Any, label: str, backing: Any) -> Faults:
    store = getattr(backing, "datastore", None)
    if isinstance(backing, DEV.VirtualDevice.FileBackingInfo):
        if store is not None and store not in case.host["datastore"]:
            yield vim.fault.CannotAccessVmDevice(
                device=label,
                backing=backing.fileName,
                connected=True,
                msg=f"Device '{label}' uses backing '{backing.fileName}', which is not accessible.",
            )
        return
    text = f"Device '{label}' is connected to a device of the client or of the host and prevents the migration."
    if isinstance(backing, DEV.VirtualDevice.RemoteDeviceBackingInfo):
        inner: Any = vim.fault.RemoteDeviceNotSupported(device=label, msg=text)
    else:
        inner = vim.fault.DeviceNotSupported(device=label, msg=text)
    yield vim.fault.DisallowedMigrationDeviceAttached(fault=inner, msg=text)
