"""Processors, memory and GPUs of a node, as its guest shows them, for the files of a workload manager."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vsphere_ai.model.guest_probes import Answers, GuestCommand, GuestProbe, NoAnswer

CPUS = GuestCommand("lscpu", ("env", "LC_ALL=C", "lscpu"), 30.0)
MEMORY = GuestCommand("meminfo", ("cat", "/proc/meminfo"), 30.0)
GPUS = GuestCommand("gpu-names", ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"), 30.0)
MOST = 1 << 40
"""Number above which nothing of a machine is: kB of a PiB."""
_FIELD = re.compile(r"^[ \t]*([\w() -]+?):[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class NodeMachine:
    """What the guest of a node shows: logical CPUs by socket, core and thread, memory in MiB, names of its GPUs."""

    sockets: int
    cores: int
    threads: int
    memory: int
    gpus: tuple[str, ...] = ()

    @property
    def cpus(self) -> int:
        """Logical CPUs."""
        return self.sockets * self.cores * self.threads

    @property
    def gpu_type(self) -> str:
        """The type of its GPUs as Slurm writes it, such as ``a100-sxm4-40gb``; empty where they differ, or for none."""
        kinds = {
            re.sub(r"[^a-z0-9_-]+", "-", n.lower().removeprefix("nvidia ").removeprefix("grid ")) for n in self.gpus
        }
        return kinds.pop().strip("-") if len(kinds) == 1 else ""


def machine_of(cpus: str, memory: str, gpus: str = "") -> NodeMachine:
    """Return what `lscpu`, `/proc/meminfo` and `nvidia-smi` say; `NoAnswer` where the first two do not say it."""
    said, total = dict(_FIELD.findall(cpus)), dict(_FIELD.findall(memory)).get("MemTotal", "")
    try:
        sockets, cores, threads = (int(said[n]) for n in ("Socket(s)", "Core(s) per socket", "Thread(s) per core"))
        kilobytes = int(total.removesuffix(" kB"))
    except (KeyError, ValueError):
        raise NoAnswer("lscpu and /proc/meminfo do not say sockets, cores, threads and MemTotal") from None
    if min(sockets, cores, threads, kilobytes) < 1 or max(sockets, cores, threads, kilobytes) > MOST:
        raise NoAnswer(f"lscpu and /proc/meminfo say numbers that no machine has: above {MOST}, or below 1")
    names = tuple(line.strip() for line in gpus.splitlines() if line.strip())
    return NodeMachine(sockets, cores, threads, kilobytes // 1024, names)


def _machine(answers: Answers) -> NodeMachine:
    """Return the machine; a node without GPUs has no nvidia-smi, but one that hangs may hide some."""
    for answer in answers.values():
        if answer.failure:
            raise NoAnswer(answer.failure)
    gpus = answers[GPUS.name]
    return machine_of(answers[CPUS.name].out, answers[MEMORY.name].out, gpus.out if gpus.is_good else "")


MACHINE = GuestProbe((CPUS, MEMORY, GPUS), _machine)
"""The machine of a node as its guest shows it."""
