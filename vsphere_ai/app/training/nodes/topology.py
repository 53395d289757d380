"""Topology of nodes as vCenter shows it: sites of devices in the PCI tree of a host, its NUMA nodes, a VM's CPUs. Pure.

Sources: vSphere Web Services API reference, HostPciDevice.parentBridge, HostNumaInfo, VirtualHardware; vSphere Resource
Management, "Associate Virtual Machines with Specified NUMA Nodes" (numa.nodeAffinity).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vsphere_ai.fabric import pci
from vsphere_ai.fabric.pci import PciFunction
from vsphere_ai.gpu.smi import live
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.pci_address import read_pci
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.topology import HostNuma, PassedNic, PciSite, VmCpus
from vsphere_ai.model.vm_sets import settings_of
from vsphere_ai.sets.guest_pci import guest_address, slot_of

CORES, MEMORY = "summary.hardware.numCpuCores", "hardware.memorySize"
HOST_PATHS = (CORES, MEMORY)
VM_PATHS = (
    "config.cpuHotAddEnabled",
    "config.hardware.memoryMB",
    "config.hardware.numCPU",
    "config.hardware.numCoresPerSocket",
)
AFFINITY = "numa.nodeAffinity"


def site_of(address: str, found: Mapping[str, PciFunction], numa: HostNuma) -> PciSite | None:
    """Return where a device of a host sits; None for an address that the host does not have."""
    device = found.get(address)
    if device is None:
        return None
    only = 0 if numa.nodes == 1 else None
    return PciSite(
        address, device.class_id, device.numa if device.numa is not None else only, pci.switches_above(address, found)
    )


def host_numa(host: Facts | None) -> HostNuma:
    """Return the NUMA nodes of a host, which are alike."""
    info = (host.get(pci.NUMA) if host else None) or {}
    nodes = int(info.get("numNodes") or 0)
    if host is None or nodes < 1:
        return HostNuma()
    return HostNuma(nodes, int(host.get(CORES) or 0) // nodes, int(host.get(MEMORY) or 0) // nodes // 2**20)


def vm_cpus(vm: Facts) -> VmCpus:
    """Return the CPUs of a VM."""
    listed = settings_of(vm).get(AFFINITY, "").split(",")
    hot, memory, count, per_socket = (vm.get(path) for path in VM_PATHS)
    return VmCpus(
        int(count or 0),
        int(per_socket or 0) or 1,
        int(memory or 0),
        tuple(sorted({int(n) for n in listed if n.strip().isdecimal()})),
        bool(hot),
    )


def passed_nics(vm: Facts, found: Mapping[str, PciFunction], numa: HostNuma) -> Iterator[PassedNic]:
    """Yield the NICs that a VM has as whole PCI devices."""
    for device in vm.get("config.hardware.device") or ():
        backing, slot = device.get("backing") or {}, slot_of(device)
        address = read_pci(str(backing.get("assignedId") or backing.get("id") or ""))
        site = site_of(address, found, numa)
        if site is not None and found[address].is_nic and "Passthrough" in str(device.get("_typeName")):
            yield PassedNic(guest_address(slot) if slot is not None else "", site)


def vgpu_sites(vm: str, host: Facts, found: Mapping[str, PciFunction], numa: HostNuma) -> Iterator[tuple[str, PciSite]]:
    """Yield the GPUs that run the vGPUs of a VM, with the UUIDs of the vGPUs; none of a host that was not asked."""
    for each in live.running(host) or ():
        site = site_of(each.pci, found, numa)
        if each.vm_name == vm and each.uuid and site is not None:
            yield each.uuid, site


def with_vgpu_sites(node: Node, sites: Mapping[str, PciSite]) -> Node:
    """Return a node whose vGPUs have the GPUs of the host that run them, where that is certain.

    It is by the UUIDs that guest and host show, by a PCI address that is known already, and where there is one GPU.
    """
    by_address = {site.address: site for site in sites.values()}
    only = next(iter(by_address)) if len(by_address) == 1 else ""
    gpus = []
    for gpu in node.gpus:
        uuid = gpu.uuid.lower().removeprefix("gpu-")
        site = by_address.get(gpu.host_pci or only) if uuid not in sites else sites[uuid]
        lacks = bool(gpu.profile) and gpu.site is None
        gpus.append(replace(gpu, host_pci=site.address, site=site) if lacks and site is not None else gpu)
    return replace(node, gpus=tuple(gpus))
