"""Shell of a guest: finds the program that a line means, and lets defects of it befall the line."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from vsphere_ai.lab.guest import dcgm, logs, nccl, network, perftest, programs, smi
from vsphere_ai.lab.guest.machine import GuestMachine
from vsphere_ai.lab.jobs.processes import MODELLED
from vsphere_ai.lab.shell.result import ShellResult
from vsphere_ai.lab.shell.run import run_words

Find = Callable[[str], GuestMachine | None]
FLOOD = "x" * (1 << 16)
_PLAIN: Mapping[str, Callable[[GuestMachine, Sequence[str]], ShellResult]] = {
    "nvidia-smi": smi.main,
    "rdma": network.rdma,
    "ibv_devinfo": network.devinfo,
    "ip": network.ip,
    "ethtool": network.ethtool,
    "dmesg": logs.dmesg,
    "dcgmi": dcgm.main,
    "date": logs.date,
    "lscpu": logs.lscpu,
    "hostname": lambda machine, _: ShellResult(0, f"{machine.name}\n"),
    "true": lambda *_: ShellResult(),
    "uname": lambda *_: ShellResult(0, "5.15.0-91-generic\n"),
    "id": lambda *_: ShellResult(0, "uid=0(root) gid=0(root) groups=0(root)\n"),
    "echo": lambda _, argv: ShellResult(0, " ".join(argv) + "\n"),
    "sleep": lambda *_: ShellResult(),
    "mkdir": lambda *_: ShellResult(),
    "chmod": lambda *_: ShellResult(),
}
_OF_MODEL = (*MODELLED, "date", "uname", "ib_write_bw", "ib_read_bw")
_PROC = ("/proc/uptime", "/proc/meminfo")
_COMPOUND = re.compile(r"[;&|<>$`\n]")
_QUIET = re.compile(r"\s*(?:[12]?>\s*/dev/null|2>&1|<\s*/dev/null)")
_WRITES = re.compile(r"(?:cat\s*>>?|tee)\s+(\S+)")


class GuestShell:
    """The shell of one guest. `find` returns the guest that has an address or a name, of those that are on."""

    def __init__(self, machine: GuestMachine, find: Find, ended: threading.Event) -> None:
        self.machine, self.find, self.ended = machine, find, ended

    def wants_input(self, line: str) -> bool:
        """Return whether a line reads its standard input."""
        return _WRITES.search(line) is not None or self.is_sent_program(line)

    def is_sent_program(self, line: str) -> bool:
        """Return whether a line is a Python that reads its program from the standard input."""
        return line.endswith("python3 -")

    def is_modelled(self, line: str, given: str = "") -> bool:
        """Return whether the model answers a line also where guests run jobs.

        That is so for what is not of this machine: the guest's hardware, benchmarks on it, and what a defect befalls.
        """
        for kind in ("hang", "flood"):
            if any(each.text("command") in line for each in self.machine.defects.of(kind, vm=self.machine.name)):
                return True
        quiet = _QUIET.sub("", line)
        if "/sys/class" in quiet:
            return True
        try:
            words = _unwrapped(shlex.split(quiet)) if not _COMPOUND.search(quiet) else []
        except ValueError:  # the shell of this machine says what is wrong with it
            return False
        if words[:1] == ["python3"] and words[1:] == ["-"]:
            return programs.is_modelled(self.machine, given)
        name, rest = words[0].rpartition("/")[2] if words else "", words[1:]
        if name == "cat":
            return bool(rest) and all(each in _PROC or each in self.machine.files for each in rest)
        return name in _OF_MODEL or any(each.removesuffix("_mpi").endswith("_perf") for each in words)

    def run(self, line: str, given: str = "") -> ShellResult:
        """Run a line and return what it brings; one with a defect that hangs returns when the guest is switched off."""
        for each in self.machine.defects.of("hang", vm=self.machine.name):
            if each.text("command") in line:
                self.ended.wait()
                return ShellResult(255)
        for each in self.machine.defects.of("flood", vm=self.machine.name):
            if each.text("command") in line:
                return ShellResult(0, FLOOD * 512)
        return self._line(line, given)

    def _line(self, line: str, given: str) -> ShellResult:
        quiet = _QUIET.sub("", line)
        if "/sys/class/infiniband" in quiet and "readlink" in quiet:
            return ShellResult(0, network.pci_paths(self.machine))
        if "/sys/class" in quiet:
            return ShellResult(0, network.sysfs(self.machine, quiet))
        written = _WRITES.fullmatch(quiet.strip())
        if written:
            self.machine.files[shlex.split(written[1])[0]] = given
            return ShellResult()
        try:
            return run_words(quiet, lambda argv: self._command(argv, given))
        except ValueError as error:
            return ShellResult(2, "", f"sh: syntax error: {error}\n")

    def _command(self, argv: list[str], given: str) -> ShellResult:
        words = list(argv)
        while words and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", words[0], re.DOTALL):
            words.pop(0)
        if not words:
            return ShellResult()
        name, rest = words[0].rpartition("/")[2], words[1:]
        match name:
            case "timeout":
                return self._command(_after_options(rest, ("-k", "-s"))[1:], given)
            case "sudo" | "env" | "nohup" | "setsid":
                return self._command(_after_options(rest, ("-u",)), given)
            case "sh" | "bash" if rest:
                at = next((n for n, word in enumerate(rest) if re.fullmatch(r"-[a-z]*c", word)), None)
                return self._line(rest[at + 1], given) if at is not None else ShellResult(127, "", "sh: no such file\n")
            case "tee" if rest:
                self.machine.files[rest[-1]] = given
                return ShellResult(0, given)
            case "cat":
                return self._cat(rest)
            case "python3" if rest[:1] == ["-"]:
                return programs.main(self.machine, given, self.find)
            case _ if name.startswith("python") and rest:
                return self._python(words[0], rest)
            case "mpirun" | "mpiexec":
                return nccl.mpirun(self.machine, rest, self.find)
            case "ib_write_bw" | "ib_read_bw":
                return perftest.main(self.machine, rest, self.find)
        if name.removesuffix("_mpi").endswith("_perf"):
            ranks = int(dict(pairwise(rest)).get("-g", "1"))
            return nccl.perf(nccl.LabNcclRun([(self.machine, ranks)], [words[0], *_without(rest, "-g")]))
        here = {"ping": self._ping, "ss": self._listening, "test": self._test}.get(name)
        if here is not None:
            return here(rest)
        known = _PLAIN.get(name)
        return known(self.machine, rest) if known else ShellResult(127, "", f"bash: {words[0]}: command not found\n")

    def _cat(self, paths: Sequence[str]) -> ShellResult:
        out, missing = "", ""
        for path in paths:
            if path == "/proc/uptime":
                out += logs.uptime(self.machine)
            elif path == "/proc/meminfo":
                out += logs.meminfo(self.machine)
            elif path in self.machine.files:
                out += self.machine.files[path]
            else:
                missing += f"cat: {path}: No such file or directory\n"
        return ShellResult(1 if missing else 0, out, missing)

    def _python(self, python: str, argv: Sequence[str]) -> ShellResult:
        """Answer a program that asks for the versions of packages, which it names in quotes."""
        if not programs.has_program(self.machine, python):
            return ShellResult(127, "", f"bash: {python}: No such file or directory\n")
        names = re.findall(r"'([a-z0-9-]+)'", " ".join(argv))
        found = ((name, logs.package(self.machine, name)) for name in dict.fromkeys(names))
        return ShellResult(0, "".join(f"{name} {version}\n" for name, version in found if version))

    def _test(self, argv: Sequence[str]) -> ShellResult:
        return ShellResult(0 if argv and (argv[-1] in self.machine.files or argv[-1].startswith("/shared")) else 1)

    def _ping(self, argv: Sequence[str]) -> ShellResult:
        """Answer `ping -M do -s BYTES ADDRESS`: a packet passes that fits into the MTU of both ends and the switch."""
        target = argv[-1] if argv else ""
        options = dict(pairwise(argv))
        size = int(options.get("-s", "56")) + 28
        peer = self.find(target)
        if peer is None or any(
            d.text("other", "*") in ("*", peer.name)
            for d in self.machine.defects.of("unreachable", vm=self.machine.name)
        ):
            return ShellResult(1, "", "1 packets transmitted, 0 received, 100% packet loss, time 0ms\n")
        own = [n for n in self.machine.nics if options.get("-I", n.name) in (n.name, *(a for a, _ in n.addresses))]
        theirs = [n for n in peer.nics if any(a == target for a, _ in n.addresses)] or peer.nics[:1]
        if own and size > max(n.mtu for n in own):
            return ShellResult(1, "", f"ping: local error: message too long, mtu={max(n.mtu for n in own)}\n")
        limits = [d.number("mtu", 1500) for m in (self.machine, peer) for d in m.defects.of("path-mtu", vm=m.name)]
        if (theirs and size > theirs[0].mtu) or any(size > limit for limit in limits):
            return ShellResult(1, "1 packets transmitted, 0 received, 100% packet loss, time 0ms\n")
        return ShellResult(0, "1 packets transmitted, 1 received, 0% packet loss, time 0ms\n")

    def _listening(self, _argv: Sequence[str]) -> ShellResult:
        """Answer `ss -Hltn`: sshd, and what a defect has put there."""
        ports = [22, *programs.taken(self.machine)]
        return ShellResult(0, "".join(f"LISTEN 0      128          0.0.0.0:{port}      0.0.0.0:*\n" for port in ports))


def _unwrapped(words: Sequence[str]) -> list[str]:
    """Return a command without the variables and programs in front of it that only start it."""
    left = list(words)
    while left:
        name = left[0].rpartition("/")[2]
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", left[0], re.DOTALL):
            left = left[1:]
        elif name == "timeout":
            left = _after_options(left[1:], ("-k", "-s"))[1:]
        elif name in ("sudo", "env", "nohup", "setsid"):
            left = _after_options(left[1:], ("-u",))
        else:
            break
    return left


def _after_options(argv: Sequence[str], taking: Sequence[str]) -> list[str]:
    words = list(argv)
    while words and words[0].startswith("-"):
        if words.pop(0) in taking and words:
            words.pop(0)
    return words


def _without(argv: Sequence[str], option: str) -> list[str]:
    """Return arguments without an option and its value: every GPU counts as a rank."""
    words = list(argv)
    if option in words:
        at = words.index(option)
        del words[at : at + 2]
    return words
