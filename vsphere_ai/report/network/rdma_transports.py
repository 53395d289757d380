"""Transports of RDMA side by side: InfiniBand, RoCE and iWARP, for training on vSphere."""

from __future__ import annotations

from vsphere_ai.documents.reference.explanations import RdmaTransport

META = "Meta, How Meta trains large language models at scale (2024-06-12)"
VSPHERE = "vSphere Networking 8.0, Remote Direct Memory Access for Virtual Machines"
IB_SRIOV = "NVIDIA, HowTo Configure ConnectX-6 InfiniBand adapter in SR-IOV mode on VMware ESXi 7.0 and above"
SUBNET_MANAGER = "NVIDIA MLNX_OFED 23.04, NVIDIA SM"
DAOCLOUD = "DaoCloud-docs, docs/zh/docs/network/config/rdmatype.md"
NO_LIST = "vendors: no list of all products was read"
TRANSPORTS = (
    RdmaTransport(
        name="InfiniBand",
        network="a network of its own: InfiniBand switches and adapters, no Ethernet",
        vsphere=(
            "in VMs only as a device of their own: a whole adapter, or a virtual function of one, by DirectPath I/O "
            "(resource type pci_devices). No PVRDMA, no distributed switch, no vMotion"
        ),
        performance=(
            "no loss on the link by credits; paths that adapt, and reductions in the switches (SHARP), without tuning "
            "of hosts"
        ),
        scale="clusters of 24,000 GPUs are published, as with RoCE; a subnet manager computes all routes",
        upkeep="one subnet manager runs in each subnet, or nothing comes up; partitions instead of VLANs",
        cost="adapters, switches and cables for it alone, beside the Ethernet that vSphere needs",
        vendors="adapters and switches of current speeds from NVIDIA",
        sources=(META, IB_SRIOV, SUBNET_MANAGER, DAOCLOUD),
        unverified=(NO_LIST, "cost: the comparison of DaoCloud says high, of RoCE low or medium"),
    ),
    RdmaTransport(
        name="RoCE",
        network="Ethernet: version 2 is routed in UDP port 4791, version 1 stays in its VLAN",
        vsphere=(
            "PVRDMA on a distributed switch, with vMotion (resource types pvrdma, pvrdma_host); virtual functions "
            "(adapters of the type sriov); whole NICs (pci_devices)"
        ),
        performance=(
            "as InfiniBand where the network is tuned: Meta trained on two clusters of 24,000 GPUs, one of each, and "
            "brought both to equivalent performance. A network that loses frames costs most of it"
        ),
        scale="clusters of 24,000 GPUs are published; flows of collectives collide on equal-cost paths unless spread",
        upkeep=(
            "flow control and ECN on every NIC and switch port of the path (resource types nics and roce set the "
            "hosts' side; switches are not touched)"
        ),
        cost="Ethernet switches and NICs that serve everything else as well",
        vendors="NICs and switches of several makers",
        sources=(VSPHERE, META, DAOCLOUD),
        unverified=(NO_LIST,),
    ),
    RdmaTransport(
        name="iWARP",
        network="TCP over Ethernet (RFC 5040 to 5044), without demands on switches",
        vsphere="hosts show it as a protocol of a device (show devices); PVRDMA takes RoCE only",
        performance="the NIC carries out TCP; losses are repaired by TCP, not avoided",
        scale="not found in published training clusters",
        upkeep="none beyond TCP",
        cost="Ethernet",
        vendors="few NICs",
        sources=("RFC 5040, 5041, 5044", VSPHERE),
        unverified=("NCCL on iWARP: its documentation names InfiniBand and RoCE", NO_LIST),
    ),
)
