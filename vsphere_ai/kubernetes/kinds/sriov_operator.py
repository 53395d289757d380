"""Objects of the SR-IOV network operator, version v1: fields, and the rules of its webhook, each alone and together.

Source: github.com/k8snetworkplumbingwg/sriov-network-operator at 249e20012, config/crd and pkg/webhook/validate.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field

from vsphere_ai.kubernetes.kinds.labels import LabelSelector
from vsphere_ai.kubernetes.objects import Anything, BrokenRule, Manifest, ObjectFinding, Spec, broken

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
DEFAULT = "default"
"""Name of the one `SriovOperatorConfig`, and of a policy of old releases that the webhook does not look at."""

_NAME = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?")
_PF = re.compile(r"(?P<name>[^#]+)(?:#(?P<first>\d+)-(?P<last>\d+))?")
_PERCENT = re.compile(r"0*([1-9]\d?|100)%", re.ASCII)

Rate = Annotated[int, Field(ge=0)]
State = Literal["auto", "enable", "disable"]
Switch = Literal["on", "off"]
TrunkVlan = Annotated[int, Field(ge=0, le=4095)]


class NicSelector(Spec):
    """Which physical functions of a node: all the given conditions hold."""

    vendor: str | None = None
    deviceID: str | None = None
    rootDevices: tuple[str, ...] | None = None
    pfNames: tuple[str, ...] | None = None
    netFilter: str | None = None

    @property
    def names_devices(self) -> bool:
        """Whether a vendor, a device or a function is named; `netFilter` is none of them."""
        return bool(self.vendor or self.deviceID or self.rootDevices or self.pfNames)

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield what selects nothing, and conditions that exclude each other."""
        if not self.names_devices and not self.netFilter:
            help = "add vendor, deviceID, rootDevices or pfNames"
            yield broken("sriov.nic-selector", "no NIC is selected", help)
        if self.netFilter and self.names_devices:
            message = "netFilter stands alone, without vendor, deviceID, rootDevices and pfNames"
            yield broken("sriov.nic-selector", message, "keep one of them", ("netFilter",))
        if self.vendor == VMWARE:
            message = f"vendor {VMWARE} is VMware: PVRDMA and VMXNET3 adapters have no virtual functions"
            help = "use MacvlanNetwork with the RDMA shared device plugin"
            yield broken("sriov.vmware", message, help, ("vendor",))


class NodePolicy(Spec):
    """``SriovNetworkNodePolicy``: virtual functions of the NICs of some nodes."""

    resourceName: Annotated[str, Field(max_length=63)]
    nodeSelector: dict[str, str]
    numVfs: Annotated[int, Field(ge=0)]
    nicSelector: NicSelector
    priority: Annotated[int, Field(ge=0, le=99)] | None = None
    mtu: Annotated[int, Field(ge=1)] | None = None
    deviceType: Literal["netdevice", "vfio-pci"] = "netdevice"
    isRdma: bool = False
    needVhostNet: bool | None = None
    linkType: Literal["eth", "ETH", "ib", "IB"] | None = None
    eSwitchMode: Literal["legacy", "switchdev"] | None = None
    vdpaType: Literal["virtio", "vhost"] | None = None
    excludeTopology: bool = False
    externallyManaged: bool = False
    bridge: dict[str, Anything] | None = None

    @property
    def is_infiniband(self) -> bool:
        """Whether the link is set to InfiniBand."""
        return self.linkType is not None and self.linkType.lower() == "ib"

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield every rule that one policy breaks by itself."""
        if not _NAME.fullmatch(self.resourceName):
            message, help = f"'{self.resourceName}' is no name of a resource", "write letters, digits, - and _ inside"
            yield broken("sriov.name", message, help, ("resourceName",))
        if self.numVfs < 1:
            yield broken("sriov.num-vfs", f"numVfs is {self.numVfs}", "write 1 or more", ("numVfs",))
        if self.nicSelector.vendor == MELLANOX and self.numVfs > MOST_VFS_OF_MELLANOX:
            message = f"numVfs is {self.numVfs}, and an NVIDIA NIC has at most {MOST_VFS_OF_MELLANOX}"
            yield broken("sriov.num-vfs", message, at=("numVfs",))
        yield from self._broken_ranges()
        yield from self._broken_modes()

    def ranges(self) -> Iterator[tuple[int, str, int, int]]:
        """Yield index, interface and the first and last virtual function of each `pfNames`; -1 where none is given."""
        for index, text in enumerate(self.nicSelector.pfNames or ()):
            parts = _PF.fullmatch(text)
            if parts and parts["first"]:
                yield index, parts["name"], int(parts["first"]), int(parts["last"])
            elif parts:
                yield index, parts["name"], -1, -1

    def _broken_ranges(self) -> Iterator[BrokenRule]:
        right = {index for index, _, first, last in self.ranges() if first == -1 or first <= last < max(1, self.numVfs)}
        for index, text in enumerate(self.nicSelector.pfNames or ()):
            if index not in right and "#" in text:
                message = f"'{text}' names no virtual functions out of {self.numVfs}"
                help = f"write e.g. ens1#0-{max(0, self.numVfs - 1)}"
                yield broken("sriov.vf-range", message, help, ("nicSelector", "pfNames", index))

    def _broken_modes(self) -> Iterator[BrokenRule]:
        alone = (("eSwitchMode", self.eSwitchMode), ("bridge", self.bridge))
        for name, value in (*alone, ("linkType", "ib" if self.is_infiniband else None)):
            if self.nicSelector.netFilter and value:
                message = f"netFilter stands alone, without this '{name}'"
                yield broken("sriov.nic-selector", message, f"remove {name}", (name,))
        if self.isRdma and self.deviceType == "vfio-pci":
            message = "isRdma needs the driver of the node, and vfio-pci takes the device away from it"
            yield broken("sriov.rdma", message, "write deviceType: netdevice", ("isRdma",))
        if self.eSwitchMode == "switchdev" and self.is_infiniband:
            yield broken("sriov.switchdev", "switchdev is for Ethernet only", at=("eSwitchMode",))
        for name, given in (("vdpaType", self.vdpaType is not None), ("bridge", bool(self.bridge))):
            if given and self.eSwitchMode != "switchdev":
                yield broken("sriov.switchdev", f"'{name}' needs eSwitchMode: switchdev", at=(name,))
        if self.vdpaType is not None and self.deviceType != "netdevice":
            message = f"vdpaType needs deviceType: netdevice, not {self.deviceType}"
            yield broken("sriov.vdpa", message, "write deviceType: netdevice", ("vdpaType",))
        if self.bridge and self.externallyManaged:
            message = "the operator makes no bridge of a device that is managed externally"
            yield broken("sriov.bridge", message, "remove bridge, or externallyManaged", ("bridge",))


class Network(Spec):
    """What the networks of the operator have in common: the resource of a policy, and addresses for pods."""

    resourceName: str
    networkNamespace: str | None = None
    capabilities: str | None = None
    ipam: str | None = None
    metaPlugins: str | None = None


class EthernetNetwork(Network):
    """``SriovNetwork``: a virtual function of an Ethernet NIC."""

    vlan: Annotated[int, Field(ge=0, le=4094)] | None = None
    vlanQoS: Annotated[int, Field(ge=0, le=7)] | None = None
    vlanProto: Literal["802.1q", "802.1Q", "802.1ad", "802.1AD"] | None = None
    spoofChk: Switch | None = None
    trust: Switch | None = None
    linkState: State | None = None
    minTxRate: Rate | None = None
    maxTxRate: Rate | None = None
    logLevel: Literal["panic", "error", "warning", "info", "debug", ""] | None = None
    logFile: str | None = None


class InfinibandNetwork(Network):
    """``SriovIBNetwork``: a virtual function of an InfiniBand adapter."""

    linkState: State | None = None


class Trunk(Spec):
    """VLAN ids of a port of Open vSwitch."""

    minID: TrunkVlan | None = None
    maxID: TrunkVlan | None = None
    id: TrunkVlan | None = None


class OvsNetwork(Network):
    """``OVSNetwork``: a port of an Open vSwitch bridge."""

    bridge: str | None = None
    vlan: TrunkVlan | None = None
    mtu: Annotated[int, Field(ge=0)] | None = None
    trunk: tuple[Trunk, ...] = ()
    interfaceType: str | None = None


class Offload(Spec):
    """Hardware offload of Open vSwitch on OpenShift's machine pools."""

    name: str | None = None


class PoolConfig(Spec):
    """``SriovNetworkPoolConfig``: how many of some nodes are set up at once, and how RDMA devices are shared."""

    nodeSelector: LabelSelector | None = None
    maxUnavailable: int | str | None = None
    rdmaMode: Literal["shared", "exclusive"] | None = None
    ovsHardwareOffloadConfig: Offload | None = None

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield an offload beside nodes that are set up together, and a number of nodes that is none."""
        together = self.nodeSelector is not None or self.maxUnavailable is not None
        if together and self.ovsHardwareOffloadConfig is not None and self.ovsHardwareOffloadConfig.name:
            message = "ovsHardwareOffloadConfig stands alone, without nodeSelector and maxUnavailable"
            yield broken("sriov.pool", message, "write two objects", ("ovsHardwareOffloadConfig", "name"))
        most = self.maxUnavailable
        if most is not None and not (_PERCENT.fullmatch(most) if isinstance(most, str) else most >= 0):
            message = f"'{most}' is no number of nodes, and no share of them from 1% to 100%"
            yield broken("sriov.pool", message, "write e.g. 2 or 25%", ("maxUnavailable",))


class OperatorConfig(Spec):
    """``SriovOperatorConfig``: settings of the operator itself."""

    enableInjector: bool | None = None
    enableOperatorWebhook: bool | None = None
    configDaemonNodeSelector: dict[str, str] | None = None
    configDaemonEnvVars: dict[str, str] | None = None
    logLevel: Annotated[int, Field(ge=0, le=2)] | None = None
    disableDrain: bool | None = None
    enableOvsOffload: bool | None = None
    configurationMode: Literal["daemon", "systemd"] | None = None
    useCDI: bool | None = None
    disablePlugins: tuple[Literal["mellanox"], ...] = ()
    featureGates: dict[str, bool] | None = None


KINDS: dict[str, type[Spec]] = {
    "OVSNetwork": OvsNetwork,
    "SriovIBNetwork": InfinibandNetwork,
    "SriovNetwork": EthernetNetwork,
    "SriovNetworkNodePolicy": NodePolicy,
    "SriovNetworkPoolConfig": PoolConfig,
    "SriovOperatorConfig": OperatorConfig,
}
NOT_JUDGED = ("SriovNetworkNodeState",)
"""Kinds that the operator writes itself."""


def is_default_policy(manifest: Manifest) -> bool:
    """Return whether an object is the policy of old releases that the webhook does not look at."""
    return manifest.kind == "SriovNetworkNodePolicy" and manifest.name == DEFAULT


def check_place(manifest: Manifest, spec: Spec) -> Iterator[ObjectFinding]:
    """Yield what is wrong with name and namespace: the operator uses objects of its own namespace only."""
    elsewhere = bool(manifest.namespace) and manifest.namespace not in NAMESPACES
    if isinstance(spec, NodePolicy) and elsewhere:
        message = f"a policy in the namespace '{manifest.namespace}' is accepted and not used"
        yield manifest.warning(
            ("metadata", "namespace"), "sriov.namespace", message, "use the operator's own namespace"
        )
    if isinstance(spec, OperatorConfig) and manifest.name != DEFAULT:
        message = f"the operator takes a SriovOperatorConfig of one name only, not '{manifest.name}'"
        yield manifest.fault(("metadata", "name"), "sriov.operator-config", message, f"write {DEFAULT}")


def check_policies(policies: Sequence[tuple[Manifest, NodePolicy]]) -> Iterator[ObjectFinding]:
    """Yield what two policies for one node set differently; others are compared in the cluster only."""
    for (_, first), (manifest, second) in combinations(policies, 2):
        if not share_nodes(first.nodeSelector, second.nodeSelector):
            continue
        other = next(each for each, spec in policies if spec is first)
        yield from _same_functions(manifest, second, other, first)
        for index, device in enumerate(second.nicSelector.rootDevices or ()):
            if device in (first.nicSelector.rootDevices or ()):
                message = f"the device {device} is in {other} too ({other.mark_of()})"
                path = ("spec", "nicSelector", "rootDevices", index)
                yield manifest.fault(path, "sriov.policies-overlap", message, "keep it in one policy")
        if second.resourceName == first.resourceName and second.excludeTopology != first.excludeTopology:
            message = f"excludeTopology of {second.resourceName} is another one in {other} ({other.mark_of()})"
            yield manifest.fault(("spec",), "sriov.policies-differ", message, "write the same in both")


def share_nodes(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return whether each node that one of two selectors matches is matched by the other one too."""
    return one.items() <= other.items() or other.items() <= one.items()


def _same_functions(
    manifest: Manifest, second: NodePolicy, other: Manifest, first: NodePolicy
) -> Iterator[ObjectFinding]:
    """Yield virtual functions that are in two policies; an interface without a range is another one than with it."""
    for index, name, low, high in second.ranges():
        for _, name_before, low_before, high_before in first.ranges():
            if name != name_before:
                continue
            path = ("spec", "nicSelector", "pfNames", index)
            if second.externallyManaged != first.externallyManaged:
                message = f"externallyManaged of {name} is another one in {other} ({other.mark_of()})"
                yield manifest.fault(path, "sriov.policies-differ", message, "write the same in both")
            if low <= high_before and low_before <= high:
                message = f"virtual functions of {name} are in {other} too ({other.mark_of()})"
                help = "write ranges that lie apart, e.g. ens1#0-3 and ens1#4-7"
                yield manifest.fault(path, "sriov.policies-overlap", message, help)
