"""Witnesses of a VM's place, which its guest cannot see: NUMA nodes, virtual functions, peer-to-peer, unified memory.

Sources: vSphere Resource Management, "Using NUMA Systems with ESXi"; NVIDIA AI Enterprise, Deployment Guide for VMware
vSphere, "GPUDirect RDMA" (the two settings of a VM, ATS of the host); NCCL issue 2101 (2.27.5 needs unified memory on a
vGPU, 2.21.5 does not; versions between them are unverified); NVIDIA vGPU, "Peer-to-Peer" (A100 and unified memory).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vsphere_ai.fabric.corrections import NearFunction
from vsphere_ai.gpu.corrections import PeerToPeer, UnifiedMemory
from vsphere_ai.health.finding import VmFinding, VmJudge
from vsphere_ai.health.preflight import rail_part
from vsphere_ai.model.estate.host_corrections import AddressTranslation
from vsphere_ai.model.estate.vm_corrections import CpuSettings
from vsphere_ai.model.finding import Verdict
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.state import Target
from vsphere_ai.resources.corrections import text_of

P2P, RELAX_ACS = "pciPassthru.allowP2P", "pciPassthru.RelaxACSforP2P"
NCCL = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")
NEEDS_UVM = (2, 27)
"""The first versions of NCCL that end at their start on a vGPU without unified memory."""
_UVM = re.compile(r"pciPassthru\d+\.cfg\.enable_uvm")
_A100 = re.compile(r"(grid|nvidia)_a100")


@dataclass(frozen=True)
class VmPlace:
    """What vCenter and the host show of a VM's place.

    `functions` are, by the MAC address of a rail on a virtual function, the physical NICs by which its port group goes
    out. `near` are the RDMA NICs of the host by NUMA node. `direct`: the VM has a PCI NIC beside its GPU. `ats` is
    whether ATS is on in the kernel of the host; None: it was not asked, or shows nothing, `ats_unread` says why.
    """

    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    near: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    direct: bool = False
    ats: bool | None = None
    ats_unread: str = ""


def place_findings(
    node: Node, packages: Mapping[str, str], settings: Mapping[str, str], place: VmPlace
) -> Iterator[VmFinding]:
    """Yield the problems of the place of a VM. `packages` are those of its guest, `settings` the VM's."""

    def said(check: str, verdict: Verdict, message: str, remedy: str, part: str = "") -> VmFinding:
        return VmJudge(node, part, "host")(check, verdict, message, remedy)

    for found in (_numa(node), _rails(node, place), _direct(node, settings, place), _memory(node, packages, settings)):
        yield from (said(*each) for each in found)


Said = tuple[str, Verdict, str, str, str]


def _numa(node: Node) -> Iterator[Said]:
    gpus = sorted({g.site.numa for g in node.gpus if g.site is not None and g.site.numa is not None})
    cpus, needed = node.cpus, node.numa.needed(node.cpus)
    if not gpus or node.numa.nodes < 2:
        return
    part, where = "", _nodes(gpus)
    if cpus.affinity and not set(gpus) & set(cpus.affinity):
        message = f"its CPUs and memory are on NUMA {_nodes(cpus.affinity)} only, its GPUs on {where}"
        yield (
            "numa",
            "fail",
            message,
            f"{text_of(CpuSettings(node.target, nodes='gpu'))}, and power the VM off and on",
            part,
        )
    elif needed > len(gpus):
        message = f"its {cpus.count} vCPUs and {cpus.memory_mb // 1024} GB need {needed} NUMA nodes, its GPUs are on"
        blind = ", and CPU hot add hides the nodes from the guest" if cpus.hot_add else ""
        remedy = f"take at most {node.numa.cores} vCPUs and {node.numa.memory_mb // 1024} GB for each node with a GPU"
        yield "numa", "fail" if cpus.hot_add else "warn", f"{message} {where} alone{blind}", remedy, part


def _rails(node: Node, place: VmPlace) -> Iterator[Said]:
    gpus = {g.site.numa for g in node.gpus if g.site is not None and g.site.numa is not None}
    used = {rail.vmnic for rail in node.rails}
    near = [nic for number in sorted(gpus) for nic in place.near.get(number, ()) if nic not in used]
    for rail in node.rails:
        uplinks = place.functions.get(rail.mac, ())
        if uplinks and rail.vmnic not in uplinks:
            message = f"its virtual function is of {rail.vmnic}, and its port group goes out by {', '.join(uplinks)}"
            remedy = f"{text_of(NearFunction(node.target, 'PORT_GROUP'))}, while the VM is off"
            yield "wrong-function", "fail", message, remedy, rail_part(rail)
        numa = rail.site.numa if rail.site is not None else None
        if numa is not None and gpus and numa not in gpus and near:
            message = f"{rail.vmnic} is on NUMA node {numa}, its GPUs on {_nodes(sorted(gpus))}, where {near[0]} is"
            yield "rail-numa", "warn", message, f"let the port group of the rail go out by {near[0]}", rail_part(rail)


def is_prepared(settings: Mapping[str, str], place: VmPlace) -> bool:
    """Return whether a VM with a PCI NIC beside its GPU has both settings that let the two exchange data."""
    return place.direct and all(_allowed(settings).values())


def _allowed(settings: Mapping[str, str]) -> dict[str, bool]:
    return {key: settings.get(key, "").strip().lower() == "true" for key in (P2P, RELAX_ACS)}


def _direct(node: Node, settings: Mapping[str, str], place: VmPlace) -> Iterator[Said]:
    on = _allowed(settings)
    if not place.direct or not any(on.values()):
        return
    for key in (key for key, value in on.items() if not value):
        message = f"GPUDirect RDMA is half prepared: {key} is not TRUE, so that GPU and NIC do not reach each other"
        yield "acs", "fail", message, f"{text_of(PeerToPeer(node.target))}, and power the VM off and on", ""
    if place.ats is False:
        message = "ATS is off in the kernel of the host: data between GPU and NIC pass the CPU"
        play = text_of(AddressTranslation(Target("host", node.host, "")))
        yield "ats", "fail", message, f"{play} for the host, which restarts it", ""
    elif place.ats is None:
        message = f"whether ATS is on in the kernel of the host is not known: {place.ats_unread or 'it was not asked'}"
        yield "ats", "unknown", message, "allow SSH to the host (`start_service`)", ""


def _memory(node: Node, packages: Mapping[str, str], settings: Mapping[str, str]) -> Iterator[Said]:
    virtual = [gpu for gpu in node.gpus if gpu.profile]
    nccl = next((packages[name] for name in NCCL if packages.get(name)), "")
    if not virtual:
        return
    on = any(_UVM.fullmatch(key) and text.strip().lower() in ("1", "true") for key, text in settings.items())
    needs = _numbers(nccl)[:2] >= NEEDS_UVM
    linked = len(virtual) > 1 and any(_A100.match(gpu.profile.lower()) for gpu in virtual)
    if needs and not on:
        cost = "vMotion, and NVLink between the VM's A100 vGPUs" if linked else "vMotion"
        play = text_of(UnifiedMemory(node.target, is_on=True))
        message = f"unified memory is off, and NCCL {nccl} ends at its start on a vGPU without it"
        yield (
            "nccl-uvm",
            "fail",
            message,
            f"take NCCL 2.21.5; or {play} (whole GPUs only), which rules out {cost}",
            "",
        )
    elif on and linked:
        message = "unified memory is on: the VM's A100 vGPUs do not reach each other over NVLink"
        older = f", and NCCL 2.21.5: {nccl} does not start without it" if needs else ""
        yield "nccl-uvm", "warn", message, f"{text_of(UnifiedMemory(node.target))}{older}", ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _nodes(numbers: list[int] | tuple[int, ...]) -> str:
    return f"node{'s' if len(numbers) > 1 else ''} {' and '.join(map(str, numbers))}"
