"""NVIDIA GPUs among a host's PCI devices, and vGPUs and whole PCI devices among a VM's virtual ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vsphere_ai.gpu.catalog import Board, board_of_device
from vsphere_ai.model.facts import Facts

NVIDIA = 0x10DE
DISPLAY_CLASS = 0x0300  # PCI base class 3: 0x0300 VGA, 0x0302 3D controller (A100 and later)
UNSIGNED = 0xFFFF  # vSphere shows PCI ids as signed 16-bit numbers
VGPU_BACKING = "VirtualPCIPassthroughVmiopBackingInfo"


@dataclass(frozen=True)
class PhysicalGpu:
    """A physical NVIDIA GPU: PCI address, PCI device id, and its board where the catalogue has it."""

    pci: str
    device_id: int
    name: str
    board: Board | None

    @property
    def seen(self) -> tuple[str, str]:
        """The evidence: where it is listed and as what."""
        return f"hardware.pciDevice[{self.pci}].deviceId", f"{self.device_id:04x}"


def is_nvidia_gpu(device: Mapping[str, Any]) -> bool:
    """Return whether a PCI device is a physical NVIDIA GPU; SR-IOV virtual functions show subsystem device 0."""
    vendor, kind = device["vendorId"] & UNSIGNED, device["classId"] & 0xFF00
    return vendor == NVIDIA and kind == DISPLAY_CLASS and device.get("subDeviceId") != 0


def found_gpus(devices: Iterable[Mapping[str, Any]]) -> tuple[PhysicalGpu, ...]:
    """Return the physical NVIDIA GPUs among PCI devices, by PCI address."""
    physical = sorted((d for d in devices if is_nvidia_gpu(d)), key=lambda d: str(d["id"]))
    return tuple(
        PhysicalGpu(
            d["id"],
            d["deviceId"] & UNSIGNED,
            d.get("deviceName", ""),
            board_of_device(d["deviceId"], d.get("subDeviceId")),
        )
        for d in physical
    )


def boards_of(facts: Facts) -> dict[str, Board | None]:
    """Return PCI address -> board of every NVIDIA GPU of a host, with the vGPU names of that device; None = unknown."""
    return {gpu.pci: gpu.board for gpu in found_gpus(facts.get("hardware.pciDevice", ()))}


def nvidia_gpus(facts: Facts) -> tuple[Mapping[str, Any], ...]:
    """Return the NVIDIA entries of graphicsInfo; the BMC's own VGA is listed there as well."""
    return tuple(g for g in facts.get("config.graphicsInfo", ()) if "nvidia" in g.get("vendorName", "").lower())


def is_vgpu(device: Mapping[str, Any]) -> bool:
    """Return whether a virtual device is a vGPU."""
    backing = device.get("backing") or {}
    return bool(backing.get("_typeName") == VGPU_BACKING)


def has_vgpus(vm: Facts) -> bool:
    """Return whether a VM has vGPUs, by what is known of its devices."""
    return any(is_vgpu(d) for d in vm.get("config.hardware.device", ()))


def is_whole(device: Mapping[str, object]) -> bool:
    """Return whether a virtual device is a whole PCI device of a host."""
    return device.get("_typeName") == "VirtualPCIPassthrough" and not is_vgpu(device)
