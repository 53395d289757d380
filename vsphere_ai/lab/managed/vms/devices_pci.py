"""Passthrough devices of a VM: what a reconfigure accepts, and which devices of the host a power-on claims."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import placement
from vsphere_ai.lab.managed.refusals import not_supported, power_on_failed, too_many_devices
from vsphere_ai.lab.managed.running_vms import powered_on
from vsphere_ai.lab.managed.vms.device_change import DeviceChange
from vsphere_ai.lab.store import ManagedObject

PCI = vim.vm.device.VirtualPCIPassthrough
FIXED, DYNAMIC = PCI.DeviceBackingInfo, PCI.DynamicBackingInfo
DYNAMIC_HARDWARE = 17


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
    if len(others) >= max_passthrough(change.hardware, change.farm.host(change.host).version):
        raise too_many_devices()


def max_passthrough(hardware: int, version: str) -> int:
    """Return how many passthrough devices one VM may have.

    Source: VMware Configuration Maximums, vSphere 7.0, 8.0, 8.0 U1 and 8.0 U2.
    """
    if hardware < 20:
        return 16
    return 128 if hardware > 20 else 64 if placement.release(version) >= (8, 0, 1) else 32


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


def possible(vm: ManagedObject, host: ManagedObject) -> list[list[str]]:
    """Return for each whole device of a VM the addresses of the host's devices that it can be, free ones or not."""
    passed = {i.id: i for i in host["config"].pciPassthruInfo or () if i.passthruActive}
    ids = {d.id: (d.vendorId & 0xFFFF, d.deviceId & 0xFFFF) for d in host["hardware"].pciDevice}
    return [
        [device.backing.id] if isinstance(device.backing, FIXED) else _matching(device.backing, passed, ids, {})
        for device in _whole(vm)
    ]


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
    possible = [(device, _possible(host, device.backing, infos, ids, taken)) for device in wanted]
    given = _share_out([addresses for _, addresses in possible])
    if given is None:
        raise power_on_failed("No host device is available for the dynamic passthrough device.")
    return [(device, address) for (device, _), address in zip(possible, given, strict=True)]


def _possible(
    host: ManagedObject, backing: Any, infos: dict[str, Any], ids: dict[str, tuple[int, int]], taken: dict[str, str]
) -> list[str]:
    """Return the devices of the host that one of a VM can be, by their PCI addresses; raise for a fixed one."""
    if isinstance(backing, FIXED):
        if backing.systemId != system_id(host) or backing.id not in infos:
            raise power_on_failed(f"Device {backing.id} is not available for passthrough on the host.")
        if backing.id in taken:
            raise power_on_failed(f"Device {backing.id} is in use by another virtual machine.")
        return [backing.id]
    return _matching(backing, infos, ids, taken)


def _matching(backing: Any, infos: dict[str, Any], ids: dict[str, tuple[int, int]], taken: dict[str, str]) -> list[str]:
    """Return the free devices of the host that a dynamic device of a VM can be, by their PCI addresses."""
    allowed = {(a.vendorId & 0xFFFF, a.deviceId & 0xFFFF) for a in backing.allowedDevice}
    label = backing.customLabel or ""
    return [
        address
        for address, info in infos.items()
        if ids.get(address) in allowed
        and (getattr(info, "hardwareLabel", None) or "") == label
        and address not in taken
    ]


def _share_out(possible: list[list[str]]) -> list[str] | None:
    """Return a device for each entry, no device twice; None where there are not enough (augmenting paths)."""
    holder: dict[str, int] = {}

    def place(number: int, tried: set[str]) -> bool:
        for address in possible[number]:
            if address in tried:
                continue
            tried.add(address)
            if address not in holder or place(holder[address], tried):
                holder[address] = number
                return True
        return False

    if not all(place(number, set()) for number in range(len(possible))):
        return None
    found = {number: address for address, number in holder.items()}
    return [found[number] for number in range(len(possible))]


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
