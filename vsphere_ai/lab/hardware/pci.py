"""The PCI functions of a simulated host, SR-IOV virtual functions of its GPUs included."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.lab.hardware import functions
from vsphere_ai.lab.hardware.gpu import LabGpu
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.hardware.parts import LabPciDevice, Pnic

NVIDIA = 0x10DE
_WITHOUT_SRIOV = ("maxwell", "pascal", "volta", "turing")
_VFS = 16


def pci_devices(host: LabHost) -> list[LabPciDevice]:
    """Return the display adapter of the board controller, NICs, GPUs and GPU virtual functions, by address."""
    with host.lock:
        found = [
            LabPciDevice(
                "0000:03:00.0", 0x102B, 0x0536, 0x1028, 0x0716, 0x0300, "VGA compatible controller",
                "Matrox Electronics Systems Ltd.", "Integrated Matrox G200eW3 Graphics Controller", "vmgfx0",
            )
        ]  # fmt: skip
        found += [_nic(nic) for nic in host.pnics]
        found += [function for nic in host.pnics for function in functions.virtual(nic)]
        for number, gpu in enumerate(host.gpus, start=1):
            found.append(_gpu(gpu, number))
            found += _virtual_functions(gpu, number)
        return sorted(found, key=lambda d: d.address)


def sriov_functions(gpu: LabGpu) -> int:
    """Return how many virtual functions the GPU shows now; vGPU on Ampere and newer runs on them."""
    if gpu.board.architecture in _WITHOUT_SRIOV or gpu.active != "sharedDirect":
        return 0
    return _VFS


def _nic(nic: Pnic) -> LabPciDevice:
    return LabPciDevice(
        nic.pci, nic.vendor_id, nic.device_id, nic.vendor_id, 0x0001, 0x0200, "Ethernet controller",
        nic.vendor_name, nic.description, nic.name, module=nic.driver, numa_node=nic.numa_node,
    )  # fmt: skip


def _gpu(gpu: LabGpu, number: int) -> LabPciDevice:
    return LabPciDevice(
        gpu.pci, NVIDIA, gpu.device_id, NVIDIA, 0x145F if gpu.device_id == 0x20F1 else 0x1000, 0x0302,
        "3D controller", "NVIDIA Corporation", gpu.esx_name, f"vmgfx{number}",
        module="nvidia" if gpu.driver and gpu.active != "direct" else "", numa_node=gpu.numa_node, slot_number=number,
    )  # fmt: skip


def _virtual_functions(gpu: LabGpu, number: int) -> Iterator[LabPciDevice]:
    segment, bus, _ = gpu.pci.split(":")
    for n in range(sriov_functions(gpu)):
        slot, function = divmod(n + 4, 8)
        yield LabPciDevice(
            f"{segment}:{bus}:{slot:02x}.{function}", NVIDIA, gpu.device_id, NVIDIA, 0, 0x0302, "3D controller",
            "NVIDIA Corporation", gpu.esx_name, f"PF_0.{int(bus, 16)}.0_VF_{n}", module="nvidia",
            numa_node=gpu.numa_node, slot_number=-number, parent=gpu.pci,
        )  # fmt: skip
