"""Checks of what nvidia-smi in a guest lists: GPUs without values, MIG mode without devices, paths to RDMA devices.

Sources: NVIDIA Multi-Instance GPU User Guide, "Creating GPU Instances" (without instances CUDA programs do not run);
legend of ``nvidia-smi topo -m``; NCCL, src/graph/paths.cc (GPUDirect RDMA up to PXB unless NCCL_NET_GDR_LEVEL is set).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.health.answers import GuestFacts
from vsphere_ai.health.finding import VmFinding, VmJudge
from vsphere_ai.health.placement import is_prepared
from vsphere_ai.health.witness import HostFacts
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.topology import ShownGpu

DIRECT = ("PIX", "PXB")
"""Paths on which NCCL uses GPUDirect RDMA by default."""
TOPOLOGY_FILE = "start jobs with `topology: host`, or give NCCL the file that `render nccl-topo` writes"


def listed_findings(node: Node, guest: GuestFacts, parts: Mapping[int, str]) -> Iterator[VmFinding]:
    """Yield the GPUs that ``nvidia-smi -L`` lists and that cannot be used. `parts` are their parts by index."""
    if guest.listed is None:
        return
    values = {gpu.index: gpu for gpu in guest.gpus}
    for gpu in guest.listed.gpus:
        finding = VmJudge(node, parts.get(gpu.index, f"GPU {gpu.index}"))
        shown = values.get(gpu.index)
        if shown is None:
            message = f"`nvidia-smi -L` lists it ({gpu.uuid}), and nvidia-smi shows no values of it"
            yield finding("gpu-fault", "fail", message, "reset the GPU, or power the VM off and on")
        elif shown.mig and not shown.fault and not gpu.devices:
            message = "MIG mode is on, and it has no MIG device: CUDA programs cannot use it"
            yield finding("gpu-mig", "fail", message, "create GPU and compute instances, or switch MIG mode off")


def path_findings(node: Node, host: HostFacts, parts: Mapping[int, str]) -> Iterator[VmFinding]:
    """Yield the GPUs whose RDMA devices are far away, as the guest shows them; an unknown path is no finding."""
    ready = is_prepared(host.settings, host.place)
    for gpu in node.shown.gpus if node.shown is not None else ():
        finding = VmJudge(node, parts.get(gpu.index, f"GPU {gpu.index}"))
        names = ", ".join(nic.device for nic in gpu.nics)
        if gpu.is_across and _is_near_on_host(node, gpu):
            message = f"the guest shows {names} on another NUMA node (SYS), and on the host one of its NICs is near it"
            yield finding("gpu-nic", "warn", message, TOPOLOGY_FILE)
        elif gpu.is_across:
            message = f"{names}: on another NUMA node (SYS), so that its traffic crosses the link between the sockets"
            yield finding("gpu-nic", "warn", message, "give the VM a GPU and a NIC of one NUMA node")
        elif ready and (far := _not_direct(gpu)):
            message = f"the guest shows {far}: NCCL uses GPUDirect RDMA by itself up to PXB"
            yield finding("gpu-nic", "info", message, f"{TOPOLOGY_FILE}; or set `gdr_level` of the job")


def _not_direct(gpu: ShownGpu) -> str:
    """Return the paths to RDMA devices where all are known and too far for GPUDirect RDMA by default; else empty."""
    paths = [(nic.device, nic.path) for nic in gpu.nics]
    if not paths or any(path is None or path in DIRECT for _, path in paths):
        return ""
    return ", ".join(f"{device} at {path}" for device, path in paths)


def _is_near_on_host(node: Node, gpu: ShownGpu) -> bool:
    """Return whether the host has one of a VM's NICs on the NUMA node of a GPU."""
    own = {g.site.numa for g in node.gpus if g.index == gpu.index and g.site is not None and g.site.numa is not None}
    sites = (*(rail.site for rail in node.rails), *(nic.site for nic in node.passed))
    return any(site is not None and site.numa in own for site in sites)
