"""A host's PCI devices, and which of them can be passed through or cut into virtual functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.hardware.host import Host
from vsphere_ai.lab.managed import Call, handles
from vsphere_ai.lab.managed.host_managers import host_of_manager

SRIOV_ARCHITECTURES = ("ampere", "hopper", "ada", "blackwell")
GPU_FUNCTIONS = 16


def _short(value: int) -> int:
    """Return an id the way the API carries it: a signed 16-bit number."""
    return value - 0x10000 if value > 0x7FFF else value


def _byte(value: int) -> int:
    return value - 0x100 if value > 0x7F else value


def devices(host: Host) -> list[Any]:
    """Return ``hardware.pciDevice`` of a host: GPUs (3D controllers) and NICs."""
    rows = [
        (g.pci, 0x0302, 0x10DE, g.device_id, 0x10DE, 0x145F, "NVIDIA Corporation", g.product.pci_name)
        for g in host.gpus
    ]
    rows += [
        (n.pci, 0x0200, n.vendor_id, n.device_id, n.vendor_id, 0x0007, n.vendor_name, n.description) for n in host.pnics
    ]
    return [_device(*row) for row in sorted(rows)]


def _device(*row: Any) -> Any:
    pci, class_id, vendor, device, sub_vendor, sub_device, vendor_name, name = row
    bus, _, rest = pci.partition(":")[2].partition(":")
    slot, _, function = rest.partition(".")
    return vim.host.PciDevice(
        id=pci,
        classId=_short(class_id),
        bus=_byte(int(bus, 16)),
        slot=int(slot, 16),
        function=int(function, 16),
        vendorId=_short(vendor),
        deviceId=_short(device),
        subVendorId=_short(sub_vendor),
        subDeviceId=_short(sub_device),
        vendorName=vendor_name,
        deviceName=name,
    )


def passthrough(host: Host, iommu: bool) -> list[Any]:
    """Return ``config.pciPassthruInfo``: SR-IOV information for NICs and for GPUs since Ampere."""
    return list(_passthrough(host, iommu))


def _passthrough(host: Host, iommu: bool) -> Iterator[Any]:
    for gpu in host.gpus:
        most = GPU_FUNCTIONS if gpu.board.architecture.lower().startswith(SRIOV_ARCHITECTURES) else 0
        yield _info(
            gpu.pci, most if iommu else 0, enabled=gpu.passthrough, active=gpu.active == "direct", capable=iommu
        )
    for nic in host.pnics:
        yield _info(nic.pci, nic.sriov_max if iommu else 0, enabled=False, active=False, capable=iommu)


def _info(pci: str, functions: int, *, enabled: bool, active: bool, capable: bool) -> Any:
    common = {
        "id": pci,
        "dependentDevice": pci,
        "passthruEnabled": enabled,
        "passthruCapable": capable,
        "passthruActive": active,
    }
    if not functions:
        return vim.host.PciPassthruInfo(**common)
    return vim.host.SriovInfo(
        **common,
        sriovEnabled=False,
        sriovCapable=True,
        sriovActive=False,
        numVirtualFunctionRequested=0,
        numVirtualFunction=0,
        maxVirtualFunctionSupported=functions,
    )


@handles(vim.host.PciPassthruSystem, "Refresh")
def refresh(call: Call) -> None:
    """Read the devices again."""
    mo, _ = host_of_manager(call)
    call.farm.mark(mo)
