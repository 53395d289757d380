"""Nodes of distributed training: VMs with their guest's GPUs and rails, and the parts of the ESXi host behind them.

Values only. A name of the guest (interface, RDMA device, CUDA index) and the part of the host behind it (PCI address,
uplink) stand side by side, so that a finding in a guest can name the hardware. What is not known is empty or None.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vsphere_ai.model.state import Target
from vsphere_ai.model.topology import HostNuma, PassedNic, PciSite, ShownTopology, VmCpus


@dataclass(frozen=True)
class NodeGpu:
    """A GPU of a node: its CUDA index in the guest, and what it is on the host.

    `guest_pci` and `host_pci` are PCI addresses (`0000:3b:00.0`); a guest's address is virtual. `uuid` is the one that
    nvidia-smi prints on the side that owns the GPU. `profile` is the vGPU type, empty for a passthrough GPU. `site` is
    where the GPU at `host_pci` sits.
    """

    index: int
    guest_pci: str = ""
    host_pci: str = ""
    uuid: str = ""
    profile: str = ""
    site: PciSite | None = None


@dataclass(frozen=True)
class Rail:
    """A network interface of a node that carries training traffic.

    `number` is the number of the rail (None: the interface belongs to no rail). `port` is the port of the RDMA device,
    `gid_index` the index in its GID table, `mtu` is in bytes, `speed` in Gb/s. `vmnic` is the physical uplink of the
    host, `switch_port` the port of the physical switch as LLDP or CDP reports it. `guest_pci` is its PCI address in the
    guest, `site` where the physical NIC that carries it sits. `mac` is in lower case.
    """

    interface: str
    address: str = ""
    number: int | None = None
    rdma_device: str = ""
    port: int = 1
    gid_index: int | None = None
    mtu: int | None = None
    speed: float | None = None
    vmnic: str = ""
    switch_port: str = ""
    guest_pci: str = ""
    site: PciSite | None = None
    mac: str = ""


@dataclass(frozen=True)
class Node:
    """A VM that takes part in training; nodes stand in the order of their ranks.

    `address` is where SSH and the control traffic of launchers reach the guest, on `interface`. `host` is the ESXi
    host that runs the VM. `ref` is the VM's managed object reference. `passed` are whole NICs that are no rails.
    `shown` are the paths between GPUs and RDMA devices as its guest shows them; None: it was not asked, or shows none.
    """

    vm: str
    address: str
    interface: str = ""
    ref: str = ""
    host: str = ""
    gpus: tuple[NodeGpu, ...] = ()
    rails: tuple[Rail, ...] = ()
    passed: tuple[PassedNic, ...] = ()
    cpus: VmCpus = field(default_factory=VmCpus)
    numa: HostNuma = field(default_factory=HostNuma)
    shown: ShownTopology | None = None

    @property
    def target(self) -> Target:
        """The VM as a target of vCenter."""
        return Target("vm", self.vm, self.ref)
