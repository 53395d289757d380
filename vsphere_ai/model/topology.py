"""Topology of a node: where its devices sit in the PCI tree of its ESXi host, and on which NUMA nodes its CPUs run.

Values only. Addresses are those of the host (`0000:3b:00.0`); NUMA nodes are numbered as ESXi does.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PciSite:
    """Where a device sits on its host: its address, class, NUMA node, and the PCIe switches above it.

    `class_id` is the PCI class with its subclass (0x0302). `numa` is None where the host does not say which node it is.
    `switches` are the upstream ports, the one nearest to the CPU first.
    """

    address: str
    class_id: int
    numa: int | None = None
    switches: tuple[str, ...] = ()


@dataclass(frozen=True)
class PassedNic:
    """A NIC that a VM has as a whole, beside its rails: its PCI address in the guest, and its site."""

    guest_pci: str
    site: PciSite


@dataclass(frozen=True)
class VmCpus:
    """CPUs of a VM. `affinity` are the NUMA nodes of the host that it is tied to (none: the scheduler chooses).

    Memory is in MiB. With `hot_add` the guest sees one NUMA node.
    """

    count: int = 0
    per_socket: int = 1
    memory_mb: int = 0
    affinity: tuple[int, ...] = ()
    hot_add: bool = False


@dataclass(frozen=True)
class HostNuma:
    """NUMA nodes of a host: how many there are, and what each has; 0 where it is not known. Memory is in MiB."""

    nodes: int = 0
    cores: int = 0
    memory_mb: int = 0

    def needed(self, cpus: VmCpus) -> int:
        """Return how many of the nodes a VM needs for its CPUs and memory; 0 where that is not known."""
        if not (cpus.count and self.cores and self.memory_mb):
            return 0
        return max(-(-cpus.count // self.cores), -(-cpus.memory_mb // self.memory_mb))


@dataclass(frozen=True)
class NicPath:
    """The path between a GPU and an RDMA device as nvidia-smi names it; None where it is not known.

    From near to far: PIX, PXB (PCIe switches), PHB (a host bridge), NODE (host bridges of one NUMA node), SYS (the link
    between NUMA nodes); source: the legend of ``nvidia-smi topo -m``.
    """

    device: str
    path: str | None


@dataclass(frozen=True)
class ShownGpu:
    """A GPU as ``nvidia-smi topo -m`` shows it: its paths, and the CPUs and the NUMA node near it.

    `peers` are the paths to other GPUs by their indexes (``NV12``: twelve NVLinks). `cpus` is a list of ranges. What
    is not shown is None.
    """

    index: int
    nics: tuple[NicPath, ...] = ()
    peers: tuple[tuple[int, str | None], ...] = ()
    cpus: str | None = None
    numa: int | None = None

    @property
    def is_across(self) -> bool:
        """Whether every one of its RDMA devices is known to be on another NUMA node."""
        return bool(self.nics) and all(nic.path == "SYS" for nic in self.nics)


@dataclass(frozen=True)
class ShownTopology:
    """The matrix of ``nvidia-smi topo -m``; `unread` are the names of devices without a whole row."""

    gpus: tuple[ShownGpu, ...]
    unread: tuple[str, ...] = ()
