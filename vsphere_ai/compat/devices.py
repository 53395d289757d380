"""Finds physical NVIDIA GPUs among a host's PCI devices, and vGPU and PVRDMA devices among a VM's virtual ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vsphere_ai.compat.base import Case
from vsphere_ai.gpu.catalog import Board, board_of_device

NVIDIA = 0x10DE
DISPLAY_CLASS = 0x0300  # PCI base class 3: 0x0300 VGA, 0x0302 3D controller (A100 and later)
UNSIGNED = 0xFFFF  # vSphere shows PCI ids as signed 16-bit numbers
PVRDMA = "VirtualVmxnet3Vrdma"
VGPU_BACKING = "VirtualPCIPassthroughVmiopBackingInfo"


@dataclass(frozen=True)
class Gpu:
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
    """Tell whether a PCI device is a physical NVIDIA GPU; SR-IOV virtual functions show subsystem device 0."""
    vendor, kind = device["vendorId"] & UNSIGNED, device["classId"] & 0xFF00
    return vendor == NVIDIA and kind == DISPLAY_CLASS and device.get("subDeviceId") != 0


def gpus(case: Case) -> tuple[Gpu, ...]:
    """Return the physical NVIDIA GPUs of the host, by PCI address; `Unreadable` when its devices are not shown."""
    return found_gpus(case.need("hardware.pciDevice"))


def found_gpus(devices: Iterable[Mapping[str, Any]]) -> tuple[Gpu, ...]:
    """Return the physical NVIDIA GPUs among PCI devices, by PCI address."""
    physical = sorted((d for d in devices if is_nvidia_gpu(d)), key=lambda d: str(d["id"]))
    return tuple(_gpu(d) for d in physical)


def _gpu(device: Mapping[str, Any]) -> Gpu:
    board = board_of_device(device["deviceId"], device.get("subDeviceId") or 0)
    return Gpu(device["id"], device["deviceId"] & UNSIGNED, device.get("deviceName", ""), board)


def is_vgpu(device: Mapping[str, Any]) -> bool:
    """Tell whether a virtual device is a vGPU."""
    backing = device.get("backing") or {}
    return bool(backing.get("_typeName") == VGPU_BACKING)


def is_whole(device: Mapping[str, Any]) -> bool:
    """Tell whether a virtual device is a whole PCI device of a host."""
    return device.get("_typeName") == "VirtualPCIPassthrough" and not is_vgpu(device)


def wanted_vgpus(case: Case) -> int:
    """Return how many vGPUs the VM has, or will have after this plan."""
    planned = case.planned("vgpu", "profiles")
    if planned is not None:
        return len(planned)
    return sum(is_vgpu(d) for d in case.need("config.hardware.device"))


def wanted_adapters(case: Case) -> tuple[tuple[str, str | None], ...]:
    """Return the VM's PVRDMA adapters, or those after this plan, as (port group key or name, chosen protocol)."""
    planned = case.planned("pvrdma", "adapters")
    if planned is not None:
        return tuple((a.port_group, a.protocol) for a in planned)
    cards = case.planned("adapters", "adapters")
    if cards is not None:
        return tuple((c.port_group.partition(":")[2], c.protocol) for c in cards if c.type == "pvrdma")
    present = [d for d in case.need("config.hardware.device") if d.get("_typeName") == PVRDMA]
    return tuple((_port_group(d), d.get("deviceProtocol")) for d in present)


def _port_group(device: Mapping[str, Any]) -> str:
    port = (device.get("backing") or {}).get("port") or {}
    return str(port.get("portgroupKey", ""))
