"""`nvidia-smi topo -m`: the matrix of paths, as hosts and guests print it, and the paths between GPUs of a host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vsphere_ai.lab.hardware.gpu import LabGpu

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
LINKS = {"A100": 12, "A800": 12, "H100": 18, "H800": 18, "H200": 18, "B200": 18}
"""NVLinks of a GPU by its board, all to a neighbour or the switch (NVIDIA, data sheets); others have four here."""
_WITH_NUMA_ID = 530
"""First driver branch with the column of GPUs that are NUMA nodes themselves; unverified."""


def matrix(
    names: Sequence[str],
    path: Callable[[int, int], str],
    near: Callable[[int], tuple[str, str] | None],
    driver: str,
    legend: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the matrix with its underlined header, legend, and the RDMA devices behind names of NICs.

    `near` returns the CPU and NUMA affinity of a device, None for a NIC, whose row ends after the paths.
    """
    branch = driver.partition(".")[0]
    newer = branch.isdecimal() and int(branch) >= _WITH_NUMA_ID
    head = [*names, "CPU Affinity", "NUMA Affinity", *(("GPU NUMA ID",) if newer else ())]
    lines = ["\t\x1b[4m" + "\t".join(head) + "\x1b[0m"]
    for row, name in enumerate(names):
        own = near(row)
        cells = [" X " if row == column else path(row, column) for column in range(len(names))]
        affinity = () if own is None else (*own, *(("\tN/A",) if newer else ()))
        lines.append("\t".join((name, *cells, *affinity)))
    devices = ["", "NIC Legend:", "", *(f"  {name}: {device}" for name, device in legend)] if legend else []
    return "\n".join([*lines, LEGEND.rstrip("\n"), *devices]) + "\n\n"


def of_host(gpus: Sequence[LabGpu]) -> str:
    """Return the matrix of a host's GPUs. That ESXi shows no CPUs and NUMA nodes in it is unverified."""

    def path(one: int, other: int) -> str:
        a, b = gpus[one], gpus[other]
        if a.link and a.link == b.link:
            return f"NV{next((count for board, count in LINKS.items() if board in a.name), 4)}"
        if a.numa_node != b.numa_node:
            return "SYS"
        if not set(a.bridges) & set(b.bridges):
            return "NODE"
        return "PIX" if a.bridges == b.bridges else "PXB"

    driver = gpus[0].driver if gpus else ""
    return matrix([f"GPU{gpu.index}" for gpu in gpus], path, lambda _: ("N/A", "N/A"), driver)
