"""Adding, editing and removing the virtual devices of a VM, with the refusals of the product."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.hardware.vgpu import known_types
from vsphere_ai.lab.managed import datastores
from vsphere_ai.lab.managed.placement import release
from vsphere_ai.lab.managed.refusals import bad_device, invalid_power_state, not_supported, too_many_devices
from vsphere_ai.lab.managed.vms import devices_nic, devices_pci, vgpu_migration
from vsphere_ai.lab.managed.vms.device_change import DeviceChange
from vsphere_ai.lab.store import fill

DEV = vim.vm.device
NIC = DEV.VirtualEthernetCard
PCI = DEV.VirtualPCIPassthrough
CONTROLLER = DEV.VirtualController
FIXED = (DEV.VirtualPCIController, DEV.VirtualPS2Controller, DEV.VirtualVMCIDevice, DEV.VirtualVideoCard,
         DEV.VirtualKeyboard)  # fmt: skip
"""Devices every VM keeps."""
PLAIN = (
    DEV.VirtualDisk, DEV.VirtualCdrom, DEV.VirtualFloppy, DEV.VirtualSerialPort, DEV.VirtualParallelPort,
    DEV.VirtualUSB, DEV.VirtualSoundCard, DEV.VirtualPointingDevice, DEV.VirtualTPM, DEV.VirtualVideoCard,
    DEV.VirtualKeyboard, DEV.VirtualIDEController, DEV.VirtualSCSIController, DEV.VirtualSATAController,
    DEV.VirtualNVMEController, DEV.VirtualUSBController, DEV.VirtualUSBXHCIController, DEV.VirtualSIOController,
)  # fmt: skip
"""Devices the lab keeps as they are given."""
KEYS: tuple[tuple[Any, int], ...] = (
    (PCI, 13000), (NIC, 4000), (DEV.VirtualDisk, 2000), (DEV.VirtualCdrom, 3000), (DEV.VirtualFloppy, 8000),
    (DEV.VirtualIDEController, 200), (DEV.VirtualSCSIController, 1000), (DEV.VirtualSATAController, 15000),
    (DEV.VirtualNVMEController, 31000), (DEV.VirtualUSBXHCIController, 14000), (DEV.VirtualUSBController, 7000),
    (DEV.VirtualSIOController, 400), (DEV.VirtualSerialPort, 9000), (DEV.VirtualParallelPort, 10000),
    (DEV.VirtualTPM, 11000), (DEV.VirtualUSB, 7100), (DEV.VirtualSoundCard, 5000), (DEV.VirtualPointingDevice, 700),
    (DEV.VirtualKeyboard, 600), (DEV.VirtualVideoCard, 500),
)  # fmt: skip
"""The key the first device of a type gets."""
LABELS = {
    200: "IDE", 1000: "SCSI controller", 15000: "SATA controller", 31000: "NVME controller", 3000: "CD/DVD drive",
    8000: "Floppy drive", 14000: "USB xHCI controller", 7000: "USB controller", 400: "SIO controller",
    9000: "Serial port", 11000: "Virtual TPM",
}  # fmt: skip
HOT = (DEV.VirtualDisk, DEV.VirtualSCSIController, DEV.VirtualCdrom, DEV.VirtualUSB, DEV.VirtualUSBController)


class DeviceChanges(DeviceChange):
    """The device changes of one ConfigSpec, applied one after the other."""

    def apply(self, index: int, spec: Any) -> dict[str, Any] | None:
        """Apply one VirtualDeviceSpec; return what it did for the ledger, None when it asked for nothing."""
        device = spec.device
        if not spec.operation or device is None:
            return None  # as documented, a spec without an operation is ignored
        if self.powered_on and not _hot(device):
            raise invalid_power_state("poweredOn", "poweredOff")
        if spec.operation == "add":
            done = self._add(index, copy.deepcopy(device))
        else:
            old = next((d for d in self.config.hardware.device if d.key == device.key), None)
            if old is None:
                raise bad_device(index, f"Invalid configuration for device '{index}'.")
            done = old
            if spec.operation == "remove":
                self._remove(index, old)
            else:
                done = self._edit(index, old, copy.deepcopy(device))
        return {"operation": str(spec.operation), "type": type(done)._wsdlName, "key": done.key, **_detail(done)}

    def _remove(self, index: int, old: Any) -> None:
        devices = self.config.hardware.device
        if isinstance(old, FIXED) or any(d.controllerKey == old.key for d in devices):
            raise bad_device(index, f"Device {old.key} cannot be removed: it is in use or belongs to every VM.")
        for controller in (d for d in devices if d.key == old.controllerKey and isinstance(d, CONTROLLER)):
            controller.device = [k for k in controller.device or () if k != old.key]
        self.config.hardware.device = [d for d in devices if d is not old]

    def _add(self, index: int, device: Any) -> Any:
        devices = self.config.hardware.device
        self._check(index, device)
        taken = {d.key for d in devices}
        asked, device.key = device.key, next(k for k in itertools.count(_first_key(device)) if k not in taken)
        if isinstance(device, (PCI, NIC)):
            used = {d.unitNumber for d in devices if d.controllerKey == 100}
            first = 18 if isinstance(device, PCI) else 7
            device.controllerKey, device.unitNumber = 100, next(n for n in itertools.count(first) if n not in used)
        elif isinstance(device, CONTROLLER):
            device.controllerKey = 100
            device.busNumber = sum(_first_key(d) == _first_key(device) for d in devices if isinstance(d, CONTROLLER))
            device.device = []
        else:
            self._plug(index, device)
        if asked < 0:
            self.new_keys[asked] = device.key  # by which the next devices of this specification name it
        self._describe(device, devices)
        if isinstance(device, NIC):
            devices_nic.complete(self, device)
        if isinstance(device, DEV.VirtualDisk):
            self._make_disk(index, device)
        if isinstance(device, PCI) and isinstance(device.backing, PCI.VmiopBackingInfo):
            vgpu_migration.complete(self.farm.host(self.host), device.backing)
        devices.append(fill(device))
        return device

    def _plug(self, index: int, device: Any) -> None:
        """Connect a device to its controller, on the first free unit where none is asked for."""
        devices = self.config.hardware.device
        key = self.new_keys.get(device.controllerKey, device.controllerKey)
        found = next((d for d in devices if d.key == key and isinstance(d, CONTROLLER)), None)
        if found is None and isinstance(device, (DEV.VirtualDisk, DEV.VirtualCdrom)):
            raise bad_device(index, "The device needs the key of an existing controller.")
        device.controllerKey = key if found is not None else 100
        used = {d.unitNumber for d in devices if d.controllerKey == device.controllerKey}
        if isinstance(found, DEV.VirtualSCSIController):
            used.add(7)  # its own
        if device.unitNumber is None or device.unitNumber < 0:
            device.unitNumber = next(n for n in itertools.count() if n not in used)
        elif device.unitNumber in used and found is not None:
            raise bad_device(index, f"Unit {device.unitNumber} of the controller is taken.")
        if found is not None:
            found.device = [*(found.device or ()), device.key]

    def _make_disk(self, index: int, disk: Any) -> None:
        if (disk.capacityInKB or 0) <= 0 and not disk.capacityInBytes:
            raise bad_device(index, "A disk needs a capacity.")
        if not disk.capacityInKB:
            disk.capacityInKB = disk.capacityInBytes >> 10
        if disk.backing is None or isinstance(disk.backing, DEV.VirtualDisk.FlatVer2BackingInfo):
            disk.backing = disk.backing or DEV.VirtualDisk.FlatVer2BackingInfo(diskMode="persistent")
            home = self.config.files.vmPathName.partition("/")[0].partition("] ")
            if not (disk.backing.fileName or "").endswith(".vmdk"):
                store = home[0] if not disk.backing.fileName else disk.backing.fileName.partition("]")[0]
                number = disk.key - 2000
                disk.backing.fileName = f"{store}] {home[2]}/{home[2]}{f'_{number}' if number else ''}.vmdk"
            disk.backing.datastore = datastores.at(self.farm, disk.backing.fileName, "fileName").ref

    def _edit(self, index: int, old: Any, new: Any) -> Any:
        if type(new) is not type(old):
            raise bad_device(index, f"Device {old.key} is a {type(old)._wsdlName}.")
        self._check(index, new)
        new_address = isinstance(new, NIC) and devices_nic.wants_address(old, new)
        if isinstance(new, NIC) and self.powered_on:
            devices_nic.refuse_while_on(old, new)
        for info in new._GetPropertyList():  # unset means unchanged: MAC, port, connection state stay
            if getattr(new, info.name) in (None, ""):
                setattr(new, info.name, getattr(old, info.name))
        if isinstance(new, DEV.VirtualDisk):
            _check_size(index, old, new)
        if isinstance(new, NIC):
            devices_nic.edited(self, old, new, new_address=new_address)
        self.config.hardware.device = [new if d is old else d for d in self.config.hardware.device]
        self._describe(new, [], keep_label=old.deviceInfo)
        return new

    def _describe(self, device: Any, others: list[Any], keep_label: Any = None) -> None:
        if isinstance(device, PCI):
            label = f"PCI device {sum(isinstance(d, PCI) for d in others)}"
            vgpu = getattr(device.backing, "vgpu", None)
            summary = f"NVIDIA GRID vGPU {vgpu}" if vgpu else label
        elif isinstance(device, NIC):
            used = {d.deviceInfo.label for d in others if d.deviceInfo}
            label = next(n for n in (f"Network adapter {i}" for i in itertools.count(1)) if n not in used)
            port = getattr(device.backing, "port", None)
            summary = f"DVSwitch: {port.switchUuid}" if port else str(getattr(device.backing, "deviceName", ""))
        elif isinstance(device, DEV.VirtualDisk):
            label = f"Hard disk {sum(isinstance(d, DEV.VirtualDisk) for d in others) + 1}"
            summary = f"{device.capacityInKB or 0:,} KB"
        else:
            same = sum(_first_key(d) == _first_key(device) for d in others) + (not isinstance(device, CONTROLLER))
            label = f"{LABELS.get(_first_key(device), type(device)._wsdlName.removeprefix('Virtual'))} {same}"
            summary = label
        device.deviceInfo = vim.Description(label=keep_label.label if keep_label else label, summary=summary)

    def _check(self, index: int, device: Any) -> None:
        if isinstance(device, NIC):
            devices_nic.check(self, index, device)
        elif isinstance(device, PCI) and isinstance(device.backing, PCI.VmiopBackingInfo):
            self._check_vgpu(index, device)
        elif isinstance(device, PCI):
            devices_pci.check(self, index, device)
        elif not isinstance(device, PLAIN):
            raise not_supported(f"the lab does not change devices of type {type(device)._wsdlName}")

    def _check_vgpu(self, index: int, device: Any) -> None:
        if device.backing.vgpu not in known_types(self.farm.host(self.host)):
            raise bad_device(
                index,
                f"Invalid backing for device '{index}': vGPU '{device.backing.vgpu}' is not known to the host.",
                backing=True,
            )
        present = [d for d in self.config.hardware.device if isinstance(d, PCI) and d.key != device.key]
        if len(present) >= max_vgpus(self.farm.host(self.host).version):
            raise too_many_devices()


def _check_size(index: int, old: Any, new: Any) -> None:
    """Refuse a disk that shrinks, or grows while it is a child of another one; bring both of its sizes in order.

    That a delta disk does not grow is documented; the fault's type was not seen on a real vCenter.
    """
    in_kb, in_bytes = new.capacityInKB, new.capacityInBytes
    if in_bytes and in_bytes != old.capacityInBytes:
        in_kb = in_bytes >> 10
    if in_kb != old.capacityInKB and (in_kb < old.capacityInKB or getattr(old.backing, "parent", None) is not None):
        raise vim.fault.InvalidDeviceOperation(
            deviceIndex=index,
            property=f"virtualDeviceSpec.device[{index}].capacityInKB",
            badOp="edit",
            msg=f"Invalid operation for device '{index}'.",
        )
    new.capacityInKB, new.capacityInBytes = in_kb, in_kb << 10


def max_vgpus(version: str) -> int:
    """Return how many vGPUs one VM may have on an ESXi release."""
    return 16 if release(version) >= (8, 0, 2) else 8 if release(version) >= (8, 0, 0) else 4


def _hot(device: Any) -> bool:
    """Return whether a device may be changed while the VM runs."""
    return devices_nic.is_hot(device) if isinstance(device, NIC) else isinstance(device, HOT)


def _first_key(device: Any) -> int:
    return next((first for typ, first in KEYS if isinstance(device, typ)), 20000)


def _detail(device: Any) -> dict[str, Any]:
    if isinstance(device, NIC):
        return devices_nic.detail(device)
    if isinstance(device, PCI):
        vgpu = isinstance(device.backing, PCI.VmiopBackingInfo)
        return {"vgpu": device.backing.vgpu} if vgpu else devices_pci.detail(device)
    return {}
