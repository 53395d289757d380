"""Topologies of nodes as text: the files of VMs that have the same one together, and what else was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vsphere_ai.model.text import safe
from vsphere_ai.training.node_topology import NodeTopology
from vsphere_ai.training.topology import WORDS, rail_name


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


def topology_document(found: NodeTopology) -> Mapping[str, object]:
    """Return the topology of a node as plain values."""
    return {
        "vm": found.node.vm,
        "host": found.node.host,
        "topology": found.text or None,
        "gaps": list(found.gaps),
        "guest_not_asked": found.unasked or None,
        "gpus": [
            {
                "gpu": order.gpu.name,
                "pci": order.gpu.guest_pci,
                "host_pci": order.gpu.site.address,
                "numa": order.gpu.site.numa,
                "nccl_ib_hca": order.hca or None,
                "rails": [{"rail": rail_name(r), "rdma_device": r.rdma_device, "distance": d} for r, d in order.rails],
            }
            for order in found.orders
        ],
        "advice": [{"snippet": each.snippet or None, "reason": each.reason} for each in found.advice],
    }
