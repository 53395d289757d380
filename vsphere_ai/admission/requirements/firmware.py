"""A VM with a GPU boots from EFI."""

from __future__ import annotations

from vsphere_ai.admission.base import STARTS, Case, Reason, requirement


@requirement(
    "admission.firmware",
    "EFI for VMs with large BARs",
    occasions=STARTS,
    source="Broadcom KB 323402; NVIDIA vGPU software user guide, 64-bit MMIO needs EFI boot mode",
)
def firmware(case: Case) -> Reason | None:
    """A VM with a vGPU does not reach its operating system when its firmware is BIOS.

    The address space of every GPU of the catalogue is above 4 GB, which BIOS does not map.
    """
    if case.vm.firmware != "bios" or not case.vm.vgpus:
        return None
    message = "its firmware is BIOS, with which a VM with a vGPU does not boot"
    return case.no(
        message, "use an image that was installed for EFI; a guest installed for BIOS does not boot from EFI"
    )
