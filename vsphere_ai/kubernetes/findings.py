"""Findings about networks of pods that hold for every operator: frames that a port group drops, RDMA that is unproved.

Source: vSphere Networking 8.0, "Security Policy" and "MAC Learning"; drivers/infiniband/hw/vmw_pvrdma of Linux.
"""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.fabric.corrections import ForeignMacs
from vsphere_ai.kubernetes.pod_networks import PodNetwork
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Target
from vsphere_ai.resources.corrections import text_of


def mac_findings(network: PodNetwork, other: str = "") -> Iterator[Finding]:
    """Yield why pods with MAC addresses of their own (macvlan) would reach no one; `other` is another way out."""
    allowed = network.nic.macs_allowed
    if allowed is False:
        message = "macvlan gives each pod a MAC address of its own, and the port group drops frames of such addresses"
        # which datacenter it is in was not read, and is no part of the play's line
        play = text_of(ForeignMacs(Target("datacenter", "", ""), network.nic.port_group))
        yield Finding(
            network.subject,
            "export.mac-filter",
            "fail",
            message,
            f"{other}apply {play}",
        )
    elif allowed is None:
        message = "macvlan gives each pod a MAC address of its own; whether the network lets them pass is not known"
        help = "forged transmits and promiscuous mode or MAC learning have to be allowed there"
        yield Finding(network.subject, "export.mac-filter", "warn", message, help)


def rdma_findings(network: PodNetwork) -> Iterator[Finding]:
    """Yield what is not proved about RDMA of pods on an adapter."""
    if network.nic.type == "pvrdma":
        message = (
            "experimental: RDMA of a pod's own address over PVRDMA is unverified. Its RDMA function (15ad:0820) and "
            "its network function are two PCI functions, so that a device plugin does not find it by ifNames; "
            "GPUDirect RDMA is not available"
        )
        yield Finding(
            network.subject,
            "export.pvrdma",
            "warn",
            message,
            "test with ib_write_bw between two pods",
        )
    elif network.nic.type == "sriov":
        message = "SR-IOV modes of pods are documented on bare metal only; a VM with a virtual function has no vMotion"
        yield Finding(network.subject, "export.sriov", "warn", message, "test with ib_write_bw between two pods")
