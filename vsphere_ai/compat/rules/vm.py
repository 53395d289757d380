"""Rules about a virtual machine's settings and guest: firmware, memory, hot add, Tools, guest system, questions."""

from __future__ import annotations

from vsphere_ai.compat.base import Evidence, RuleCase, Unreadable, vm_rule
from vsphere_ai.fabric.corrections import MachineNeeds
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.guest_ids import LINUX, NOT_LINUX
from vsphere_ai.resources.corrections import text_of
from vsphere_ai.resources.topics import Topic

RUNNING = ("guestToolsRunning", "guestToolsExecutingScripts")
TOO_OLD = ("guestToolsTooOld", "guestToolsBlacklisted")
FIRST_ENCODED = 9 * 1024


@vm_rule(
    "vm.firmware",
    "EFI firmware",
    source="NVIDIA AI Enterprise User Guide, Requirements for VMs with large-BAR GPUs on VMware vSphere",
    verdicts={
        "pass": "`efi`",
        "warn": "`bios`, and this plan changes it: a guest installed under BIOS will not boot",
        "fail": "`bios`, and this plan does not change it",
    },
    reads=("config.firmware",),
    about=Topic.VGPU,
)
def vm_firmware(case: RuleCase) -> Finding:
    """GPUs with large memory windows (A100 and later) need EFI firmware.

    A change is planned together with a vGPU, but a guest installed under BIOS does not boot under EFI.
    """
    seen = case.read("config.firmware")
    planned = case.implied("config.firmware", "efi")
    if seen.value == "efi":
        return case.passed("EFI firmware", seen)
    if planned:
        message = "this plan changes the firmware to EFI: a guest installed under BIOS will not boot"
        help = "make sure the guest was installed for EFI"
        return case.warned(message, seen, planned.evidence, help=help)
    return case.failed(
        f"{seen.value} firmware; a vGPU needs EFI", seen, help=f"add {text_of(MachineNeeds(case.own, efi=True))}"
    )


@vm_rule(
    "vm.memory-reservation",
    "All memory reserved",
    source="vSphere Networking 7.0, PVRDMA Support; NVIDIA AI Enterprise User Guide, Configuring a vSphere VM",
    verdicts={"pass": "reserved and locked to the size, or this plan does it", "fail": "not all memory is reserved"},
    reads=("config.memoryReservationLockedToMax",),
    about=Topic.VGPU | Topic.PVRDMA,
)
def vm_memory_reservation(case: RuleCase) -> Finding:
    """A vGPU or a PVRDMA adapter needs all memory of the VM reserved."""
    planned = _planned_reservation(case)
    if planned:
        return case.passed("this plan reserves all memory", planned)
    seen = case.read("config.memoryReservationLockedToMax")
    if seen.value:
        return case.passed("all memory is reserved", seen)
    fix = MachineNeeds(case.own, all_memory=True)
    return case.failed("not all memory is reserved", seen, help=f"add {text_of(fix)}", fixes=(fix,))


@vm_rule(
    "vm.hotadd",
    "Hot add off",
    source="vSphere Virtual Machine Administration, Change CPU and Memory Hot Plug Settings",
    verdicts={"pass": "both off", "warn": "memory or CPU hot add is on"},
    reads=("config.memoryHotAddEnabled", "config.cpuHotAddEnabled"),
    about=Topic.VGPU | Topic.PVRDMA | Topic.WHOLE_DEVICES,
)
def vm_hot_add(case: RuleCase) -> Finding:
    """Memory hot add does not go together with passthrough devices.

    CPU hot add hides the NUMA topology from the guest (the latter is unverified).
    """
    seen = memory, cpu = case.read("config.memoryHotAddEnabled"), case.read("config.cpuHotAddEnabled")
    reasons = ["memory hot add is on, which excludes passthrough devices"] if memory.value else []
    reasons += ["CPU hot add is on: the guest sees no NUMA topology (unverified)"] if cpu.value else []
    if reasons:
        return case.warned("; ".join(reasons), *seen, help="turn hot add off while the VM is powered off")
    return case.passed("hot add is off", *seen)


@vm_rule(
    "vm.tools",
    "VMware Tools running",
    source="vSphere Web Services API reference, GuestInfo.toolsRunningStatus and toolsVersionStatus2",
    verdicts={"pass": "running", "warn": "not running in a VM that is on, or too old", "unknown": "the VM is not on"},
    reads=("runtime.powerState", "guest.toolsRunningStatus", "guest.toolsVersionStatus2", "config.tools.toolsVersion"),
)
def vm_tools(case: RuleCase) -> Finding:
    """VMware Tools let the guest be shut down in order; without them a power-off is hard.

    Of a VM that is off nothing is known. `guestToolsUnmanaged` is open-vm-tools, the normal case on Linux.
    """
    power = case.read("runtime.powerState")
    if power.value != "poweredOn":
        return case.unknown(f"the VM is {power.value}, so the state of VMware Tools is not known", power)
    running, facts = case.need("guest.toolsRunningStatus"), case.facts
    status = facts.get("guest.toolsVersionStatus2", "")
    seen = [("guest.toolsRunningStatus", running), ("guest.toolsVersionStatus2", status or "unset")]
    named = f"VMware Tools {tools_version(facts.get('config.tools.toolsVersion'))}".rstrip()
    if running not in RUNNING:
        help = "install or start open-vm-tools in the guest"
        return case.warned("VMware Tools are not running: the guest cannot be shut down in order", *seen, help=help)
    if status in TOO_OLD:
        return case.warned(f"{named} are {status}", *seen, help="update VMware Tools in the guest")
    return case.passed(f"{named} running", *seen)


@vm_rule(
    "vm.guest-linux64",
    "64-bit Linux guest",
    source="vSphere Networking 7.0, PVRDMA Support",
    verdicts={
        "pass": "a 64-bit Linux",
        "warn": "a guest id that does not show it, e.g. `otherGuest64`",
        "fail": "a 32-bit guest or another system",
    },
    reads=("config.guestId",),
    about=Topic.PVRDMA,
)
def vm_guest_linux64(case: RuleCase) -> Finding:
    """PVRDMA has a driver for 64-bit Linux guests only. The verdict is about the guest system the VM declares."""
    guest = str(case.need("config.guestId"))
    seen = ("config.guestId", guest)
    if LINUX.match(guest) and guest.endswith("64Guest"):
        return case.passed(f"64-bit Linux ({guest})", seen)
    if LINUX.match(guest) or NOT_LINUX.match(guest) or guest == "otherGuest":
        help = "correct the guest OS of the VM, or leave it out of the play"
        return case.failed(f"{guest} is no 64-bit Linux, which PVRDMA needs", seen, help=help)
    return case.warned(f"{guest} does not show whether the guest is a 64-bit Linux", seen)


@vm_rule(
    "vm.question",
    "No question pending",
    source="vSphere Web Services API reference, VirtualMachineRuntimeInfo.question",
    verdicts={"pass": "no question", "fail": "a question waits for an answer"},
    reads=("runtime.question", "runtime.powerState"),
    about_state=True,
)
def vm_question(case: RuleCase) -> Finding:
    """A VM that asks a question does nothing until it is answered; this tool never answers."""
    power = case.read("runtime.powerState")
    if "runtime.question" in case.facts.unreadable:
        raise Unreadable("runtime.question", case.facts.unreadable["runtime.question"])
    question = case.facts.get("runtime.question")
    if question:
        text = question.get("text", "")
        help = "answer it in the vSphere Client"
        return case.failed(f"VM waits for an answer to a question: {text}", ("runtime.question", text), help=help)
    return case.passed("no question", power, ("runtime.question", "unset"))


def tools_version(number: int | None) -> str:
    """Return 11333 as ``11.2.5``: major * 1024 + minor * 32 + patch since version 9; empty if it is not known."""
    if not number or number < FIRST_ENCODED:
        return ""
    return f"{number // 1024}.{number % 1024 // 32}.{number % 32}"


def _planned_reservation(case: RuleCase) -> Evidence | None:
    planned = case.planned("config.memoryReservationLockedToMax")
    if planned and planned.value == "full":
        return planned.evidence
    implied = case.implied("config.memoryReservationLockedToMax", True)
    return implied.evidence if implied else None
