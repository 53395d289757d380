"""Topologies of nodes as text: the files of VMs that have the same one together, and what else was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vsphere_ai.documents.network.topology import (
    GpuRailsDocument,
    NearRailDocument,
    TopologiesDocument,
    TopologyAdviceDocument,
    VmTopologyDocument,
)
from vsphere_ai.model.text import safe
from vsphere_ai.training.node_topology import NodeTopology
from vsphere_ai.training.topology import WORDS, NicOrder, rail_name


def topology_lines(found: Iterable[NodeTopology]) -> Iterator[str]:
    """Yield remarks about nodes: why one has no file, the nearest rails of each GPU, and advice; equal ones once."""
    same: dict[tuple[str, ...], list[str]] = {}
    for each in found:
        where = f"{safe(each.node.vm)} on {safe(each.node.host or 'no known host')}"
        same.setdefault(tuple(_lines(each)), []).append(where)
    for lines, names in same.items():
        yield from (", ".join(names), *lines)


def _lines(found: NodeTopology) -> Iterator[str]:
    yield from (f"  no file: {safe(gap)}" for gap in found.gaps)
    if found.unasked:
        yield f"  guest not asked: {safe(found.unasked)}"
    for order in found.orders:
        far = "; ".join(f"{safe(rail_name(r))} {WORDS[d]} ({d})" for r, d in order.rails) or "no rail"
        hint = f' -> NCCL_IB_HCA="{order.hca}"' if order.hca else ""
        yield f"  {order.gpu.name}: {far}{safe(hint)}"
    for each in found.advice:
        yield f"  advice: {f'{each.snippet}: ' if each.snippet else ''}{safe(each.reason)}"


def topologies_document(found: Iterable[NodeTopology]) -> TopologiesDocument:
    """Return topologies of nodes as they are printed."""
    return TopologiesDocument(vms=tuple(map(_topology, found)))


def _topology(found: NodeTopology) -> VmTopologyDocument:
    return VmTopologyDocument(
        vm=found.node.vm,
        host=found.node.host,
        topology=found.text or None,
        gaps=tuple(found.gaps),
        guest_not_asked=found.unasked or None,
        gpus=tuple(map(_gpu, found.orders)),
        advice=tuple(TopologyAdviceDocument(snippet=a.snippet or None, reason=a.reason) for a in found.advice),
    )


def _gpu(order: NicOrder) -> GpuRailsDocument:
    rails = ((rail_name(rail), rail.rdma_device, distance) for rail, distance in order.rails)
    return GpuRailsDocument(
        gpu=order.gpu.name,
        pci=order.gpu.guest_pci,
        host_pci=order.gpu.site.address,
        numa=order.gpu.site.numa,
        nccl_ib_hca=order.hca or None,
        rails=tuple(NearRailDocument(rail=name, rdma_device=device, distance=far) for name, device, far in rails),
    )
