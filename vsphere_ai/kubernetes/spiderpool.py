"""Fields of Spiderpool's objects, version v2beta1.

Source: the CustomResourceDefinitions of github.com/spidernet-io/spiderpool at a7fbd3b (v1.2.1), charts/spiderpool/crds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vsphere_ai.kubernetes.objects import Anything, Spec

GROUP = "spiderpool.spidernet.io"
VERSION = "v2beta1"

Selector = dict[str, Anything]
Names = tuple[str, ...]
Version = Literal[4, 6]
Vlan = Annotated[int, Field(ge=0, le=4094)]
Mtu = Annotated[int, Field(ge=0)]

OLD_RDMA = "a field of old releases: name the device plugin's resource in rdmaResourceName of the NIC's own block"


class Route(Spec):
    """A route of a pool: destination in CIDR notation and gateway."""

    MISTAKES: ClassVar[Mapping[str, str]] = {"to": "the destination is 'dst'", "via": "the gateway is 'gw'"}

    dst: str
    gw: str


class IPPool(Spec):
    """``SpiderIPPool``: addresses of one family in one subnet, and who may have them."""

    subnet: str
    ipVersion: Version | None = None
    ips: Names = ()
    excludeIPs: Names = ()
    gateway: str | None = None
    routes: tuple[Route, ...] = ()
    default: bool = False
    disable: bool = False
    namespaceName: Names = ()
    namespaceAffinity: Selector | None = None
    nodeName: Names = ()
    nodeAffinity: Selector | None = None
    podAffinity: Selector | None = None
    multusName: Names = ()
    vlan: int | None = None


class Subnet(Spec):
    """``SpiderSubnet``: a subnet that pools are cut from."""

    subnet: str
    ipVersion: Version | None = None
    ips: Names = ()
    excludeIPs: Names = ()
    gateway: str | None = None
    routes: tuple[Route, ...] = ()
    default: bool = False
    vlan: int | None = None


class ReservedIP(Spec):
    """``SpiderReservedIP``: addresses that no pool gives away."""

    ips: Names
    ipVersion: Version | None = None


class PoolNames(Spec):
    """Pools of a NIC by family."""

    ipv4: Names = ()
    ipv6: Names = ()
    matchMasterSubnet: bool = False


class Bond(Spec):
    """A bond that is made of several masters."""

    name: str
    mode: Annotated[int, Field(ge=0, le=6)]
    options: str | None = None


class Block(Spec):
    """What the blocks of a network have in common."""

    ippools: PoolNames | None = None


class Master(Block):
    """Block ``macvlan`` or ``ipvlan``: child interfaces of a NIC of the node."""

    MISTAKES: ClassVar[Mapping[str, str]] = {"enableRdma": OLD_RDMA}

    master: Names
    vlanID: Vlan | None = None
    mtu: Mtu | None = None
    bond: Bond | None = None
    rdmaResourceName: str | None = None


class VlanMaster(Master):
    """Block ``vlan``."""

    vlanMode: str | None = None


class Sriov(Block):
    """Block ``sriov``: a virtual function of a NIC."""

    MISTAKES: ClassVar[Mapping[str, str]] = {"enableRdma": OLD_RDMA}

    resourceName: str
    vlanID: Vlan | None = None
    mtu: Mtu | None = None
    minTxRateMbps: Annotated[int, Field(ge=0)] | None = None
    maxTxRateMbps: Annotated[int, Field(ge=0)] | None = None
    rdmaIsolation: bool = False


class IbSriov(Block):
    """Block ``ibsriov``: a virtual function of an InfiniBand adapter."""

    resourceName: str
    pkey: str | None = None
    linkState: Literal["auto", "enable", "disable"] | None = None
    rdmaIsolation: bool = True
    enableIbKubernetes: bool = False


class Ipoib(Block):
    """Block ``ipoib``: IP over InfiniBand."""

    master: str


class Trunk(Spec):
    """VLAN ids of an Open vSwitch trunk."""

    minID: Vlan | None = None
    maxID: Vlan | None = None
    id: Vlan | None = None


class Ovs(Block):
    """Block ``ovs``: a port of an Open vSwitch bridge."""

    bridge: str
    vlan: Vlan | None = None
    trunk: tuple[Trunk, ...] = ()
    deviceID: str | None = None


class Coordination(Spec):
    """Settings of the coordinator plugin, of a cluster or of one network."""

    MISTAKES: ClassVar[Mapping[str, str]] = {
        "detectGateway": "moved: set enableGatewayDetection in the ConfigMap of Spiderpool",
        "detectIPConflict": "moved: set enableIPConflictDetection in the ConfigMap of Spiderpool",
    }

    class PolicyRoute(Spec):
        """A route of the rule table."""

        dst: str
        gw: str

    mode: Literal["auto", "underlay", "overlay", "disabled"] | None = None
    podCIDRType: str | None = None
    tunePodRoutes: bool | None = None
    podDefaultRouteNIC: str | None = None
    podMACPrefix: str | None = None
    podRPFilter: int | None = None
    hostRuleTable: int | None = None
    hostRPFilter: int | None = None
    txQueueLen: Annotated[int, Field(ge=0)] | None = None
    vethLinkAddress: str | None = None
    vethMTU: int | None = None
    hijackCIDR: Names = ()
    policyRoutes: tuple[PolicyRoute, ...] = ()
    detectGateway: bool | None = None
    detectIPConflict: bool | None = None


class MultusConfig(Spec):
    """``SpiderMultusConfig``: a network of pods; `cniType` says which one of the blocks it has."""

    MISTAKES: ClassVar[Mapping[str, str]] = {"enableRdma": OLD_RDMA}

    cniType: Literal["macvlan", "ipvlan", "vlan", "sriov", "ovs", "ib-sriov", "ipoib", "custom"]
    enableCoordinator: bool = True
    disableIPAM: bool = False
    coordinator: Coordination | None = None
    customCNI: str | None = None
    chainCNIJsonData: Names = ()
    macvlan: Master | None = None
    ipvlan: Master | None = None
    vlan: VlanMaster | None = None
    sriov: Sriov | None = None
    ibsriov: IbSriov | None = None
    ipoib: Ipoib | None = None
    ovs: Ovs | None = None

    def blocks(self) -> dict[str, Block]:
        """Return the blocks that are given, by name."""
        return {name: block for name, block in self if isinstance(block, Block)}


KINDS: dict[str, type[Spec]] = {
    "SpiderIPPool": IPPool,
    "SpiderSubnet": Subnet,
    "SpiderReservedIP": ReservedIP,
    "SpiderCoordinator": Coordination,
    "SpiderMultusConfig": MultusConfig,
}
WITHOUT_SPEC = ("SpiderEndpoint",)
"""Kinds that Spiderpool itself writes."""
