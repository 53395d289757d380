"""RDMA options of pods: the four modes, where each works, and what a VM has to own for it.

Source: github.com/spidernet-io/spiderpool at a7fbd3b (v1.2.1), docs/usage/install/ai and docs/usage/readme.md; vSphere
Networking 8.0, "Remote Direct Memory Access for Virtual Machines"; NVIDIA GPU Operator, "GPUDirect RDMA".
"""

from __future__ import annotations

from vsphere_ai.documents.reference.explanations import PodRdmaMode, RdmaDeviceOption

SPIDERPOOL = "Spiderpool v1.2.1, docs/usage/install/ai"
VSPHERE = "vSphere Networking 8.0, Remote Direct Memory Access for Virtual Machines"
SRIOV = "vSphere Networking 7.0, Single Root I/O Virtualization"
GPU_OPERATOR = "NVIDIA GPU Operator, GPUDirect RDMA"
LINUX = "Linux, drivers/infiniband/hw/vmw_pvrdma; rdma-core, providers/vmw_pvrdma"


_UNDER_ONE_ROOT = "yes, where NIC and GPU are below one PCIe root complex (resource type gpudirect)"
_ONLY_INSIDE = "the mode is documented on bare metal only; in a VM it needs a device that the VM owns as a whole"
MODES = (
    PodRdmaMode(
        name="InfiniBand SR-IOV",
        runs_on="bare metal",
        verbs="yes",
        namespaces="exclusive or shared",
        gpudirect=_UNDER_ONE_ROOT,
        in_a_vm="an InfiniBand NIC by DirectPath I/O (resource type pci_devices); its functions are made in the guest",
        vmotion="no",
        objects="render network-operator: SriovNetworkNodePolicy",
        sources=(SPIDERPOOL, GPU_OPERATOR),
        unverified=(_ONLY_INSIDE,),
    ),
    PodRdmaMode(
        name="IPoIB",
        runs_on="bare metal and VMs",
        verbs="no, IP only",
        namespaces="-",
        gpudirect="no",
        in_a_vm="an InfiniBand NIC, or a virtual function of one, by DirectPath I/O (resource type pci_devices)",
        vmotion="no",
        objects="none: write an IPoIBNetwork or a SpiderMultusConfig by hand, and check it with --check",
        sources=(SPIDERPOOL,),
    ),
    PodRdmaMode(
        name="RoCE SR-IOV",
        runs_on="bare metal",
        verbs="yes",
        namespaces="exclusive or shared",
        gpudirect=_UNDER_ONE_ROOT,
        in_a_vm=(
            "an adapter of the type sriov (resource type adapters), which one pod takes as a whole; or a NIC by "
            "DirectPath I/O (resource type pci_devices), whose functions are made in the guest"
        ),
        vmotion="no",
        objects="render network-operator: HostDeviceNetwork; SriovNetworkNodePolicy for a NIC by DirectPath I/O",
        sources=(SPIDERPOOL, GPU_OPERATOR),
        unverified=(_ONLY_INSIDE,),
    ),
    PodRdmaMode(
        name="RoCE macvlan or ipvlan, shared",
        runs_on="bare metal and VMs",
        verbs="yes",
        namespaces="shared",
        gpudirect="as the device: not with PVRDMA",
        in_a_vm=(
            "a PVRDMA adapter (resource type pvrdma), or one of the type sriov under ipvlan. macvlan needs forged "
            "transmits and MAC learning on the port group (resource type port_groups); ipvlan does not"
        ),
        vmotion="with PVRDMA yes, with sriov no",
        objects="render spiderpool; render network-operator: MacvlanNetwork",
        sources=(SPIDERPOOL, VSPHERE, LINUX),
        unverified=(
            "RDMA of a pod's own address over PVRDMA: the GID of a child interface has to be on the parent's port",
        ),
    ),
)
DEVICES = (
    RdmaDeviceOption(
        name="PVRDMA",
        kind="pvrdma",
        rdma="RoCE; the hosts' HCA is shared by VMs",
        vmotion="yes",
        gpudirect="no: the driver registers no memory of other devices",
        sources=(VSPHERE, LINUX),
        unverified=(
            "GPUDirect: inferred from the provider's functions, which lack registration of DMA buffers",
            "vMotion: as VMware describes it; not tried here",
        ),
    ),
    RdmaDeviceOption(
        name="SR-IOV virtual function",
        kind="adapters (type sriov)",
        rdma="RoCE",
        vmotion="no",
        gpudirect=_UNDER_ONE_ROOT,
        sources=(SRIOV, GPU_OPERATOR),
    ),
    RdmaDeviceOption(
        name="DirectPath I/O",
        kind="pci_devices",
        rdma="RoCE or InfiniBand, as the NIC",
        vmotion="no",
        gpudirect=_UNDER_ONE_ROOT,
        sources=(GPU_OPERATOR,),
    ),
)
