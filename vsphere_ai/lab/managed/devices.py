"""Adding, editing and removing the virtual devices of a VM, with the refusals of the product."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.vgpu import known_types
from vsphere_ai.lab.managed.network import new_port
from vsphere_ai.lab.managed.placement import release
from vsphere_ai.lab.managed.refusals import invalid_power_state, not_supported
from vsphere_ai.lab.managed.virtual_machine import mac_address
from vsphere_ai.lab.store import ManagedObject, fill

DEV = vim.vm.device
NIC = DEV.VirtualEthernetCard
PCI = DEV.VirtualPCIPassthrough
PVRDMA = DEV.VirtualVmxnet3Vrdma

# the hardware versions that have `deviceProtocol`; later ones decide by themselves
PROTOCOL_HARDWARE = range(14, 20)


@dataclass
class Change:
    """The device changes of one ConfigSpec being applied to a copy of the configuration."""

    farm: Farm
    vm: ManagedObject
    host: ManagedObject
    config: Any
    powered_on: bool

    @property
    def hardware(self) -> int:
        """The VM's hardware version number."""
        return int(self.config.version.removeprefix("vmx-"))

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
                raise _bad(index, f"Invalid configuration for device '{index}'.")
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
            raise _bad(index, "The device needs the key of an existing controller.")
        self._describe(device, devices)
        if isinstance(device, NIC):
            self._address(device)
        devices.append(fill(device))
        return device

    def _edit(self, index: int, old: Any, new: Any) -> Any:
        if type(new) is not type(old):
            raise _bad(index, f"Device {old.key} is a {type(old)._wsdlName}.")
        self._check(index, new)
        for info in new._GetPropertyList():  # unset means unchanged: MAC, port, connection state stay
            if getattr(new, info.name) in (None, ""):
                setattr(new, info.name, getattr(old, info.name))
        if isinstance(new, NIC) and getattr(new.backing, "port", None) is not None:
            before = getattr(old.backing, "port", None)
            same = before is not None and before.portgroupKey == new.backing.port.portgroupKey
            new.backing.port.portKey = before.portKey if same and before else None
            self._connect(new)
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

    def _address(self, nic: Any) -> None:
        used = {d.macAddress for d in self.config.hardware.device if isinstance(d, NIC)}
        if not nic.macAddress:
            nic.macAddress = next(m for m in (mac_address(self.vm, i) for i in itertools.count()) if m not in used)
            nic.addressType = "assigned"
        if nic.connectable is None:
            nic.connectable = DEV.VirtualDevice.ConnectInfo(
                startConnected=True, allowGuestControl=True, connected=self.powered_on
            )
        nic.connectable.connected = self.powered_on and nic.connectable.startConnected
        nic.wakeOnLanEnabled = True if nic.wakeOnLanEnabled is None else nic.wakeOnLanEnabled
        self._connect(nic)

    def _connect(self, nic: Any) -> None:
        port = getattr(nic.backing, "port", None)
        if port is not None and not port.portKey:
            port.portKey = new_port(self.farm.store.objects[port.portgroupKey].extra["dvs"])
            port.connectionCookie = 1

    def _check(self, index: int, device: Any) -> None:
        if isinstance(device, PCI):
            self._check_vgpu(index, device)
        elif isinstance(device, NIC):
            self._check_backing(index, device)
            if isinstance(device, PVRDMA):
                self._check_pvrdma(index, device)
        elif not isinstance(device, DEV.VirtualDisk):
            raise not_supported(f"the lab does not change devices of type {type(device)._wsdlName}")

    def _check_vgpu(self, index: int, device: Any) -> None:
        if not isinstance(device.backing, PCI.VmiopBackingInfo):
            kind = type(device.backing)._wsdlName if device.backing else "no backing"
            raise not_supported(f"the lab has vGPU devices only, not {kind}")
        if device.backing.vgpu not in known_types(self.farm.host(self.host)):
            raise _bad(
                index,
                f"Invalid backing for device '{index}': vGPU '{device.backing.vgpu}' is not known to the host.",
                backing=True,
            )
        present = [d for d in self.config.hardware.device if isinstance(d, PCI) and d.key != device.key]
        if len(present) >= max_vgpus(self.farm.host(self.host).version):
            raise _too_many()

    def _check_backing(self, index: int, nic: Any) -> None:
        if isinstance(nic.backing, NIC.DistributedVirtualPortBackingInfo):
            port = nic.backing.port
            group = self.farm.store.objects.get(port.portgroupKey or "")
            if group is None or "dvs" not in group.extra or group.extra["dvs"]["uuid"] != port.switchUuid:
                raise _bad(
                    index, f"Invalid backing for device '{index}': no such distributed port group.", backing=True
                )
            if group.extra["uplink"]:
                raise _bad(
                    index,
                    f"Invalid backing for device '{index}': {group['name']} is an uplink port group.",
                    backing=True,
                )
            if self.host.ref not in group["host"]:
                raise _bad(
                    index, f"Invalid backing for device '{index}': the host is not on this switch.", backing=True
                )
        elif isinstance(nic.backing, NIC.NetworkBackingInfo):
            plain = self.farm.named.get(f"network:{nic.backing.deviceName}")
            if plain is None:
                raise _bad(index, f"Invalid backing for device '{index}': no such network.", backing=True)
            nic.backing.network = plain.ref
        else:
            raise _bad(index, f"Invalid backing for device '{index}'.", backing=True)

    def _check_pvrdma(self, index: int, nic: Any) -> None:
        if not isinstance(nic.backing, NIC.DistributedVirtualPortBackingInfo):
            raise _bad(index, "A PVRDMA adapter needs a distributed port group.", backing=True)
        others = [d for d in self.config.hardware.device if isinstance(d, PVRDMA) and d.key != nic.key]
        if self.hardware < 13:
            raise _bad(index, f"PVRDMA is not available with hardware version {self.hardware}.")
        if nic.deviceProtocol is not None and nic.deviceProtocol not in ("rocev1", "rocev2"):
            raise _bad(index, f"Unknown device protocol '{nic.deviceProtocol}'.")
        if nic.deviceProtocol is not None and self.hardware not in PROTOCOL_HARDWARE:
            raise _bad(index, f"Hardware version {self.hardware} has no device protocol to choose.")
        if len(others) >= max_pvrdma(self.hardware):
            raise _too_many()


def max_vgpus(version: str) -> int:
    """Return how many vGPUs one VM may have on an ESXi release."""
    return 16 if release(version) >= (8, 0, 2) else 8 if release(version) >= (8, 0, 0) else 4


def max_pvrdma(hardware: int) -> int:
    """Return how many PVRDMA adapters one VM may have: one before native endpoints (hardware version 18)."""
    return 0 if hardware < 13 else 1 if hardware < 18 else 10


def _hot(device: Any) -> bool:
    """Tell whether a device may be changed while the VM runs."""
    return isinstance(device, (NIC, DEV.VirtualDisk)) and not isinstance(device, PVRDMA)


def _too_many() -> Exception:
    error: Exception = vim.fault.TooManyDevices(
        property="virtualDeviceSpec", msg="The virtual machine has too many devices of this type."
    )
    return error


def _told(device: Any) -> dict[str, Any]:
    if isinstance(device, PCI):
        return {"vgpu": getattr(device.backing, "vgpu", None)}
    if isinstance(device, NIC):
        port = getattr(device.backing, "port", None)
        return {"portgroup": port.portgroupKey if port else None, "mac": device.macAddress}
    return {}


def _bad(index: int, text: str, *, backing: bool = False) -> Exception:
    typ = vim.fault.InvalidDeviceBacking if backing else vim.fault.InvalidDeviceSpec
    prefix = f"virtualDeviceSpec.device[{index}]"
    error: Exception = typ(deviceIndex=index, property=f"{prefix}.backing" if backing else prefix, msg=text)
    return error
