"""Topology of a node for NCCL: its GPUs and NICs under the switches and NUMA nodes of the ESXi host.

The devices have the PCI addresses of the guest, and stand where the host has them. Sources: NCCL, src/graph/xml.cc
(how it reads the tree of a Linux host) and src/graph/paths.cc (PIX, PXB, PHB, SYS).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from vsphere_ai.model.nodes import Node, Rail
from vsphere_ai.model.text import cut
from vsphere_ai.model.topology import PciSite

Distance = Literal["PIX", "PXB", "PHB", "SYS"]
DISTANCES: tuple[Distance, ...] = ("PIX", "PXB", "PHB", "SYS")
WORDS: dict[Distance, str] = {
    "PIX": "behind the same PCIe switch",
    "PXB": "behind several PCIe switches of one tree",
    "PHB": "on the same NUMA node",
    "SYS": "on another NUMA node",
}
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True)
class GuestDevice:
    """A GPU or NIC: its address in the guest, its site on the host, and what it is called."""

    guest_pci: str
    site: PciSite
    name: str


@dataclass(frozen=True)
class PciBranch:
    """What lies under a NUMA node or a switch: switches (upstream ports of the host) and devices, by address."""

    switches: tuple[tuple[str, PciBranch], ...] = ()
    devices: tuple[GuestDevice, ...] = ()


@dataclass(frozen=True)
class Topology:
    """The tree of a node by NUMA node, and the CPUs of the guest that run there; None where that is not known."""

    branches: tuple[tuple[int, PciBranch], ...]
    cpus: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class NicOrder:
    """The rails of a GPU, the nearest first."""

    gpu: GuestDevice
    rails: tuple[tuple[Rail, Distance], ...]

    @property
    def hca(self) -> str:
        """The nearest RDMA devices as NCCL_IB_HCA takes them; empty where none is known."""
        known = [(rail, far) for rail, far in self.rails if rail.rdma_device]
        near = [f"{rail.rdma_device}:{rail.port}" for rail, far in known if far == known[0][1]]
        return f"={','.join(near)}" if near else ""


def gaps(node: Node) -> tuple[str, ...]:
    """Return why no topology of a node can be written: what is not known of its devices."""
    return tuple(_gaps(node))


def topology(node: Node) -> Topology:
    """Return the topology of a node without gaps."""
    found = devices_of(node)
    numbers = sorted({each.site.numa for each in found if each.site.numa is not None})
    tied = numbers if node.numa.nodes == 1 else node.cpus.affinity
    cpus = tuple((number, node.cpus.count) for number in tied if len(tied) == 1 and node.cpus.count)
    return Topology(tuple((n, _branch([d for d in found if d.site.numa == n], 0)) for n in numbers), cpus)


def devices_of(node: Node) -> tuple[GuestDevice, ...]:
    """Return the devices of a node that are known, by the address in the guest."""
    found = [GuestDevice(g.guest_pci, g.site, f"GPU {g.index}") for g in node.gpus if g.site]
    found += [GuestDevice(nccl_address(r.guest_pci), r.site, rail_name(r)) for r in node.rails if r.site]
    found += [GuestDevice(nccl_address(nic.guest_pci), nic.site, "NIC") for nic in node.passed]
    return tuple(sorted(found, key=lambda each: each.guest_pci))


def nccl_address(address: str) -> str:
    """Return the address at which NCCL looks for a NIC: ports and virtual functions of one bus are one device to it.

    Source: NCCL, src/transport/net_ib, ncclIbGetPciPath (NCCL_IB_MERGE_VFS is on by default).
    """
    return f"{address.rpartition(':')[0]}:00.0" if address else ""


def distance(one: PciSite, other: PciSite) -> Distance:
    """Return how far two devices of a host are from each other, in NCCL's words."""
    if one.switches and other.switches and set(one.switches) & set(other.switches):
        return "PIX" if one.switches == other.switches else "PXB"
    return "PHB" if one.numa == other.numa and one.numa is not None else "SYS"


def nic_orders(node: Node) -> tuple[NicOrder, ...]:
    """Return the rails of each GPU by distance, then in the order of the rails."""
    placed = [(rail, rail.site) for rail in node.rails if rail.site]
    found = []
    for gpu in node.gpus:
        if gpu.site is not None:
            far = [(rail, distance(gpu.site, site)) for rail, site in placed]
            by_distance = sorted(far, key=lambda each: DISTANCES.index(each[1]))
            found.append(NicOrder(GuestDevice(gpu.guest_pci, gpu.site, f"GPU {gpu.index}"), tuple(by_distance)))
    return tuple(found)


def with_addresses(node: Node, gpus: Iterable[str], nics: dict[str, str]) -> Node:
    """Return a node with the addresses that its guest shows: of its GPUs in their order, and of NICs by RDMA device."""
    shown, left = list(gpus), dict(nics)
    own = node.gpus
    if len(shown) == len(own):
        own = tuple(replace(gpu, guest_pci=address) for gpu, address in zip(own, shown, strict=True))
    rails = tuple(replace(r, guest_pci=left.pop(r.rdma_device, r.guest_pci)) for r in node.rails)
    rest = sorted(left.values())
    passed = node.passed
    if len(rest) == len(passed):
        passed = tuple(replace(nic, guest_pci=address) for nic, address in zip(passed, rest, strict=True))
    return replace(node, gpus=own, rails=rails, passed=passed)


def _gaps(node: Node) -> Iterator[str]:
    if not node.host:
        yield "it is on no host that is known"
        return
    if not node.gpus:
        yield "it has no GPU"
    for what, site, guest in (
        *((f"GPU {g.index}", g.site, g.guest_pci) for g in node.gpus),
        *((rail_name(r), r.site, r.guest_pci) for r in node.rails),
        *((f"the NIC {n.site.address}", n.site, n.guest_pci) for n in node.passed),
    ):
        if site is None:
            yield f"which part of {node.host} {what} is, is not known"
        elif site.numa is None:
            yield f"{node.host} does not say on which NUMA node {what} is ({site.address})"
        if not guest:
            yield f"the PCI address of {what} in the guest is not known"
        elif not _PCI.fullmatch(guest):
            yield f"the guest shows '{cut(guest, 40)}' as the PCI address of {what}, which is none"
    addresses = [each.guest_pci for each in devices_of(node) if each.guest_pci]
    for twice in sorted({a for a in addresses if addresses.count(a) > 1}):
        names = " and ".join(d.name for d in devices_of(node) if d.guest_pci == twice)
        yield f"{names} have the same PCI address in the guest: {twice}"


def rail_name(rail: Rail) -> str:
    """Return what a rail is called: by its number, else by its interface."""
    return f"rail {rail.number}" if rail.number is not None else rail.interface or "a rail"


def _branch(found: list[GuestDevice], depth: int) -> PciBranch:
    here = tuple(d for d in found if len(d.site.switches) == depth)
    heads = sorted({d.site.switches[depth] for d in found if len(d.site.switches) > depth})
    below = ((head, [d for d in found if d.site.switches[depth : depth + 1] == (head,)]) for head in heads)
    return PciBranch(tuple((head, _branch(own, depth + 1)) for head, own in below), here)
