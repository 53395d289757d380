"""Removable drives of VMs: what is in them, as vCenter shows it.

Source: vSphere Web Services API reference, VirtualCdrom and its backings, VirtualFloppy.
"""

from __future__ import annotations

from vsphere_ai.model.plain import Plain, PlainObject, inside

CDROM = "VirtualCdrom"
OF_HOST, OF_CLIENT = "a device of the host", "a device of a client"


def content(device: PlainObject) -> str | None:
    """Return the path of the image in a drive, or whose device it is; None for what is no such drive."""
    kind, is_cd = str(inside(device, "backing._typeName") or ""), device.get("_typeName") == CDROM
    if is_cd and "Iso" in kind:
        return str(inside(device, "backing.fileName") or "")
    if "Remote" in kind:
        return OF_CLIENT
    return OF_HOST if is_cd and ("Atapi" in kind or "Passthrough" in kind) else None


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
