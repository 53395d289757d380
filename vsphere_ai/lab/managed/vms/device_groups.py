"""Vendor device groups (vSphere 8.0): devices that a VM gets, keeps and gives back together.

What is refused follows the API reference of VirtualMachineVirtualDeviceGroups: members come and go with their group,
and who is a member never changes. The wording of the faults, and that a list without a group takes it away, were not
seen on a real vCenter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.parts import LabDeviceGroup
from vsphere_ai.lab.hardware.vgpu import Together, known_types
from vsphere_ai.lab.managed.placement import hardware_of, release
from vsphere_ai.lab.managed.refusals import bad_device, invalid_argument, invalid_power_state, power_on_failed
from vsphere_ai.lab.managed.vms.device_change import DeviceChange
from vsphere_ai.lab.store import ManagedObject, fill

DEV = vim.vm.device
PCI = DEV.VirtualPCIPassthrough
GROUPS = vim.vm.VirtualDeviceGroups
HARDWARE = 20
FIRST_RELEASE = (8, 0, 0)


def offered(host: LabHost) -> list[Any]:
    """Return the VendorDeviceGroupInfo of every group whose devices the host has."""
    return [_info(group) for group in _groups(host)]


def settle(change: DeviceChange, present: Any, spec: Any) -> dict[str, Any]:
    """Bring the groups of a changed configuration in line with its devices; return what the ledger says of it.

    Raise the fault of a group that is not whole afterwards. A spec without groups leaves those that keep their members.
    """
    config, old = change.config, {g.groupInstanceKey: g for g in _listed(present)}
    listed = list(spec.deviceGroups.deviceGroup) if spec.deviceGroups is not None else list(old.values())
    left = {_group(d) for d in config.hardware.device}
    keys: dict[int, int] = {}
    groups = []
    for group in listed:
        if group.groupInstanceKey in old:
            group = old[group.groupInstanceKey]
            if spec.deviceGroups is None and group.groupInstanceKey not in left:
                continue  # it went with its last member
        else:
            _check_new(change, group, keys)
            used = {*old, *keys.values()}
            keys[group.groupInstanceKey] = next(k for k in itertools.count(1) if k not in used)
            group = GROUPS.VendorDeviceGroup(
                groupInstanceKey=keys[group.groupInstanceKey], deviceGroupName=group.deviceGroupName
            )
        groups.append(group)
    added = [g for g in groups if g.groupInstanceKey not in old]
    kept = {g.groupInstanceKey for g in groups}
    removed = [g for key, g in old.items() if key not in kept]
    if (added or removed) and change.powered_on:
        raise invalid_power_state("poweredOn", "poweredOff")
    _renumber(config, keys)
    gone = {c.device.key for c in spec.deviceChange or () if c.operation == "remove"}
    stay = {d.key: _group(d) for d in present.hardware.device if d.key not in gone}
    _check_joining(change, stay, {g.groupInstanceKey for g in groups}, {g.groupInstanceKey for g in added})
    _check_whole(change, present, {g.groupInstanceKey: g for g in groups}, {g.groupInstanceKey for g in added})
    config.deviceGroups = fill(GROUPS(deviceGroup=groups)) if groups or present.deviceGroups is not None else None
    names = {"added": [g.deviceGroupName for g in added], "removed": [g.deviceGroupName for g in removed]}
    return {"deviceGroups": names} if added or removed else {}


def together(vm: ManagedObject) -> list[Together]:
    """Return which of the VM's vGPUs belong together, by their place among its vGPUs."""
    config = vm["config"]
    vgpus = [d for d in config.hardware.device if isinstance(d.backing, PCI.VmiopBackingInfo)]
    places = {g: tuple(n for n, d in enumerate(vgpus) if _group(d) == g.groupInstanceKey) for g in _listed(config)}
    return [Together(found, g.deviceGroupName.endswith("%NVLink")) for g, found in places.items() if found]


def check_power_on(vm: ManagedObject, host: LabHost) -> None:
    """Raise the fault of a power-on on a host that does not offer one of the VM's groups."""
    names = {g.name for g in _groups(host)}
    for group in _listed(vm["config"]):
        if group.deviceGroupName not in names or hardware_of(vm) < HARDWARE:
            raise power_on_failed(f"Device group '{group.deviceGroupName}' is not available on the host.")


def _groups(host: LabHost) -> Iterator[LabDeviceGroup]:
    known = known_types(host)
    for group in host.device_groups if release(host.version) >= FIRST_RELEASE else ():
        ids = [(0x10DE, g.device_id) for g in host.gpus] + [(n.vendor_id, n.device_id) for n in host.pnics]
        if group.vgpu in known or ids.count(group.device) >= group.count:
            yield group


def _info(group: LabDeviceGroup) -> Any:
    kind = "nvidiaVgpu" if group.vgpu else "pciPassthru"
    name = group.vgpu or "{:04x}:{:04x}".format(*group.device)
    components = [
        vim.vm.VendorDeviceGroupInfo.ComponentDeviceInfo(
            type=kind,
            vendorName="NVIDIA" if group.vgpu or group.device[0] == 0x10DE else "vendor",
            deviceName=name,
            isConfigurable=False,
            device=PCI(
                key=-1 - number,
                backing=_backing(group),
                deviceGroupInfo=DEV.VirtualDevice.DeviceGroupInfo(groupInstanceKey=-1, sequenceId=number + 1),
            ),
        )
        for number in range(group.count)
    ]
    return fill(
        vim.vm.VendorDeviceGroupInfo(
            name=group.name,
            deviceGroupName=group.name,
            deviceGroupDescription=f"{group.count} x {name}",
            componentDeviceInfo=components,
        )
    )


def _backing(group: LabDeviceGroup) -> Any:
    if group.vgpu:
        return PCI.VmiopBackingInfo(vgpu=group.vgpu)
    vendor, device = group.device
    allowed = PCI.AllowedDevice(vendorId=vendor, deviceId=device)
    return PCI.DynamicBackingInfo(deviceName="", allowedDevice=[allowed])


def _listed(config: Any) -> list[Any]:
    return list(config.deviceGroups.deviceGroup) if config.deviceGroups is not None else []


def _group(device: Any) -> int | None:
    info = device.deviceGroupInfo
    return None if info is None else int(info.groupInstanceKey)


def _check_new(change: DeviceChange, group: Any, keys: dict[int, int]) -> None:
    where = "spec.deviceGroups.deviceGroup"
    if not isinstance(group, GROUPS.VendorDeviceGroup):
        raise invalid_argument(where, f"{type(group)._wsdlName} cannot be added")
    if group.groupInstanceKey >= 0 or group.groupInstanceKey in keys:
        raise invalid_argument(f"{where}.groupInstanceKey", "a new group has a negative key of its own")
    if group.deviceGroupName not in {g.name for g in _groups(change.farm.host(change.host))}:
        raise invalid_argument(f"{where}.deviceGroupName", f"the host has no group '{group.deviceGroupName}'")
    if change.hardware < HARDWARE:
        raise vim.fault.GenericVmConfigFault(
            reason=f"Device groups need hardware version {HARDWARE}.",
            msg=f"Device groups need hardware version {HARDWARE}, the virtual machine has {change.hardware}.",
        )


def _renumber(config: Any, keys: dict[int, int]) -> None:
    for device in config.hardware.device:
        key = _group(device)
        if key is not None and key in keys:
            device.deviceGroupInfo.groupInstanceKey = keys[key]


def _check_joining(change: DeviceChange, stay: dict[int, int | None], groups: set[int], new: set[int]) -> None:
    """No device joins or leaves a group that stays, or is left behind by one; removed keys are used again."""
    for index, device in enumerate(change.config.hardware.device):
        key = _group(device)
        if device.key not in stay:
            if key is not None and key not in new:
                raise bad_device(index, f"Invalid configuration for device '{index}': no device group {key} is added.")
        elif stay[device.key] != key or (key is not None and key not in groups):
            raise bad_device(index, "The device belongs to a device group, which is added and removed as a whole.")


def _check_whole(change: DeviceChange, present: Any, groups: dict[int, Any], new: set[int]) -> None:
    """A new group has exactly the members of its description, one that stays those it had."""
    infos = {i.deviceGroupName: i for i in offered(change.farm.host(change.host))}
    for key, group in groups.items():
        found = [d for d in change.config.hardware.device if _group(d) == key]
        if key in new:
            template = [c.device for c in infos[group.deviceGroupName].componentDeviceInfo]
            if sorted(map(_member, found)) != sorted(map(_member, template)):
                raise bad_device(0, f"Device group '{group.deviceGroupName}' needs exactly its member devices.")
        elif {d.key for d in found} != {d.key for d in present.hardware.device if _group(d) == key}:
            raise bad_device(0, f"Device group '{group.deviceGroupName}' is added and removed as a whole.")


def _member(device: Any) -> tuple[int, str, str]:
    backing = device.backing
    allowed = ",".join(
        f"{a.vendorId & 0xFFFF:x}:{a.deviceId & 0xFFFF:x}" for a in getattr(backing, "allowedDevice", ())
    )
    return device.deviceGroupInfo.sequenceId, type(device)._wsdlName, getattr(backing, "vgpu", "") or allowed
