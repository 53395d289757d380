"""Verdict of a search: the VM, ESXi host, GPU, uplink and switch port behind what is slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from vsphere_ai.benchmarks.slow_part.layers import SlowLayer
from vsphere_ai.benchmarks.slow_part.search import SearchOutcome
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.nodes import Node, NodeGpu, Rail

Kind = Literal["gpu", "inside", "uplink", "vm", "host", "link", "rail", "all", "nvlink", "nic"]


@dataclass(frozen=True)
class Culprit:
    """A part that is slow, and every name that is known of it; empty where it is not.

    `pci` is the GPU's address on the host, `gpu` its CUDA index in the guest. A link has two `ends`: switches, hosts or
    VMs. `message` is a sentence for an operator, `remedy` what to do next.
    """

    kind: Kind
    message: str
    remedy: str
    vm: str = ""
    host: str = ""
    gpu: int | None = None
    pci: str = ""
    uuid: str = ""
    interface: str = ""
    rdma_device: str = ""
    vmnic: str = ""
    switch_port: str = ""
    ends: tuple[str, ...] = ()

    @property
    def evidence(self) -> tuple[tuple[str, str], ...]:
        """Every name that is known of the part, by what it is."""
        names = {
            "GPU": "" if self.gpu is None else str(self.gpu),
            "PCI address": self.pci,
            "UUID": self.uuid,
            "interface": self.interface,
            "RDMA device": self.rdma_device,
            "vmnic": self.vmnic,
            "switch port": self.switch_port,
        }
        return tuple((name, value) for name, value in names.items() if value)

    @property
    def finding(self) -> Finding:
        """That the part is slow; about the VM, else the host, else all VMs that were measured."""
        on = Subject("vm", self.vm, host=self.host) if self.vm else Subject("host", self.host) if self.host else None
        return Finding(on, "bench.slow", "fail", self.message, self.remedy, self.evidence)


def accused(outcome: SearchOutcome, nodes: Sequence[Node]) -> tuple[Culprit, ...]:
    """Return the parts that are slow, the narrowest that explain what was measured."""
    of = {node.vm: node for node in nodes}
    found = [*_hosts(outcome.vms, of)]
    named = {each.host for each in found if each.kind == "host"}
    for layer in outcome.vms:
        if not (layer.layer in ("vm", "host") and of[layer.vm].host in named):
            found.append(_of_layer(layer, of[layer.vm]))
    for link in outcome.links:
        ends = link.one.name, link.other.name
        lost = f" ({1 - link.share:.0%} slower)" if link.share is not None else ""
        text = f"the link between {ends[0]} and {ends[1]} is slow{lost}: each end is fast without the other"
        found.append(Culprit("link", text, "check the links and the routes between the two", ends=ends))
    for rail in outcome.rails:
        text = f"rail {rail} is slow for every VM, the others are not"
        found.append(Culprit("rail", text, f"check the switches of rail {rail}, their flow control and MTU"))
    if outcome.all_slow:
        text = "every group is slower than the reference: no single part is why"
        found.append(Culprit("all", text, "check the settings that all VMs share, and the reference"))
    return tuple(found)


def _hosts(layers: Sequence[SlowLayer], of: Mapping[str, Node]) -> Iterator[Culprit]:
    """Yield hosts all of whose VMs are slow, where they have several."""
    slow = {each.vm for each in layers if each.layer in ("vm", "host")}
    for host in dict.fromkeys(of[vm].host for vm in slow if of[vm].host):
        own = sorted(node.vm for node in of.values() if node.host == host)
        if len(own) > 1 and slow.issuperset(own):
            text = f"{host} is slow: each of its VMs is ({', '.join(own)}), and no GPU or rail alone is why"
            yield Culprit("host", text, "check its firmware, power policy and BIOS settings", host=host)


def _of_layer(layer: SlowLayer, node: Node) -> Culprit:
    where = f"{node.vm} on {node.host}" if node.host else node.vm
    if layer.layer == "rail":
        rail = next(r for r in node.rails if r.number == layer.rail)
        return uplink(rail, node)
    if layer.layer == "gpu":
        gpu = next(g for g in node.gpus if g.index == layer.gpus[0])
        return _gpu(gpu, layer.gpus, node, where)
    if layer.layer == "inside":
        text = f"{where} is slow inside of the VM, and no single GPU is why"
        return Culprit("inside", text, "check NVLink, PCIe link widths and the NUMA nodes", node.vm, node.host)
    if layer.layer == "nvlink":
        text = f"the NVLinks of {where} are slow ({_ways(layer)}): without them it is as fast as others"
        return Culprit("nvlink", text, "check nvidia-smi nvlink -s -e, and the Fabric Manager", node.vm, node.host)
    if layer.layer == "nic":
        return _nics(layer, node, where)
    if layer.layer == "host":
        single = node.gpus[0] if len(node.gpus) == 1 else NodeGpu(-1)
        its = f", or its GPU {single.host_pci or single.uuid}".rstrip() if len(node.gpus) == 1 else ""
        text = f"{where} is slow on every way through PCIe and memory ({_ways(layer)}): these, its CPUs{its}"
        remedy = "check PCIe link widths, NUMA nodes, CPU power policy, and the clocks of its GPUs"
        return Culprit("vm", text, remedy, node.vm, node.host, pci=single.host_pci, uuid=single.uuid)
    measured = [w for w in (len(node.gpus) > 1 and "its inside", len(node.rails) > 1 and "each of its rails") if w]
    rest = f", {' and '.join(measured)} alone {'is' if len(measured) == 1 else 'are'} not" if measured else ""
    text = f"{where} is slow with every other VM{rest}"
    if len(node.gpus) == len(node.rails) == 1:
        return _one_of_each(text, node)
    remedy = "swap it with a healthy VM to see whether the VM or its host is why"
    return Culprit("vm", text, remedy, node.vm, node.host)


def _one_of_each(text: str, node: Node) -> Culprit:
    """Return a VM with one GPU and one rail: an all-reduce uses both, and cannot say which of them is slow."""
    gpu, rail = node.gpus[0], node.rails[0]
    parts = [f"its GPU {gpu.host_pci or gpu.uuid}".rstrip(), f"its uplink {rail.vmnic or rail.interface}".rstrip()]
    text += f"; {' or '.join(parts)} may be why, or the VM itself"
    remedy = "vsphere-ai bench rdma measures the uplink alone; where that is fast, swap the VM with a healthy one"
    found = uplink(rail, node)
    return replace(found, kind="vm", message=text, remedy=remedy, pci=gpu.host_pci, uuid=gpu.uuid)


def _ways(layer: SlowLayer) -> str:
    """Return what the VM reached on each way, beside a healthy one."""
    shown = [
        f"{way} {own:.1f} of {other:.1f} GB/s"
        for way, own, other in layer.ways
        if own is not None and other is not None
    ]
    return ", ".join(shown) or "not measured"


def _nics(layer: SlowLayer, node: Node, where: str) -> Culprit:
    """Return the uplink where a VM has one rail, else the VM whose rails are slow together."""
    if len(node.rails) == 1:
        found = uplink(node.rails[0], node)
        return replace(found, message=f"{found.message} ({_ways(layer)})")
    text = f"the rails of {where} are slow together ({_ways(layer)}), and no single one is why"
    return Culprit("nic", text, "check the PCIe switch of its NICs, GPUDirect RDMA and ACS", node.vm, node.host)


def uplink(rail: Rail, node: Node) -> Culprit:
    """Return the uplink behind a slow rail of a VM."""
    where = f"{node.vm} on {node.host}" if node.host else node.vm
    name = f"rail {rail.number}" if rail.number is not None else "a rail"
    way = ", ".join(p for p in (rail.interface, rail.rdma_device, rail.vmnic, rail.switch_port) if p)
    return Culprit(
        "uplink",
        f"{name} of {where} is slow: {way}",
        "check the link of the uplink: speed, errors, cable, switch port",
        node.vm,
        node.host,
        interface=rail.interface,
        rdma_device=rail.rdma_device,
        vmnic=rail.vmnic,
        switch_port=rail.switch_port,
    )


def _gpu(gpu: NodeGpu, indexes: Sequence[int], node: Node, where: str) -> Culprit:
    names = " or ".join(f"GPU {index}" for index in indexes)
    known = [f"PCI address {gpu.host_pci} on the host" if gpu.host_pci else "", gpu.uuid]
    parts = f" ({', '.join(p for p in known if p)})" if any(known) and len(indexes) == 1 else ""
    single = gpu if len(indexes) == 1 else NodeGpu(gpu.index)
    return Culprit(
        "gpu",
        f"{names} of {where} is slow{parts}",
        "check its clocks, throttling, ECC errors and XIDs",
        node.vm,
        node.host,
        gpu=single.index,
        pci=single.host_pci,
        uuid=single.uuid,
    )
