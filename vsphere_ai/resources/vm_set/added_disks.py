"""Disks that a set adds to its VMs: where each is connected, how it is sent, and how it is known again.

Limits: vSphere configuration maximums; Virtual Machine Administration, SCSI and NVMe controllers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.vm_sets import MarkedDisk, MemberMark, mark_of
from vsphere_ai.resources.vm_set.settings import SetDisk

DEVICES = "config.hardware.device"
GB, KB_PER_GB = 1 << 30, 1 << 20
Device = Mapping[str, Any]
"""A virtual device, or a change of one, in VMware's spelling."""
MOST_CONTROLLERS = 4
NVME_HARDWARE = 13
"""First virtual hardware with NVMe controllers (ESXi 6.5)."""


@dataclass(frozen=True)
class Bus:
    """A kind of controllers: the type that is added, all types that share its bus numbers, its units, its first key."""

    name: str
    added: str
    types: tuple[str, ...]
    units: tuple[int, ...]
    key: int


_SCSI = ("ParaVirtualSCSIController", "VirtualLsiLogicController", "VirtualLsiLogicSASController")
BUSES: Mapping[str, Bus] = {
    "pvscsi": Bus("scsi", _SCSI[0], (*_SCSI, "VirtualBusLogicController"), tuple(n for n in range(16) if n != 7), 1000),
    "nvme": Bus("nvme", "VirtualNVMEController", ("VirtualNVMEController",), tuple(range(15)), 31000),
}


@dataclass(frozen=True)
class LaidDisk:
    """A disk on the bus of a VM: `at` is its place, such as ``scsi1:0``; `controller` is added before it, if any."""

    disk: SetDisk
    at: str
    device: Device
    controller: Device | None = None

    @property
    def marked(self) -> MarkedDisk:
        """What the mark of the VM says of it."""
        return MarkedDisk(self.disk.name or "", self.at, self.disk.datastore or "")


def disks(facts: Facts | None) -> tuple[Device, ...]:
    """Return the virtual disks of a VM, in the order of its devices."""
    devices: tuple[Device, ...] = (facts.get(DEVICES) if facts else None) or ()
    return tuple(d for d in devices if d.get("_typeName") == "VirtualDisk")


def laid(devices: Sequence[Device], added: Sequence[SetDisk]) -> tuple[LaidDisk, ...]:
    """Return where disks are connected: on the first free unit, with new controllers; those without room are left out.

    The same devices and disks have the same places, in a plan and after it.
    """
    kept: list[Device] = list(devices)
    found = []
    for number, disk in enumerate(added):
        bus, new = BUSES[disk.controller or "pvscsi"], None
        own = sorted((d for d in kept if d["_typeName"] == bus.added), key=_bus_number)
        spot = next(((c, u) for c in own for u in bus.units if not _is_taken(kept, c, u)), None)
        if spot is None:
            taken = {_bus_number(d) for d in kept if d["_typeName"] in bus.types}
            free = next((n for n in range(MOST_CONTROLLERS) if n not in taken), None)
            if free is None:
                continue
            shared = {"sharedBus": "noSharing"} if bus.name == "scsi" else {}
            new = {"_typeName": bus.added, "key": -3001 - number, "busNumber": free, **shared}
            kept.append(new)
        controller, unit = spot or (kept[-1], bus.units[0])
        device = _device(disk, -4001 - number, controller["key"], unit)
        kept.append(device)
        found.append(LaidDisk(disk, f"{bus.name}{_bus_number(controller)}:{unit}", device, new))
    return tuple(found)


def _device(disk: SetDisk, key: int, controller: int, unit: int) -> Device:
    kind = disk.provisioning or "thin"
    backing = {
        "_typeName": "VirtualDiskFlatVer2BackingInfo",
        "fileName": f"[{disk.datastore}]" if disk.datastore else "",  # vCenter names the file
        "diskMode": "persistent",
        "thinProvisioned": kind == "thin",
        "eagerlyScrub": kind == "eager",
    }
    size = {"capacityInKB": disk.gb * KB_PER_GB, "capacityInBytes": disk.gb * GB}
    return {
        "_typeName": "VirtualDisk",
        "key": key,
        "controllerKey": controller,
        "unitNumber": unit,
        **size,
        "backing": backing,
    }


def _bus_number(controller: Device) -> int:
    return int(controller.get("busNumber") or 0)


def _is_taken(devices: Sequence[Device], controller: Device, unit: int) -> bool:
    return any(d.get("controllerKey") == controller["key"] and d.get("unitNumber") == unit for d in devices)


def added_changes(found: Sequence[LaidDisk]) -> Iterator[Device]:
    """Yield the device changes that add disks and their controllers."""
    for each in found:
        for device, more in ((each.controller, {}), (each.device, {"fileOperation": "create"})):
            if device is not None:
                yield {"_typeName": "VirtualDeviceConfigSpec", "operation": "add", **more, "device": device}


def as_shown(found: Sequence[LaidDisk], first: int) -> Iterator[Device]:
    """Yield new disks and controllers as a VM has them after its clone; keys of disks follow `first`."""
    keys: dict[int, int] = {}
    for number, each in enumerate(found):
        if each.controller is not None:
            key = BUSES[each.disk.controller or "pvscsi"].key + _bus_number(each.controller)
            keys[each.controller["key"]] = key
            yield {**each.controller, "key": key}
        controller = each.device["controllerKey"]
        yield {**each.device, "key": first + 1 + number, "controllerKey": keys.get(controller, controller)}


# -- known again


def places(facts: Facts) -> dict[str, Device]:
    """Return the disks of a VM by their places, such as ``nvme0:1``."""
    devices: Sequence[Device] = facts.get(DEVICES) or ()
    at = {
        d["key"]: f"{bus.name}{_bus_number(d)}"
        for d in devices
        for bus in BUSES.values()
        if d["_typeName"] in bus.types
    }
    return {f"{at.get(d.get('controllerKey'), '')}:{d.get('unitNumber')}": d for d in disks(facts)}


def named_disks(facts: Facts) -> dict[str, Device]:
    """Return the disks that a set added to a VM and that are there, by their names."""
    mark, at = mark_of(facts), places(facts)
    return {each.name: at[each.at] for each in (mark.disks if mark else ()) if each.at in at}


def template_disks(facts: Facts) -> tuple[Device, ...]:
    """Return the disks of a VM that its set did not add."""
    added = {d["key"] for d in named_disks(facts).values()}
    return tuple(d for d in disks(facts) if d["key"] not in added)


def is_added(device: Device, facts: Facts, mark: MemberMark | None) -> bool:
    """Return whether a disk outside of the VM's folder is one that its set added.

    Its place and datastore are those of the mark, and its file has the VM's name, which vCenter gives new disks.
    """
    at = {d["key"]: place for place, d in places(facts).items()}.get(device["key"])
    known = next((d for d in (mark.disks if mark else ()) if d.at == at and d.datastore), None)
    name = str((device.get("backing") or {}).get("fileName") or "")
    return (
        known is not None
        and name.startswith(f"[{known.datastore}] ")
        and re.fullmatch(rf"{re.escape(facts.name)}(_\d+)?(-\d{{6}})?\.vmdk", name.rpartition("/")[2]) is not None
    )


def observed_disks(facts: Facts) -> tuple[SetDisk, ...]:
    """Return the disks of a VM of a set as a playbook would write them."""
    mark = mark_of(facts)
    stores = {d.name: d.datastore for d in (mark.disks if mark else ())}
    numbered = (
        SetDisk(number=n, gb=gb) for n, d in enumerate(template_disks(facts), 1) if (gb := gb_of(d)) is not None
    )
    named = (
        SetDisk(name=name, gb=gb_of(d) or 1, provisioning=_provisioning(d), datastore=stores[name] or None)
        for name, d in named_disks(facts).items()
    )
    return (*numbered, *named)


def gb_of(device: Device) -> int | None:
    """Return the size of a disk in whole GB; None where vCenter does not show it, or it is smaller than that."""
    return int(device.get("capacityInKB") or 0) // KB_PER_GB or None


def _provisioning(device: Device) -> Literal["thin", "thick", "eager"]:
    backing = device.get("backing") or {}
    return "thin" if backing.get("thinProvisioned") else "eager" if backing.get("eagerlyScrub") else "thick"
