"""A host's PCI devices, and which of them can be passed through or cut into virtual functions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.parts import Pnic
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.host_managers import host_of_manager

SRIOV_ARCHITECTURES = ("ampere", "hopper", "ada", "blackwell")
GPU_FUNCTIONS = 16
NODES = 2


def _short(value: int) -> int:
    """Return an id the way the API carries it: a signed 16-bit number."""
    return value - 0x10000 if value > 0x7FFF else value


def _byte(value: int) -> int:
    return value - 0x100 if value > 0x7F else value


def devices(host: LabHost) -> list[Any]:
    """Return ``hardware.pciDevice`` of a host: bridges, GPUs (3D controllers) and NICs."""
    rows = [
        (g.pci, 0x0302, 0x10DE, g.device_id, 0x10DE, g.subsystem_id, "NVIDIA Corporation", g.product.pci_name)
        for g in host.gpus
    ]
    rows += [
        (n.pci, 0x0200, n.vendor_id, n.device_id, n.vendor_id, 0x0007, n.vendor_name, n.description) for n in host.pnics
    ]
    above = {part.pci: bridges(part) for part in _parts(host)}
    parents = {below: bridge for pci, way in above.items() for bridge, below in pairwise((*way, pci))}
    rows += [
        (
            b,
            0x0604,
            0x8086,
            0x347A,
            0x8086,
            0,
            "Intel Corporation",
            "PCI Express Root Port" if b not in parents else "PCI bridge",
        )
        for b in sorted({b for way in above.values() for b in way})
    ]
    return [_device(parents.get(row[0]), *row) for row in sorted(rows)]


def bridges(part: LabGpu | Pnic) -> tuple[str, ...]:
    """Return the bridges above a device, from the root port down: its own root port, unless it says otherwise."""
    if part.bridges:
        return part.bridges
    segment, bus, _ = part.pci.split(":")
    return (f"{segment}:{max(int(bus, 16) - 1, 0):02x}:00.0",)


def numa(host: LabHost, threads: int) -> Any:
    """Return ``hardware.numaInfo``: two nodes, each with half of the logical processors, and the devices at them."""
    parts = _parts(host)
    nodes = [
        vim.host.NumaNode(
            typeId=node,
            cpuID=list(range(node * threads // NODES, (node + 1) * threads // NODES)),
            memoryRangeBegin=0,
            memoryRangeLength=0,
            pciId=sorted({a for p in parts if p.numa_node == node for a in (p.pci, *bridges(p))}),
        )
        for node in range(NODES)
    ]
    return vim.host.NumaInfo(type="NUMA", numNodes=NODES, numaNode=nodes)


def _parts(host: LabHost) -> list[LabGpu | Pnic]:
    return [*host.gpus, *host.pnics]


def _device(parent: str | None, *row: Any) -> Any:
    pci, class_id, vendor, device, sub_vendor, sub_device, vendor_name, name = row
    bus, _, rest = pci.partition(":")[2].partition(":")
    slot, _, function = rest.partition(".")
    return vim.host.PciDevice(
        id=pci,
        parentBridge=parent,
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


def passthrough(host: LabHost, iommu: bool) -> list[Any]:
    """Return ``config.pciPassthruInfo``: SR-IOV information for NICs and for GPUs since Ampere."""
    return list(_passthrough(host, iommu))


def _passthrough(host: LabHost, iommu: bool) -> Iterator[Any]:
    for gpu in host.gpus:
        most = GPU_FUNCTIONS if gpu.board.architecture.lower().startswith(SRIOV_ARCHITECTURES) else 0
        yield _info(
            gpu.pci, most if iommu else 0, enabled=gpu.passthrough, active=gpu.active == "direct", capable=iommu
        )
    for nic in host.pnics:
        made = _info(
            nic.pci,
            nic.sriov_max if iommu else 0,
            enabled=nic.passthrough,
            active=nic.passthrough_active,
            capable=iommu,
        )
        if isinstance(made, vim.host.SriovInfo):
            made.numVirtualFunctionRequested, made.numVirtualFunction = nic.vfs_configured, nic.vfs
            made.sriovEnabled, made.sriovActive = nic.vfs_configured > 0, nic.vfs > 0
        yield made


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


@reads(vim.host.PciPassthruSystem, "Refresh")
def refresh(call: Call) -> None:
    """Read the devices again."""
    mo, _ = host_of_manager(call)
    call.farm.mark(mo)
