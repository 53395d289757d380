"""Adding, editing and removing the virtual devices of a VM, with the refusals of the product."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.hardware.vgpu import known_types
from vsphere_ai.lab.managed import devices_nic, devices_pci
from vsphere_ai.lab.managed.device_change import DeviceChange
from vsphere_ai.lab.managed.placement import release
from vsphere_ai.lab.managed.refusals import bad_device, invalid_power_state, not_supported, too_many_devices
from vsphere_ai.lab.store import fill

DEV = vim.vm.device
NIC = DEV.VirtualEthernetCard
PCI = DEV.VirtualPCIPassthrough


class Change(DeviceChange):
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
                self.config.hardware.device = [d for d in self.config.hardware.device if d is not old]
            else:
                done = self._edit(index, old, copy.deepcopy(device))
        return {"operation": str(spec.operation), "type": type(done)._wsdlName, "key": done.key, **_told(done)}

    def _add(self, index: int, device: Any) -> Any:
        devices = self.config.hardware.device
        self._check(index, device)
        base = 13000 if isinstance(device, PCI) else 4000 if isinstance(device, NIC) else 2000
        taken = {d.key for d in devices}
        device.key = next(k for k in itertools.count(base) if k not in taken)
        if isinstance(device, (PCI, NIC)):
            used = {d.unitNumber for d in devices if d.controllerKey == 100}
            first = 18 if isinstance(device, PCI) else 7
            device.controllerKey, device.unitNumber = 100, next(n for n in itertools.count(first) if n not in used)
        elif device.controllerKey not in taken:
            raise bad_device(index, "The device needs the key of an existing controller.")
        self._describe(device, devices)
        if isinstance(device, NIC):
            devices_nic.complete(self, device)
        devices.append(fill(device))
        return device

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
        else:
            label = f"Hard disk {sum(isinstance(d, type(device)) for d in others) + 1}"
            summary = label
        device.deviceInfo = vim.Description(label=keep_label.label if keep_label else label, summary=summary)

    def _check(self, index: int, device: Any) -> None:
        if isinstance(device, NIC):
            devices_nic.check(self, index, device)
        elif isinstance(device, PCI) and isinstance(device.backing, PCI.VmiopBackingInfo):
            self._check_vgpu(index, device)
        elif isinstance(device, PCI):
            devices_pci.check(self, index, device)
        elif not isinstance(device, DEV.VirtualDisk):
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


def max_vgpus(version: str) -> int:
    """Return how many vGPUs one VM may have on an ESXi release."""
    return 16 if release(version) >= (8, 0, 2) else 8 if release(version) >= (8, 0, 0) else 4


def _hot(device: Any) -> bool:
    """Tell whether a device may be changed while the VM runs."""
    return devices_nic.is_hot(device) if isinstance(device, NIC) else isinstance(device, DEV.VirtualDisk)


def _told(device: Any) -> dict[str, Any]:
    if isinstance(device, NIC):
        return devices_nic.told(device)
    if isinstance(device, PCI):
        vgpu = isinstance(device.backing, PCI.VmiopBackingInfo)
        return {"vgpu": device.backing.vgpu} if vgpu else devices_pci.told(device)
    return {}
