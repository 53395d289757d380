"""The CD drive of a VM of the scenario: an image on a datastore, or a drive of a client or of the host."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.scenario import Vm

DEV = vim.vm.device
KEY, IDE = 3000, 200


def described(farm: Farm, spec: Vm) -> list[Any]:
    """Return the drive that a scenario describes, if it does."""
    if not spec.iso:
        return []
    connected = DEV.VirtualDevice.ConnectInfo(
        startConnected=spec.iso_connected, allowGuestControl=True, connected=False, status="untried"
    )
    label = vim.Description(label="CD/DVD drive 1", summary=spec.iso)
    backing = _backing(farm, spec.iso)
    return [
        DEV.VirtualCdrom(
            key=KEY, deviceInfo=label, controllerKey=IDE, unitNumber=0, backing=backing, connectable=connected
        )
    ]


def _backing(farm: Farm, iso: str) -> Any:
    if iso == "client":
        return DEV.VirtualCdrom.RemotePassthroughBackingInfo(deviceName="", exclusive=False, useAutoDetect=False)
    if iso == "host":
        return DEV.VirtualCdrom.AtapiBackingInfo(deviceName="/vmfs/devices/cdrom/mpx.vmhba0", useAutoDetect=False)
    store = farm.named[f"datastore:{iso.partition(']')[0].removeprefix('[')}"]
    return DEV.VirtualCdrom.IsoBackingInfo(fileName=iso, datastore=store.ref)
