"""Small commands of the ESXi Shell: vmware, uname, hostname, vmkload_mod, esxcfg-info, reboot, echo, true, false."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.shell.result import Command, ShellResult


def release_name(host: LabHost) -> str:
    """Return the release as `vmware -l` prints it, e.g. ``VMware ESXi 7.0 Update 2``."""
    major, minor, update = [*host.version.split("."), "0"][:3]
    if int(major) < 7:
        return f"VMware ESXi {host.version} GA"
    return f"VMware ESXi {major}.{minor} " + (f"Update {update}" if int(update) else "GA")


def _vmware(host: LabHost, argv: Sequence[str]) -> ShellResult:
    flags = "".join(argv).replace("-", "")
    lines = []
    if "v" in flags:
        lines.append(f"VMware ESXi {host.version} build-{host.build}")
    if "l" in flags:
        lines.append(release_name(host))
    return (
        ShellResult(0, "".join(f"{line}\n" for line in lines))
        if lines
        else ShellResult(1, "", "Usage: vmware [-v] [-l]\n")
    )


def _grep(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Answer `grep -h TEXT FILE` for the kernel's log, and for the log of events."""
    words = [word for word in argv if not word.startswith("-")]
    logs = {"/var/log/vmkernel.log": host.kernel_log, "/var/log/vobd.log": host.event_log}
    if len(words) != 2 or words[1] not in logs:
        return ShellResult(2, "", f"grep: {words[-1] if words else ''}: No such file or directory\n")
    if host.log_refused:
        return ShellResult(2, "", f"grep: {words[1]}: Permission denied\n")
    found = [line for line in logs[words[1]] if words[0] in line]
    return ShellResult(0 if found else 1, "".join(f"{line}\n" for line in found))


def _zcat(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Answer `zcat FILE...`: of the kernel's log one rotated file is there."""
    out, missing = "", [name for name in argv if name != "/var/log/vmkernel.0.gz"]
    if len(missing) < len(argv):
        out = "".join(f"{line}\n" for line in host.rotated_log)
    return ShellResult(bool(missing), out, "".join(f"zcat: {name}: No such file or directory\n" for name in missing))


def _uname(host: LabHost, argv: Sequence[str]) -> ShellResult:
    short = host.name.partition(".")[0]
    parts = {
        "s": "VMkernel",
        "n": short,
        "r": host.version,
        "v": f"#1 SMP Release build-{host.build}",
        "m": "x86_64",
    }
    flags = "".join(argv).replace("-", "") or "s"
    if flags == "a":
        return ShellResult(0, f"{' '.join(parts.values())} x86_64 x86_64 ESXi\n")
    if set(flags) - set(parts):
        return ShellResult(1, "", f"uname: invalid option -- '{flags[0]}'\n")
    return ShellResult(0, " ".join(text for flag, text in parts.items() if flag in flags) + "\n")


def _hostname(host: LabHost, argv: Sequence[str]) -> ShellResult:
    return ShellResult(0, (host.name.partition(".")[0] if "-s" in argv else host.name) + "\n")


def _vmkload_mod(host: LabHost, argv: Sequence[str]) -> ShellResult:
    if list(argv) not in (["-l"], ["--list"]):
        return ShellResult(1, "", "Usage: vmkload_mod -l\n")
    head = f"{'Name':<25}{'Used':<6}Size (kb)\n"
    with host.lock:
        loaded = sorted(host.kernel_modules.values(), key=lambda m: m.name)
        return ShellResult(0, head + "".join(f"{m.name:<25}{m.used_by:<6}{m.size_kb}\n" for m in loaded))


def _esxcfg_info(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Print the part of `esxcfg-info` that shows whether virtualisation is enabled in the BIOS (3 is yes)."""
    dots = "." * 60
    text = f"   |----HV Support{dots}{host.hv_support}\n   |----HV Replay Capable{dots[:53]}true\n"
    return ShellResult(0, "+CPU Info : \n" + text if set(argv) <= {"-w", "-a"} else "")


def _reboot(host: LabHost, argv: Sequence[str]) -> ShellResult:
    """Reboot at once, whatever runs: the shell command asks nothing, unlike `esxcli system shutdown reboot`."""
    if host.reboot():
        host.ledger.record(host.name, "reboot", channel="ssh")
    return ShellResult()


def _echo(host: LabHost, argv: Sequence[str]) -> ShellResult:
    return ShellResult(0, " ".join(argv) + "\n")


COMMANDS: Mapping[str, Command] = {
    "echo": _echo,
    "esxcfg-info": _esxcfg_info,
    "false": lambda host, argv: ShellResult(1),
    "hostname": _hostname,
    "reboot": _reboot,
    "true": lambda host, argv: ShellResult(),
    "grep": _grep,
    "uname": _uname,
    "vmkload_mod": _vmkload_mod,
    "vmware": _vmware,
    "zcat": _zcat,
}
"""The commands by name."""
