"""Room in a VM's addresses for the memory of its GPUs: the 64-bit MMIO window, and the firmware that maps it."""

from __future__ import annotations

from vsphere_ai.admission.base import STARTS, AdmissionCase, Occasion, Reason, requirement
from vsphere_ai.admission.machine import Bounds
from vsphere_ai.fabric import pci
from vsphere_ai.gpu.vgpus.vgpu import mmio_size_gb
from vsphere_ai.gpu.vgpus.window import MMIO_KEY, MMIO_SIZE_KEY, is_whole, of_device, of_vgpu
from vsphere_ai.model.facts import Facts

LARGE_GB = 16
"""GPUs that show more memory than this need the settings (VMware, "How to enable large-BAR GPUs")."""
SHARES_FROM_MB = 32 * 1024
"""Memory of a VM from which on its shares of such GPUs need them, too (NVIDIA vGPU, MMIO space; unverified)."""
BOOTS: frozenset[Occasion] = STARTS | {"ha_restart"}


@requirement(
    "admission.mmio-window",
    "64-bit MMIO window for GPU memory",
    occasions=BOOTS,
    source="Broadcom KB 323402, Failed to power on VMs with PCI passthrough and insufficient MMIO allocation",
    reads={"VirtualMachine": ("config.extraConfig",), "HostSystem": (pci.DEVICES,)},
    faults=("GenericVmConfigFault",),
    of_vm=True,
)
def mmio_window(case: AdmissionCase) -> Reason | None:
    """The 64-bit MMIO window of a VM takes the memory of all its GPUs of more than 16 GB, rounded up twice.

    It is rounded up to the next power of two, and then doubled: 80 GB need 256. Counted are whole GPUs, as vGPUs with
    all memory of their board or by passthrough. Whether a vGPU with a part of a board needs it in a VM of 32 GB and
    more is unknown (unverified).
    """
    vm = case.vm
    whole, parts = _of_vgpus(case)
    shown = Bounds(whole, whole + parts)
    for claim in vm.claims:
        shown = shown + _of_claim(claim, case.host)
    if not shown.high or case.ran_alike("vgpus", "claims", "window_gb"):
        return None
    if vm.window_gb is None:
        return case.unknown("the advanced settings of the VM were not read, and it has GPUs")
    need = Bounds(*(mmio_size_gb(int(gb)) if gb else 0 for gb in shown))
    has = f"has one of {vm.window_gb} GB" if vm.window_gb else "has none"
    refusal = f"{shown.low:.0f} GB of GPU memory need a 64-bit MMIO window of {need.low:.0f} GB, the VM {has}"
    unproved = f"{shown.high:.0f} GB of GPU memory may need a 64-bit MMIO window of {need.high:.0f} GB, the VM {has}"
    help = (
        f"set {MMIO_KEY}=TRUE and {MMIO_SIZE_KEY}={need.high:.0f} in the VM or its source, or write its GPUs in a play "
        "(vgpu, pci_devices), which sets both"
    )
    return case.compared(
        need, Bounds(vm.window_gb, vm.window_gb), "GB", (refusal, unproved, help, "GenericVmConfigFault")
    )


@requirement(
    "admission.gpu-firmware",
    "EFI firmware for GPU memory",
    occasions=BOOTS,
    source='VMware, "How to enable large-BAR GPUs" (EFI); Broadcom KB 323402',
    reads={"VirtualMachine": ("config.firmware",), "HostSystem": (pci.DEVICES,)},
    faults=("GenericVmConfigFault",),
    of_vm=True,
)
def gpu_firmware(case: AdmissionCase) -> Reason | None:
    """BIOS firmware cannot map the memory of a vGPU, nor that of a whole GPU of more than 16 GB: the VM needs EFI.

    The guest has to be installed under EFI. For vGPUs with a small part of a board this is unverified.
    """
    vm = case.vm
    whole = any(_of_claim(claim, case.host).low for claim in vm.claims)
    if not (whole or vm.vgpus) or vm.firmware == "efi" or case.ran_alike("vgpus", "claims", "firmware"):
        return None
    what = f"the vGPU {vm.vgpus[0]}" if vm.vgpus else "a GPU with that much memory"
    if not vm.firmware:
        return case.unknown(f"the firmware of the VM was not read, and it has {what}")
    message = f"the VM has {vm.firmware} firmware, which cannot map the memory of {what}"
    return case.no(message, "use an image that was installed under EFI", "GenericVmConfigFault")


def _of_vgpus(case: AdmissionCase) -> tuple[int, int]:
    """Return the GB of boards that the VM has as a whole, and of those that it may have to map for a part of one."""
    whole = parts = 0
    for profile in case.vm.vgpus:
        memory = of_vgpu(profile, case.host)
        if memory <= LARGE_GB:
            continue
        if is_whole(profile, case.host):
            whole += memory
        elif (case.vm.memory_mb or SHARES_FROM_MB) >= SHARES_FROM_MB:
            parts += memory
    return whole, parts


def _of_claim(claim: pci.Claim, host: Facts) -> Bounds:
    """Return the least and the most GB that a passthrough device shows, 0 for none of a large GPU."""
    known = pci.devices(host).get(claim.address) if claim.address else None
    models = {(known.vendor, known.device)} if known is not None else claim.models
    sizes = [of_device(vendor, device) for vendor, device in models] or [0]
    large = [gb if gb > LARGE_GB else 0 for gb in sizes]
    return Bounds(min(large), max(large))
