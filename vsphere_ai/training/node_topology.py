"""Topology file of a node with what goes along with it: the order of its NICs, and advice; or why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vsphere_ai.model.nodes import Node
from vsphere_ai.training import nccl_topo
from vsphere_ai.training.numa_advice import Advice, numa_advice
from vsphere_ai.training.topology import NicOrder, gaps, nic_orders


@dataclass(frozen=True)
class NodeTopology:
    """The topology of a node: the text of its file, empty where it has gaps.

    `unasked` is why its guest was not asked for addresses; empty: it was.
    """

    node: Node
    text: str
    gaps: tuple[str, ...]
    unasked: str
    orders: tuple[NicOrder, ...]
    advice: tuple[Advice, ...]


def node_topology(node: Node, unasked: str = "") -> NodeTopology:
    """Return the topology of a node."""
    missing = gaps(node)
    text = "" if missing else nccl_topo.written(node)
    return NodeTopology(node, text, missing, unasked, nic_orders(node), numa_advice(node))


def files(found: Iterable[NodeTopology]) -> tuple[tuple[tuple[Node, ...], str], ...]:
    """Return the files of nodes: nodes with the same devices in the same places share one."""
    nodes: dict[str, list[Node]] = {}
    for each in found:
        if each.text:
            nodes.setdefault(each.text, []).append(each.node)
    return tuple((tuple(own), nccl_topo.file_for(own, text)) for text, own in nodes.items())
