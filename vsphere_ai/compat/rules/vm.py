"""Rules about a virtual machine's settings and guest: firmware, memory, hot add, Tools, guest system, questions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from vsphere_ai.compat.base import Case, Evidence, Meanings, Paths, Rule, Unreadable
from vsphere_ai.model.finding import Finding

LINUX = re.compile(
    r"(almalinux|amazonlinux|asianux|centos|coreos|debian|fedora|flatcar|fusionos|genericLinux|kylinlinux|mandr|"
    r"miraclelinux|nld|oes|opensuse|oracleLinux|other(\d+x)?Linux|pardus|prolinux|redhat|rhel|rockylinux|sles|suse|"
    r"turboLinux|ubuntu|vmwarePhoton)"
)
NOT_LINUX = re.compile(
    r"(win|darwin|dos|eComStation|freebsd|netware|openServer|os2|sjds|solaris|unixWare|vmkernel|crx)"
)
RUNNING = ("guestToolsRunning", "guestToolsExecutingScripts")
TOO_OLD = ("guestToolsTooOld", "guestToolsBlacklisted")
FIRST_ENCODED = 9 * 1024


class VmFirmware(Rule):
    """GPUs with large memory windows (A100 and later) need EFI firmware.

    A change is planned together with a vGPU, but a guest installed under BIOS does not boot under EFI.
    """

    id = "vm.firmware"
    title = "EFI firmware"
    target = "vm"
    source = "NVIDIA AI Enterprise User Guide, Requirements for VMs with large-BAR GPUs on VMware vSphere"
    verdicts: ClassVar[Meanings] = {
        "pass": "`efi`",
        "warn": "`bios`, and this plan changes it: a guest installed under BIOS will not boot",
        "fail": "`bios`, and this plan does not change it",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("config.firmware",)}
    needed_by = frozenset({"vgpu"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the present and at the planned firmware."""
        firmware = case.need("config.firmware")
        seen = ("config.firmware", firmware)
        kind = case.planner_of("firmware", "efi")
        if firmware == "efi":
            yield case.passed("EFI firmware", seen)
        elif kind:
            yield case.warned(
                "this plan changes the firmware to EFI: a guest installed under BIOS will not boot", seen,
                (f"plan.{kind}.firmware", "efi"), help="make sure the guest was installed for EFI",
            )  # fmt: skip
        else:
            yield case.failed(f"{firmware} firmware; a vGPU needs EFI", seen, help="add hardware: {firmware: efi}")


class VmMemoryReservation(Rule):
    """A vGPU or a PVRDMA adapter needs all memory of the VM reserved."""

    id = "vm.memory-reservation"
    title = "All memory reserved"
    target = "vm"
    source = "vSphere Networking 7.0, PVRDMA Support; NVIDIA AI Enterprise User Guide, Configuring a vSphere VM"
    verdicts: ClassVar[Meanings] = {
        "pass": "reserved and locked to the size, or this plan does it",
        "fail": "not all memory is reserved",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("config.memoryReservationLockedToMax",)}
    needed_by = frozenset({"vgpu", "pvrdma"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the plan first, then at the VM."""
        planned = _planned_reservation(case)
        if planned:
            yield case.passed("this plan reserves all memory", planned)
            return
        locked = case.need("config.memoryReservationLockedToMax")
        seen = ("config.memoryReservationLockedToMax", locked)
        if locked:
            yield case.passed("all memory is reserved", seen)
        else:
            yield case.failed("not all memory is reserved", seen, help="add hardware: {memory_reservation: full}")


class VmHotAdd(Rule):
    """Memory hot add does not go together with passthrough devices.

    CPU hot add hides the NUMA topology from the guest (the latter is unverified).
    """

    id = "vm.hotadd"
    title = "Hot add off"
    target = "vm"
    source = "vSphere Virtual Machine Administration, Change CPU and Memory Hot Plug Settings"
    verdicts: ClassVar[Meanings] = {"pass": "both off", "warn": "memory or CPU hot add is on"}
    properties: ClassVar[Paths] = {"VirtualMachine": ("config.memoryHotAddEnabled", "config.cpuHotAddEnabled")}
    needed_by = frozenset({"vgpu", "pvrdma", "pci_devices"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at both switches."""
        memory, cpu = case.need("config.memoryHotAddEnabled"), case.need("config.cpuHotAddEnabled")
        seen = (("config.memoryHotAddEnabled", memory), ("config.cpuHotAddEnabled", cpu))
        reasons = ["memory hot add is on, which excludes passthrough devices"] if memory else []
        reasons += ["CPU hot add is on: the guest sees no NUMA topology (unverified)"] if cpu else []
        if reasons:
            yield case.warned("; ".join(reasons), *seen, help="turn hot add off while the VM is powered off")
        else:
            yield case.passed("hot add is off", *seen)


class VmTools(Rule):
    """VMware Tools let the guest be shut down in order; without them a power-off is hard.

    Of a VM that is off nothing is known. `guestToolsUnmanaged` is open-vm-tools, the normal case on Linux.
    """

    id = "vm.tools"
    title = "VMware Tools running"
    target = "vm"
    source = "vSphere Web Services API reference, GuestInfo.toolsRunningStatus and toolsVersionStatus2"
    verdicts: ClassVar[Meanings] = {
        "pass": "running",
        "warn": "not running in a VM that is on, or too old",
        "unknown": "the VM is not on",
    }
    properties: ClassVar[Paths] = {
        "VirtualMachine": (
            "runtime.powerState",
            "guest.toolsRunningStatus",
            "guest.toolsVersionStatus2",
            "config.tools.toolsVersion",
        )
    }

    def judge(self, case: Case) -> Iterator[Finding]:
        """Look at the state of the Tools, if the VM is on."""
        power = case.need("runtime.powerState")
        if power != "poweredOn":
            yield case.unknown(
                f"the VM is {power}, so the state of VMware Tools is not known", ("runtime.powerState", power)
            )
            return
        running, facts = case.need("guest.toolsRunningStatus"), case.view.facts(case.ref)
        status = facts.get("guest.toolsVersionStatus2", "")
        seen = [("guest.toolsRunningStatus", running), ("guest.toolsVersionStatus2", status or "unset")]
        named = f"VMware Tools {tools_version(facts.get('config.tools.toolsVersion'))}".rstrip()
        if running not in RUNNING:
            yield case.warned("VMware Tools are not running: the guest cannot be shut down in order", *seen,
                              help="install or start open-vm-tools in the guest")  # fmt: skip
        elif status in TOO_OLD:
            yield case.warned(f"{named} are {status}", *seen, help="update VMware Tools in the guest")
        else:
            yield case.passed(f"{named} running", *seen)


class VmGuestLinux64(Rule):
    """PVRDMA has a driver for 64-bit Linux guests only. The verdict is about the guest system the VM declares."""

    id = "vm.guest-linux64"
    title = "64-bit Linux guest"
    target = "vm"
    source = "vSphere Networking 7.0, PVRDMA Support"
    verdicts: ClassVar[Meanings] = {
        "pass": "a 64-bit Linux",
        "warn": "a guest id that does not show it, e.g. `otherGuest64`",
        "fail": "a 32-bit guest or another system",
    }
    properties: ClassVar[Paths] = {"VirtualMachine": ("config.guestId",)}
    needed_by = frozenset({"pvrdma"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Sort the guest id."""
        guest = str(case.need("config.guestId"))
        seen = ("config.guestId", guest)
        if LINUX.match(guest) and guest.endswith("64Guest"):
            yield case.passed(f"64-bit Linux ({guest})", seen)
        elif LINUX.match(guest) or NOT_LINUX.match(guest) or guest == "otherGuest":
            yield case.failed(f"{guest} is no 64-bit Linux, which PVRDMA needs", seen,
                              help="correct the guest OS of the VM, or leave it out of the play")  # fmt: skip
        else:
            yield case.warned(f"{guest} does not show whether the guest is a 64-bit Linux", seen)


class VmQuestion(Rule):
    """A VM that asks a question does nothing until it is answered; this tool never answers."""

    id = "vm.question"
    title = "No question pending"
    target = "vm"
    source = "vSphere Web Services API reference, VirtualMachineRuntimeInfo.question"
    verdicts: ClassVar[Meanings] = {"pass": "no question", "fail": "a question waits for an answer"}
    properties: ClassVar[Paths] = {"VirtualMachine": ("runtime.question", "runtime.powerState")}
    about_state = True

    def judge(self, case: Case) -> Iterator[Finding]:
        """Take an unset property as no question, provided the server showed the VM's run-time state."""
        facts = case.view.estate.get(case.ref)
        if facts is not None and "runtime.question" in facts.unreadable:
            raise Unreadable("runtime.question", facts.unreadable["runtime.question"])
        power = case.need("runtime.powerState")
        question = case.view.facts(case.ref).get("runtime.question")
        if question:
            text = question.get("text", "")
            yield case.failed(f"VM waits for an answer to a question: {text}", ("runtime.question", text),
                              help="answer it in the vSphere Client")  # fmt: skip
        else:
            yield case.passed("no question", ("runtime.powerState", power), ("runtime.question", "unset"))


def tools_version(number: int | None) -> str:
    """Return 11333 as ``11.2.5``: major * 1024 + minor * 32 + patch since version 9; empty if it is not known."""
    if not number or number < FIRST_ENCODED:
        return ""
    return f"{number // 1024}.{number % 1024 // 32}.{number % 32}"


def _planned_reservation(case: Case) -> Evidence | None:
    planned = case.planned("config.memoryReservationLockedToMax")
    if planned and planned.value == "full":
        return planned.evidence
    kind = case.planner_of("memory_locked", True)
    return (f"plan.{kind}.memory_locked", True) if kind else None
