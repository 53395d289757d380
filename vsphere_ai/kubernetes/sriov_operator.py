"""Policies of the SR-IOV network operator: fields and rules of ``SriovNetworkNodePolicy``, version v1.

Source: github.com/k8snetworkplumbingwg/sriov-network-operator at 249e20012, api/v1 and pkg/webhook/validate.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from vsphere_ai.kubernetes.objects import Anything, Manifest, ObjectFinding, Spec

GROUP = "sriovnetwork.openshift.io"
VERSION = "v1"
NAMESPACES = (
    "openshift-sriov-network-operator",
    "sriov-network-operator",
    "nvidia-network-operator",
    "network-operator",
)
"""Namespaces that the operator is installed in; policies elsewhere are accepted and not used."""
MELLANOX, MOST_VFS_OF_MELLANOX = "15b3", 128
VMWARE = "15ad"

_NAME = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?")
_PF = re.compile(r"(?P<name>[^#]+)(?:#(?P<first>\d+)-(?P<last>\d+))?")


class NicSelector(Spec):
    """Which physical functions of a node: all the given conditions hold."""

    vendor: str | None = None
    deviceID: str | None = None
    rootDevices: tuple[str, ...] | None = None
    pfNames: tuple[str, ...] | None = None
    netFilter: str | None = None


class NodePolicy(Spec):
    """``SriovNetworkNodePolicy``: virtual functions of the NICs of some nodes."""

    resourceName: Annotated[str, Field(max_length=63)]
    nodeSelector: dict[str, str]
    numVfs: int
    nicSelector: NicSelector
    priority: Annotated[int, Field(ge=0, le=99)] | None = None
    mtu: Annotated[int, Field(ge=1)] | None = None
    deviceType: Literal["netdevice", "vfio-pci"] = "netdevice"
    isRdma: bool = False
    needVhostNet: bool | None = None
    linkType: Literal["eth", "ETH", "ib", "IB"] | None = None
    eSwitchMode: Literal["legacy", "switchdev"] | None = None
    vdpaType: Literal["virtio", "vhost"] | None = None
    excludeTopology: bool | None = None
    externallyManaged: bool = False
    bridge: dict[str, Anything] | None = None


KINDS: dict[str, type[Spec]] = {"SriovNetworkNodePolicy": NodePolicy}
NOT_JUDGED = (
    "OVSNetwork",
    "SriovIBNetwork",
    "SriovNetwork",
    "SriovNetworkNodeState",
    "SriovNetworkPoolConfig",
    "SriovOperatorConfig",
)
"""Kinds of the operator that have no rules here (k8snetworkplumbingwg/sriov-network-operator, api/v1)."""


def check_policy(manifest: Manifest, spec: NodePolicy) -> Iterator[ObjectFinding]:
    """Yield what is wrong with a policy by itself."""
    if not _NAME.fullmatch(spec.resourceName):
        message = f"'{spec.resourceName}' is no name of a resource"
        yield manifest.fault(("spec", "resourceName"), "sriov.name", message, "write letters, digits, - and _ inside")
    if manifest.namespace and manifest.namespace not in NAMESPACES:
        message = f"a policy in the namespace '{manifest.namespace}' is accepted and never used"
        yield manifest.fault(("metadata", "namespace"), "sriov.namespace", message, "use the operator's own namespace")
    if spec.numVfs < 1:
        yield manifest.fault(("spec", "numVfs"), "sriov.num-vfs", f"numVfs is {spec.numVfs}", "give 1 or more")
    yield from _nics(manifest, spec, spec.nicSelector)
    yield from _modes(manifest, spec)


def _nics(manifest: Manifest, spec: NodePolicy, nics: NicSelector) -> Iterator[ObjectFinding]:
    path = ("spec", "nicSelector")
    others = bool(nics.vendor or nics.deviceID or nics.rootDevices or nics.pfNames)
    if not others and not nics.netFilter:
        yield manifest.fault(
            path, "sriov.nic-selector", "no NIC is selected", "add vendor, deviceID, rootDevices or pfNames"
        )
    if nics.netFilter and (others or spec.eSwitchMode or spec.bridge or (spec.linkType or "").lower() == "ib"):
        yield manifest.fault(
            (*path, "netFilter"), "sriov.nic-selector", "netFilter stands alone, without other settings"
        )
    if nics.vendor == VMWARE:
        message = f"vendor {VMWARE} is VMware: PVRDMA and VMXNET3 adapters have no virtual functions"
        help = "use MacvlanNetwork with the RDMA shared device plugin"
        yield manifest.fault((*path, "vendor"), "sriov.vmware", message, help)
    if nics.vendor == MELLANOX and spec.numVfs > MOST_VFS_OF_MELLANOX:
        message = f"numVfs is {spec.numVfs}, and an NVIDIA NIC has at most {MOST_VFS_OF_MELLANOX}"
        yield manifest.fault(("spec", "numVfs"), "sriov.num-vfs", message)
    for index, name in enumerate(nics.pfNames or ()):
        found = _PF.fullmatch(name)
        first, last = (int(found["first"]), int(found["last"])) if found and found["first"] else (0, 0)
        if not found or first > last or last >= max(1, spec.numVfs):
            message = f"'{name}' names no virtual functions out of {spec.numVfs}"
            help = f"write e.g. ens1#0-{max(0, spec.numVfs - 1)}"
            yield manifest.fault((*path, "pfNames", index), "sriov.vf-range", message, help)


def _modes(manifest: Manifest, spec: NodePolicy) -> Iterator[ObjectFinding]:
    infiniband = (spec.linkType or "").lower() == "ib"
    if spec.isRdma and spec.deviceType == "vfio-pci":
        message = "isRdma needs the driver of the node, and vfio-pci takes the device away from it"
        yield manifest.fault(("spec", "isRdma"), "sriov.rdma", message, "write deviceType: netdevice")
    if spec.eSwitchMode == "switchdev" and infiniband:
        yield manifest.fault(("spec", "eSwitchMode"), "sriov.switchdev", "switchdev is for Ethernet only")
    for name, value in (("vdpaType", spec.vdpaType), ("bridge", spec.bridge)):
        if value is not None and spec.eSwitchMode != "switchdev":
            yield manifest.fault(("spec", name), "sriov.switchdev", f"'{name}' needs eSwitchMode: switchdev")
