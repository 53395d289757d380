"""Removable devices and ports: what a connected one uses is there on the target of a vMotion too.

vSphere API: CannotAccessVmDevice for a file on a datastore that the target lacks; RemoteDeviceNotSupported within
DisallowedMigrationDeviceAttached for the drive of a client, DeviceNotSupported in it for a device of the host. What is
not connected is a warning at most. A VM that is powered on where its image is not starts without it (from knowledge,
unverified). A serial port over the network keeps its VM unless a concentrator serves it (vmware/vic issue 2202; that
the fault is this one is unverified).
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement

DEV = vim.vm.device
CONNECTED = (DEV.VirtualCdrom, DEV.VirtualFloppy, DEV.VirtualSerialPort, DEV.VirtualParallelPort)


@requirement(34, frozenset({Occasion.VMOTION, Occasion.EVACUATE}), CheckTests.DATASTORE)
def removable(case: LabCase) -> Faults:
    """Yield a fault for each drive or port that is connected to what the target does not reach."""
    for device in case.config.hardware.device:
        if not isinstance(device, CONNECTED) or case.runs_here:
            continue
        if device.connectable is not None and device.connectable.connected:
            yield from _faults(case, device.deviceInfo.label, device.backing)


def _faults(case: LabCase, label: str, backing: Any) -> Faults:
    store = getattr(backing, "datastore", None)
    if getattr(backing, "proxyURI", None) or isinstance(backing, DEV.VirtualDevice.PipeBackingInfo):
        return
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
