"""Removable drives, ports and USB devices of VMs: what is in them, or behind them, as vCenter shows it.

Source: vSphere Web Services API reference, VirtualCdrom and its backings, VirtualFloppy, VirtualSerialPort,
VirtualParallelPort, VirtualUSB.
"""

from __future__ import annotations

from vsphere_ai.model.plain import Plain, PlainObject, inside

CDROM = "VirtualCdrom"
REMOVABLE = (CDROM, "VirtualFloppy", "VirtualSerialPort", "VirtualParallelPort")
OF_HOST, OF_CLIENT = "a device of the host", "a device of a client"
_HOST_DEVICES = ("DeviceBackingInfo", "AtapiBackingInfo", "PassthroughBackingInfo")
"""Ends of the types of backings that are a device of the host."""
_USB = ("VirtualUSBUSBBackingInfo", "VirtualUSBRemoteClientBackingInfo")
"""USB devices of the host and of a client; one of another host (VirtualUSBRemoteHostBackingInfo) has moved already."""


def content(device: PlainObject) -> str | None:
    """Return the path of the file in a drive or behind a port, or whose device it is; None for what has no such thing.

    A serial port over the network is one of its address, unless a concentrator (`proxyURI`) goes along with the VM.
    """
    kind = str(inside(device, "backing._typeName") or "")
    if device.get("_typeName") not in REMOVABLE:
        return None
    if "Remote" in kind:
        return OF_CLIENT
    if kind.endswith("URIBackingInfo"):
        address = str(inside(device, "backing.serviceURI") or "the network")
        return None if inside(device, "backing.proxyURI") else f"{address} without a concentrator"
    path = inside(device, "backing.fileName")
    return str(path) if path is not None else OF_HOST if kind.endswith(_HOST_DEVICES) else None


def is_usb(device: PlainObject) -> bool:
    """Return whether a USB device of the host or of a client is connected."""
    return str(inside(device, "backing._typeName")) in _USB and bool(device.get("connected") or is_connected(device))


def label(device: PlainObject) -> str:
    """Return the name of a drive in the vSphere Client, such as ``CD/DVD drive 1``."""
    return str(inside(device, "deviceInfo.label") or device.get("_typeName"))


def is_connected(device: PlainObject) -> bool:
    """Return whether a drive is connected to a VM that runs."""
    return bool(inside(device, "connectable.connected"))


def is_empty(device: PlainObject) -> bool:
    """Return whether nothing is in a CD drive: it waits for a client, and is connected neither now nor at power-on."""
    starts = bool(inside(device, "connectable.startConnected"))
    return content(device) in (None, OF_CLIENT) and not (is_connected(device) or starts)


def emptied(device: PlainObject) -> dict[str, Plain]:
    """Return a CD drive with nothing in it, not connected, as the vSphere Client leaves one that is a client device."""
    place = {name: device[name] for name in ("_typeName", "key", "controllerKey", "unitNumber") if name in device}
    backing: PlainObject = {
        "_typeName": "VirtualCdromRemotePassthroughBackingInfo",
        "deviceName": "",
        "exclusive": False,
    }
    connect: PlainObject = {"_typeName": "VirtualDeviceConnectInfo", "startConnected": False, "connected": False}
    return {**place, "backing": backing, "connectable": {**connect, "allowGuestControl": True}}
