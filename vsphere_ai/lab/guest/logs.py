"""`dmesg`, `date`, `/proc/uptime` and the versions of packages in a guest.

Forms of the XID lines: gpud, components/accelerator/nvidia/xid/kmsg.go; NVSentinel, syslog-health-monitor.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from vsphere_ai.lab.guest.defects import Defects
from vsphere_ai.lab.guest.machine import GuestMachine
from vsphere_ai.lab.shell.result import ShellResult

PACKAGES = {"torch": "2.4.0", "nvidia-nccl-cu12": "2.21.5"}
TEXTS = {
    13: "Graphics Exception: ESR 0x505730=0x20009",
    31: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f_00000000",
    48: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    74: "NVLink: fatal error detected on link 2(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
    95: "Uncontained: LTC (0x3,0x0). RST: Yes, D-RST: No",
    119: "Timeout after 6s of waiting for RPC response from GPU0 GSP!",
    154: "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
}


def lines(machine: GuestMachine) -> Iterator[tuple[float, str]]:
    """Yield the kernel's messages with the seconds since boot."""
    yield 0.0, "Linux version 5.15.0-91-generic (buildd@lcy02-amd64-045)"
    for gpu in machine.gpus:
        yield 12.5, f"nvidia {gpu.bus}: enabling device (0000 -> 0003)"
    for each in machine.defects.of("xid", vm=machine.name, host=machine.host.name, **_gpu_of(machine)):
        if each.text("seen", "guest") == "host":
            continue
        number = round(each.number("number", 79))
        at = next((g.bus for g in machine.gpus), "0000:02:00.0").rpartition(".")[0]
        text = each.text("text") or TEXTS.get(number, "unknown")
        yield _lately(machine), f"NVRM: Xid (PCI:{at}): {number}, pid=4559, name=python3, {text}"

    for nic in machine.nics:
        for down, up in outages(machine.defects, "guest", **machine.on(nic)):
            for when, state in ((down, "down"), (up, "up")):
                text = f"NIC Link is {state.capitalize()}" if nic.driver == "vmxnet3" else f"Link {state}"
                yield machine.uptime - (time.time() - when), f"{nic.driver} 0000:0b:00.0 {nic.name}: {text}"
    for each in machine.defects.of("log-line", vm=machine.name):
        yield _lately(machine), each.text("text", "nvidia-fabricmanager: unexpected state")


def _lately(machine: GuestMachine) -> float:
    """Return the seconds since boot of a minute ago; of a guest that has just booted, of a moment ago."""
    return max(machine.uptime - 60, machine.uptime * 0.9)


def outages(defects: Defects, side: str, **place: str) -> Iterator[tuple[float, float]]:
    """Yield times in which a link was down, in seconds since 1970, as a side sees them; flaps last 26 s each."""
    for each in defects.of("link-outage", **place):
        if each.text("seen", "host") == side:
            start = time.time() - 3600 * each.number("hours", 1)
            for number in range(round(each.number("count", 1))):
                yield start + number * 300, start + number * 300 + each.number("seconds", 45)
    for each in defects.of("rail-flapping", **place):
        if side == "host":
            start = time.time() - 3600
            yield from ((start + n * 300, start + n * 300 + 26) for n in range(round(each.number("count", 5))))


def _gpu_of(machine: GuestMachine) -> dict[str, str]:
    gpu = next(iter(machine.gpus), None)
    return {"gpu": gpu.physical.pci} if gpu else {}


def dmesg(machine: GuestMachine, _argv: Sequence[str]) -> ShellResult:
    """Answer `dmesg`."""
    return ShellResult(0, "".join(f"[{at:12.6f}] {text}\n" for at, text in lines(machine)))


def date(machine: GuestMachine, argv: Sequence[str]) -> ShellResult:
    """Answer `date +%s.%N`, and `date`."""
    now = machine.clock
    return ShellResult(0, f"{now:.9f}\n" if "+%s.%N" in argv else time.strftime("%c\n", time.gmtime(now)))


def uptime(machine: GuestMachine) -> str:
    """Return /proc/uptime."""
    return f"{machine.uptime:.2f} {machine.uptime * 8:.2f}\n"


def package(machine: GuestMachine, name: str) -> str:
    """Return the version of a Python package; empty: it is not there."""
    found = (d for d in machine.defects.of("package", vm=machine.name) if d.text("name") == name)
    defect = next(found, None)
    return defect.text("version") if defect else PACKAGES.get(name, "")


def lscpu(machine: GuestMachine, _argv: Sequence[str]) -> ShellResult:
    """Answer `lscpu` for the vCPUs of the VM."""
    hardware = machine.mo["config"].hardware
    cores = max(1, hardware.numCoresPerSocket or 1)
    rows = {
        "Architecture": "x86_64",
        "CPU(s)": hardware.numCPU,
        "Vendor ID": "GenuineIntel",
        "Thread(s) per core": 1,
        "Core(s) per socket": cores,
        "Socket(s)": max(1, hardware.numCPU // cores),
        "NUMA node(s)": 1,
    }
    return ShellResult(0, "".join(f"{f'{name}:':<34}{value}\n" for name, value in rows.items()))


def meminfo(machine: GuestMachine) -> str:
    """Return `/proc/meminfo`: what the kernel leaves of the memory of the VM."""
    total = machine.mo["config"].hardware.memoryMB * 1024 * 49 // 50
    return f"MemTotal:       {total} kB\nMemFree:        {total // 2} kB\n"
