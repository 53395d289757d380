"""A whole PCI device, as a playbook states it and as a VM has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from vsphere_ai.fabric import pci
from vsphere_ai.fabric.api_types import VirtualDevice
from vsphere_ai.model.deferred import Deferred, inside
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.pci_address import PciAddress, read_pci
from vsphere_ai.model.state import Settings, Target, setting
from vsphere_ai.model.view import View

DEVICE = "VirtualPCIPassthrough"


def _hex(value: object) -> object:
    """YAML takes 2331 for a number and 20e1 for one with an exponent; the second has lost what was written."""
    if isinstance(value, float):
        raise ValueError("YAML reads this as a number\nput it into quotes, e.g. '20e1'")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:04d}"
    return value.lower().removeprefix("0x") if isinstance(value, str) else value


Id = Annotated[str, Field(pattern=r"^[0-9a-f]{4}$"), BeforeValidator(_hex)]


class PassthroughDevice(Settings):
    """One device: fixed by its address, which ties the VM to its host, or any one of a model."""

    host_device: PciAddress | None = setting("PCI address on the VM's host; the VM can run on no other host.")
    vendor: Id | None = setting("Vendor id (hexadecimal, `10de` is NVIDIA), with `device`.")
    device: Id | None = setting("Device id: any free device of that model on the host.")
    label: str | None = setting("Hardware label the dynamic device has to have.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        dynamic = [self.vendor, self.device]
        if (self.host_device is None) == (None in dynamic) or (self.host_device and any((*dynamic, self.label))):
            raise ValueError(
                "a device is either fixed or dynamic\n"
                "write {host_device: '0000:3b:00.0'} or {vendor: 10de, device: 20f1}"
            )
        return self

    def there(self, host: Facts) -> tuple[str, ...]:
        """Return the PCI addresses of what this is, or may be, on a host."""
        return (self.host_device,) if self.host_device else pci.matching(host, *ids_of(self), self.label or "")

    def __str__(self) -> str:
        label = f" ({self.label})" if self.label else ""
        return self.host_device or f"{self.vendor}:{self.device}{label}"


def passed_devices(facts: Facts) -> Iterator[VirtualDevice]:
    """Yield the VM's passthrough devices that are no vGPUs."""
    for device in facts.get("config.hardware.device", ()):
        if device["_typeName"] == DEVICE and not (device.get("backing") or {}).get("vgpu"):
            yield device


def stated_device(device: VirtualDevice) -> PassthroughDevice | None:
    """Return a device as a playbook states it; None for one no playbook can state."""
    backing = device.get("backing") or {}
    if device.get("deviceGroupInfo"):
        return None  # its group comes and goes as a whole
    if backing.get("_typeName") == pci.FIXED:
        return PassthroughDevice.model_construct(host_device=read_pci(str(backing.get("id"))))
    allowed = backing.get("allowedDevice", ())
    if backing.get("_typeName") != pci.DYNAMIC or len(allowed) != 1:
        return None
    vendor, model = (f"{i & 0xFFFF:04x}" for i in (allowed[0]["vendorId"], allowed[0]["deviceId"]))
    return PassthroughDevice.model_construct(vendor=vendor, device=model, label=backing.get("customLabel") or None)


def claim_of(device: PassthroughDevice) -> pci.Claim:
    """Return what a device takes of its host."""
    if device.host_device:
        return pci.Claim(device.host_device)
    return pci.Claim(models=frozenset({ids_of(device)}), label=device.label or "")


def ids_of(model: PassthroughDevice) -> tuple[int, int]:
    """Return vendor and device id as numbers."""
    return int(model.vendor or "0", 16), int(model.device or "0", 16)


def backing_of(device: PassthroughDevice, target: Target, view: View) -> dict[str, object]:
    """Return the backing of a new device."""
    if device.host_device is None:
        vendor, model = ids_of(device)
        allowed = {"_typeName": "VirtualPCIPassthroughAllowedDevice", "vendorId": vendor, "deviceId": model}
        label = {"customLabel": device.label} if device.label else {}
        return {"_typeName": pci.DYNAMIC, "deviceName": "", "allowedDevice": (allowed,), **label}
    on, center = view.estate.host_of(target.ref), view.estate.datacenter_of(target.ref)
    there = pci.devices(view.facts(on.ref))[device.host_device] if on else None
    # only vCenter knows the id of the system, and only once the device is passed through
    path = inside("configTarget.pciPassthrough", ("pciDevice.id", device.host_device), "systemId")
    return {
        "_typeName": pci.FIXED,
        "id": device.host_device,
        "deviceName": there.name if there else "",
        "deviceId": f"{there.device:04x}" if there else "",
        "vendorId": pci.signed(there.vendor) if there else 0,
        "systemId": Deferred(center.ref if center else "", "HostSystem", on.name if on else "", path),
    }
