"""Passthrough devices of a VM: what a reconfigure accepts, and which devices of the host a power-on claims."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed.device_change import DeviceChange
from vsphere_ai.lab.managed.host_system import powered_on
from vsphere_ai.lab.managed.refusals import not_supported, power_on_failed
from vsphere_ai.lab.store import ManagedObject

PCI = vim.vm.device.VirtualPCIPassthrough
FIXED, DYNAMIC = PCI.DeviceBackingInfo, PCI.DynamicBackingInfo
DYNAMIC_HARDWARE = 17
MOST = 16


def system_id(host: ManagedObject) -> str:
    """Return the id by which ESXi calls itself in device backings; it is not the UUID of the hardware."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"system/{host['name']}"))


def check(change: DeviceChange, index: int, device: Any) -> None:
    """Raise the fault with which vCenter refuses a passthrough device in a ConfigSpec."""
    backing, devices = device.backing, change.config.hardware.device
    others = [d for d in devices if isinstance(d, PCI) and d.key != device.key and _is_whole(d)]
    if isinstance(backing, FIXED):
        _check_fixed(change.host, index, backing)
        if any(getattr(d.backing, "id", None) == backing.id for d in others):
            raise _bad(index, f"Device {backing.id} is in the virtual machine already.")
    elif isinstance(backing, DYNAMIC):
        if change.hardware < DYNAMIC_HARDWARE:
            raise _bad(index, f"Hardware version {change.hardware} has no dynamic passthrough devices.")
        if not backing.allowedDevice:
            raise _bad(index, f"Invalid backing for device '{index}': no allowed device.", backing=True)
        backing.assignedId = None  # the host says which it is
    else:
        raise not_supported(
            f"the lab has no passthrough devices with {type(backing)._wsdlName if backing else 'no'} backing"
        )
    if len(others) >= MOST:
        raise vim.fault.TooManyDevices(
            property="virtualDeviceSpec", msg="The virtual machine has too many devices of this type."
        )


def detail(device: Any) -> dict[str, Any]:
    """Return what the ledger says of a passthrough device."""
    backing = device.backing
    if isinstance(backing, FIXED):
        return {"host_device": backing.id}
    allowed = [f"{a.vendorId & 0xFFFF:04x}:{a.deviceId & 0xFFFF:04x}" for a in backing.allowedDevice]
    return {"allowed": allowed, **({"label": backing.customLabel} if backing.customLabel else {})}


def check_power_on(farm: Farm, vm: ManagedObject, host: ManagedObject) -> None:
    """Raise the fault of a power-on whose devices the host does not have, or has given to another VM."""
    _assign(farm, vm, host)


def claim(farm: Farm, vm: ManagedObject, host: ManagedObject) -> None:
    """Give a VM that powers on its dynamic devices; the caller holds the store's lock."""
    for device, address in _assign(farm, vm, host):
        if isinstance(device.backing, DYNAMIC):
            device.backing.assignedId = address


def release(vm: ManagedObject) -> None:
    """Take the dynamic devices back from a VM that powers off."""
    for device in _whole(vm):
        if isinstance(device.backing, DYNAMIC):
            device.backing.assignedId = None


def in_use(farm: Farm, host: ManagedObject) -> dict[str, str]:
    """Return PCI address -> the running VM that has the device."""
    found = {}
    for vm in powered_on(farm, host):
        for device in _whole(vm):
            address = device.backing.id if isinstance(device.backing, FIXED) else device.backing.assignedId
            if address:
                found[address] = vm["name"]
    return found


def _assign(farm: Farm, vm: ManagedObject, host: ManagedObject) -> list[tuple[Any, str]]:
    """Return each device of a VM with the device of the host it gets; fixed ones choose first."""
    wanted = sorted(_whole(vm), key=lambda d: not isinstance(d.backing, FIXED))
    if not wanted:
        return []
    taken = {a: name for a, name in in_use(farm, host).items() if name != vm["name"]}
    infos = {i.id: i for i in host["config"].pciPassthruInfo if i.passthruActive}
    ids = {d.id: (d.vendorId & 0xFFFF, d.deviceId & 0xFFFF) for d in host["hardware"].pciDevice}
    given: list[tuple[Any, str]] = []
    for device in wanted:
        backing = device.backing
        if isinstance(backing, FIXED):
            if backing.systemId != system_id(host) or backing.id not in infos:
                raise power_on_failed(f"Device {backing.id} is not available for passthrough on the host.")
            if backing.id in taken:
                raise power_on_failed(f"Device {backing.id} is in use by another virtual machine.")
            given.append((device, backing.id))
            continue
        allowed = {(a.vendorId & 0xFFFF, a.deviceId & 0xFFFF) for a in backing.allowedDevice}
        free = [
            a
            for a, info in infos.items()
            if ids.get(a) in allowed
            and (getattr(info, "hardwareLabel", None) or "") == (backing.customLabel or "")
            and a not in taken
            and a not in [g for _, g in given]
        ]
        if not free:
            raise power_on_failed("No host device is available for the dynamic passthrough device.")
        given.append((device, free[0]))
    return given


def _check_fixed(host: ManagedObject, index: int, backing: Any) -> None:
    info = next((i for i in host["config"].pciPassthruInfo if i.id == backing.id), None)
    device = next((d for d in host["hardware"].pciDevice if d.id == backing.id), None)
    if info is None or device is None or not info.passthruActive:
        raise _bad(index, f"Invalid backing for device '{index}': {backing.id} is not passed through.", backing=True)
    if backing.systemId != system_id(host):
        raise _bad(index, f"Invalid backing for device '{index}': it is of another system.", backing=True)
    same = (backing.vendorId or 0) & 0xFFFF == device.vendorId & 0xFFFF and _number(
        backing.deviceId
    ) == device.deviceId & 0xFFFF
    if not same:
        raise _bad(index, f"Invalid backing for device '{index}': {backing.id} is another device.", backing=True)


def _number(text: str | None) -> int:
    try:
        return int(text or "", 16)
    except ValueError:
        return -1


def _is_whole(device: Any) -> bool:
    return isinstance(device.backing, (FIXED, DYNAMIC))


def _whole(vm: ManagedObject) -> Iterator[Any]:
    return (d for d in vm["config"].hardware.device if isinstance(d, PCI) and _is_whole(d))


def _bad(index: int, text: str, *, backing: bool = False) -> Exception:
    typ = vim.fault.InvalidDeviceBacking if backing else vim.fault.InvalidDeviceSpec
    prefix = f"virtualDeviceSpec.device[{index}]"
    error: Exception = typ(deviceIndex=index, property=f"{prefix}.backing" if backing else prefix, msg=text)
    return error
