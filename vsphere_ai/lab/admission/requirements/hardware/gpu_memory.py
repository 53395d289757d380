"""Memory of GPUs in the addresses of a VM: EFI maps it, in a 64-bit MMIO window that is large enough.

Broadcom KB 323402: the memory of all GPUs is rounded up to a power of two, and up again to the next one; with less the
VM does not power on. A total that is a power of two goes to the next one, too (VMware, "How to enable large-BAR GPUs",
which is about devices with more than 16 GB). Of a vGPU with a part of a board the lab asks nothing.
"""

from __future__ import annotations

from typing import Any

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.admission.requirements.hardware.gpus import frame_buffer_gb, profiles
from vsphere_ai.lab.managed.refusals import power_on_failed
from vsphere_ai.lab.managed.vms import devices_pci

LARGE_BAR_GB = 24
"""The smallest board that shows its whole memory and more than 16 GB of it."""
DEFAULT_WINDOW_GB = 32


@requirement(91, RUNS | {Occasion.START}, CheckTests.HOST)
def gpu_memory(case: LabCase) -> Faults:
    """Yield a fault where the VM cannot map the memory of the boards that it has as a whole."""
    shown = 0 if case.runs_here else sum(_boards(case))
    if not shown:
        return
    if case.config.firmware != "efi":
        yield power_on_failed("The firmware cannot map the large BAR of the device; EFI is required.")
    elif _window(case.config) < 2 << shown.bit_length():
        yield power_on_failed("The 64-bit MMIO space is too small for the device.", "pciPassthru.64bitMMIOSizeGB")


def _boards(case: LabCase) -> list[int]:
    """Return the memory in GB of each large board that the VM has as a whole, as a vGPU or by passthrough."""
    machine = case.farm.host(case.host)
    sizes = {gpu.board.memory_gb for gpu in machine.gpus}
    whole = [size for name in profiles(case.config) if (size := frame_buffer_gb(name)) in sizes]
    passed = devices_pci.possible(case.vm, case.host)
    by_address = {gpu.pci: gpu.board.memory_gb for gpu in machine.gpus}
    whole += [min(by_address.get(address, 0) for address in addresses) for addresses in passed if addresses]
    return [size for size in whole if size >= LARGE_BAR_GB]


def _window(config: Any) -> int:
    keys = {o.key.lower(): str(o.value) for o in config.extraConfig or ()}
    if keys.get("pcipassthru.use64bitmmio", "").lower() != "true":
        return 0
    size = keys.get("pcipassthru.64bitmmiosizegb", "")
    return int(size) if size.isdigit() else DEFAULT_WINDOW_GB
