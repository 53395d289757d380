"""NCCL settings of a node, made from the roles of its NICs; each with its reason.

Source: NCCL's user guide, Environment Variables; defaults of NCCL 2.30.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vsphere_ai.model.names.written_names import nccl_name
from vsphere_ai.model.nodes import Node, Rail
from vsphere_ai.training.job import Nccl


@dataclass(frozen=True)
class Setting:
    """A variable of NCCL, its value (None: it is not set) and the reason.

    `of_guest`: it is not set because only the guest knows the value, and the guest was not asked or does not show it.
    """

    name: str
    value: str | None
    reason: str
    of_guest: bool = False


def nccl_settings(node: Node, options: Nccl | None = None, nodes: Sequence[Node] = ()) -> tuple[Setting, ...]:
    """Return the settings of a node; `nodes` are all of the job, of which it is one."""
    return tuple(_settings(node, options or Nccl(), tuple(nodes) or (node,)))


def rails_in_order(node: Node) -> tuple[Rail, ...]:
    """Return the rails of a node by number; those without a number last."""
    numbered = sorted((r.number, r.interface, r) for r in node.rails if r.number is not None)
    others = sorted((r for r in node.rails if r.number is None), key=lambda r: r.interface)
    return (*(r for _, _, r in numbered), *others)


def _settings(node: Node, options: Nccl, nodes: Sequence[Node]) -> Iterator[Setting]:
    rails = rails_in_order(node)
    yield from _sockets(node, rails, options)
    if options.transport == "tcp":
        yield Setting("NCCL_IB_DISABLE", "1", "the job says it: traffic over TCP")
    elif rails:
        rdma = tuple(r for r in rails if r.rdma_device)
        yield _devices(node, rails, rdma)
        yield from _gid(rdma, options)
        if options.traffic_class is not None:
            reason = "the job says it: the class by which the switches keep RDMA traffic without loss"
            yield Setting("NCCL_IB_TC", str(options.traffic_class), reason)
        if options.queue_pairs is not None:
            reason = "the job says it: several queue pairs spread a connection over the paths of the fabric"
            yield Setting("NCCL_IB_QPS_PER_CONNECTION", str(options.queue_pairs), reason)
        if _is_railed(nodes):
            reason = "every node has the same numbered rails: traffic stays on its rail"
            yield Setting("NCCL_CROSS_NIC", "0", reason)
        yield _gdr(node, options)
    if options.topology_file is not None:
        yield Setting("NCCL_TOPO_FILE", options.topology_file, "the job says it: the topology of the host")
    if options.debug is not None:
        yield Setting("NCCL_DEBUG", options.debug, "the job says it")


def _devices(node: Node, rails: Sequence[Rail], rdma: Sequence[Rail]) -> Setting:
    missing = [r.interface for r in rails if not r.rdma_device]
    if missing:
        # a list without one of the rails would leave that one unused, and nothing would say so
        reason = f"the RDMA device of {', '.join(missing)} is not known: NCCL takes every one that it finds"
        return Setting("NCCL_IB_HCA", None, reason, of_guest=True)
    devices = ",".join(f"{nccl_name(f'RDMA device of the VM {node.vm}', r.rdma_device)}:{r.port}" for r in rdma)
    shown = ", ".join(f"rail {r.number}" if r.number is not None else r.interface for r in rdma)
    return Setting("NCCL_IB_HCA", f"={devices}", f"exactly the NICs for training traffic, in their order: {shown}")


def _sockets(node: Node, rails: Sequence[Rail], options: Nccl) -> Iterator[Setting]:
    control, name = node.interface, "NCCL_SOCKET_IFNAME"
    of = f"interface of the VM {node.vm}"
    if options.transport == "tcp" and all(r.interface for r in rails) and rails:
        listed = ",".join(nccl_name(of, r.interface) for r in rails)
        yield Setting(name, f"={listed}", "traffic over TCP, on the NICs for training")
        name = "NCCL_OOB_NET_IFNAME"
    if control:
        reason = "the network on which the nodes find each other; = is for this name only"
        yield Setting(name, f"={nccl_name(of, control)}", reason)
    else:
        yield Setting(name, None, "the name of the control interface in the guest is not known")


def _gid(rdma: Sequence[Rail], options: Nccl) -> Iterator[Setting]:
    known = {r.gid_index for r in rdma}
    if options.gid_index == "auto":
        yield Setting("NCCL_IB_GID_INDEX", None, "NCCL finds the GID of RoCE v2 by itself (before 2.21 it may not)")
    elif None in known or not known:
        yield Setting("NCCL_IB_GID_INDEX", None, "the index of RoCE v2 in the GID table is not known", of_guest=True)
    elif len(known) > 1:
        shown = ", ".join(f"{r.rdma_device} {r.gid_index}" for r in rdma)
        yield Setting("NCCL_IB_GID_INDEX", None, f"it differs between the devices: {shown}")
    else:
        yield Setting("NCCL_IB_GID_INDEX", str(known.pop()), "the job asks for it: the index of RoCE v2")


def _gdr(node: Node, options: Nccl) -> Setting:
    name = "NCCL_NET_GDR_LEVEL"
    if not node.gpus:
        return Setting(name, None, "the node has no GPU")
    if options.gdr_level is None:
        reason = "NCCL's default (PXB) stays; a VM may show GPU and NIC too far apart: the job can say gdr_level"
        return Setting(name, None, reason)
    reason = "the job says it: GPU and NIC share a root complex of the host, which the VM's topology does not show"
    return Setting(name, options.gdr_level, reason)


def _is_railed(nodes: Sequence[Node]) -> bool:
    numbers = {tuple(r.number for r in rails_in_order(n)) for n in nodes}
    return len(numbers) == 1 and len(own := numbers.pop()) > 1 and None not in own and len(set(own)) == len(own)
