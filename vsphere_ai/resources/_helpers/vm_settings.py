"""Settings that go with the GPUs of a VM: memory, firmware, and the 64-bit MMIO window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vsphere_ai.gpu.vgpus.window import MMIO_KEY, MMIO_SIZE_KEY
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.state import Change, Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.mixins import VmDevices, device_states
from vsphere_ai.resources.remedies import upgrade_for
from vsphere_ai.resources.vm_hardware import VmHardware


def gpu_memory_of(vm: Target, view: View, settled: VmDevices | None = None, kind: str = "") -> int:
    """Return the GB of all GPUs a VM will have, by whichever kinds: the window is one for all of them.

    `settled` is counted instead of the state of its `kind` that the view has.
    """
    others = [state for of, state in device_states(view, vm.ref) if of != kind]
    return sum(state.gpu_memory_gb(vm, view) for state in (*others, *([settled] if settled else [])))


def hardware_version(vm: Target, view: View) -> int | None:
    """Return the hardware version a VM will have, e.g. 19; None when it is not known."""
    hardware = view.get(VmHardware, vm.ref)
    return hardware.version if hardware else None


def advanced_settings(facts: Facts) -> dict[str, str]:
    """Return a VM's advanced settings as texts."""
    return {o["key"]: str(o["value"]) for o in facts.get("config.extraConfig", ())}


def window_seen(facts: Facts) -> dict[str, Any]:
    """Return a VM's 64-bit MMIO window as the fields of a state: `mmio_64bit`, `mmio_size_gb`."""
    extra = advanced_settings(facts)
    size = extra.get(MMIO_SIZE_KEY, "")
    on = extra.get(MMIO_KEY, "").lower() == "true"
    return {"mmio_64bit": on, "mmio_size_gb": int(size) if size.isdecimal() else None}


def window_keys(change: Change) -> dict[str, str]:
    """Return the advanced settings with which a change sets the 64-bit MMIO window."""
    fields = {f.name for f in change.fields}
    keys = {MMIO_KEY: "TRUE"} if "mmio_64bit" in fields else {}
    return keys | ({MMIO_SIZE_KEY: str(change.after.mmio_size_gb)} if "mmio_size_gb" in fields else {})


def version_problems(vm: Target, view: View, rule: str, least: int, needs: str) -> Iterator[Problem]:
    """Yield that the hardware version a VM will have is below `least`; `needs`: ``a device group needs``."""
    version = hardware_version(vm, view)
    if version is not None and version < least:
        yield Finding.problem(vm, rule, f"hardware version {version}; {needs} {least}", upgrade_for(vm, view, least))


def memory_problems(vm: Target, view: View, rule: str, needs: str) -> Iterator[Problem]:
    """Yield that a playbook reserves a part of a VM's memory, unless that is how it is; `needs`: ``a vGPU needs``."""
    hardware = view.get(VmHardware, vm.ref)
    wanted = hardware.memory_reservation if hardware else None
    facts = view.facts(vm.ref)
    unlocks = bool(facts.get("config.memoryReservationLockedToMax"))
    if isinstance(wanted, int) and (unlocks or wanted != facts.get("config.memoryAllocation.reservation", 0)):
        help_ = "write hardware: {memory_reservation: full}, or leave it out"
        yield Finding.problem(vm, rule, f"hardware reserves {wanted} MB, {needs} all memory reserved", help_)


def firmware_problems(vm: Target, view: View, rule: str, needs: str) -> Iterator[Problem]:
    """Yield that a VM that has to have EFI is to have BIOS, or was installed for it; `needs`: ``this GPU needs``.

    A guest that was installed under BIOS boots under EFI only if it was prepared for that: a play that states EFI says
    so.
    """
    stated = view.said(VmHardware, vm.ref)
    chosen = stated.firmware if stated else None
    present = view.facts(vm.ref).get("config.firmware")
    if chosen == "bios" != present:
        help_ = "write hardware: {firmware: efi}, or leave it out"
        yield Finding.problem(vm, rule, f"hardware sets firmware bios, {needs} efi", help_)
    elif present == "bios" and chosen != "efi":
        message = f"the guest was installed under BIOS, {needs} EFI: it would not boot any more"
        help_ = "use an image installed under EFI; for a guest that boots from both, write hardware: {firmware: efi}"
        yield Finding.problem(vm, rule, message, help_)


def firmware_notes(vm: Target, view: View, needs: str) -> Iterator[str]:
    """Yield what a change to EFI firmware does to the guest of a VM; `needs`: ``vGPUs need``."""
    if view.facts(vm.ref).get("config.firmware") == "bios":
        yield f"firmware bios → efi, which {needs}: a guest installed under BIOS will not boot any more"
