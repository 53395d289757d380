"""Processors, memory and GPUs of a node, as its guest shows them, for the files of a workload manager."""

from __future__ import annotations

import re
from dataclasses import dataclass

CPUS = ("env", "LC_ALL=C", "lscpu")
MEMORY = ("cat", "/proc/meminfo")
GPUS = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
"""Commands of the guest whose output `machine_of` reads."""
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
    """Return what `lscpu`, `/proc/meminfo` and `nvidia-smi` say; ValueError where the first two do not say it."""
    said, total = dict(_FIELD.findall(cpus)), dict(_FIELD.findall(memory)).get("MemTotal", "")
    try:
        sockets, cores, threads = (int(said[n]) for n in ("Socket(s)", "Core(s) per socket", "Thread(s) per core"))
        kilobytes = int(total.removesuffix(" kB"))
    except (KeyError, ValueError):
        raise ValueError("lscpu and /proc/meminfo do not say sockets, cores, threads and MemTotal") from None
    if min(sockets, cores, threads, kilobytes) < 1 or max(sockets, cores, threads, kilobytes) > MOST:
        raise ValueError(f"lscpu and /proc/meminfo say numbers that no machine has: above {MOST}, or below 1")
    names = tuple(line.strip() for line in gpus.splitlines() if line.strip())
    return NodeMachine(sockets, cores, threads, kilobytes // 1024, names)
