"""Fields of Spiderpool's objects, version v2beta1.

Source: github.com/spidernet-io/spiderpool at a7fbd3b (v1.2.1), charts/spiderpool/crds; rules of one object as its
webhook has them: pkg/multuscniconfig/multusconfig_validate.go, pkg/coordinatormanager/coordinator_validate.go and
pkg/ippoolmanager/ippool_validate.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vsphere_ai.kubernetes.kinds.labels import LabelSelector
from vsphere_ai.kubernetes.objects import Anything, BrokenRule, Spec, broken, keeps
from vsphere_ai.model.bounded import json_value
from vsphere_ai.model.names.networks import address, address_or_network

GROUP = "spiderpool.spidernet.io"
VERSION = "v2beta1"

BLOCKS = {"ib-sriov": "ibsriov", "custom": "customCNI"}
"""Value of `cniType` -> its block, where the names differ."""
Selector = dict[str, Anything]
Names = tuple[str, ...]
Version = Literal[4, 6]
Vlan = Annotated[int, Field(ge=0, le=4094)]
Mtu = Annotated[int, Field(ge=0)]

MAC_PREFIX = re.compile(r"[0-9a-fA-F]{2}:[0-9a-fA-F]{2}")


_CNI_FIELDS: tuple[tuple[tuple[str, ...], type, str], ...] = (
    (("cniversion", "name"), str, "text"),
    (("ipam", "dns", "capabilities"), dict, "object"),
)
"""Fields of a plugin (containernetworking/cni, pkg/types, PluginConf), in small letters; null is none."""


def cni_configuration(text: str) -> dict[str, object]:
    """Return a CNI configuration; `ValueError` with a sentence when it is not a JSON object with a type."""
    found = _cni_json(text)
    if not isinstance(found, dict):
        raise ValueError("this is not a CNI configuration: it is no JSON object")
    fields = {key.lower(): value for key, value in found.items()}  # as Go matches the names of fields
    if not isinstance(fields.get("type"), str) or not fields["type"]:
        raise ValueError("this is not a CNI configuration: it has no 'type'")
    for names, kind, words in _CNI_FIELDS:
        for name in names:
            if not isinstance(fields.get(name), kind | None):
                raise ValueError(f"this is not a CNI configuration: '{name}' is no {words}")
    return found


def _cni_json(text: str) -> object:
    try:
        return json_value(text, has_constants=False)
    except ValueError as error:
        raise ValueError(f"this is not a CNI configuration in JSON: {error}") from None


def _json_or_nothing(text: str) -> object:
    return _cni_json(text) if text else None


def _mac_prefix(text: str) -> None:
    """Raise `ValueError` for what is no beginning of the MAC addresses of pods; an empty text is none, and allowed."""
    if text and not MAC_PREFIX.fullmatch(text):
        raise ValueError(f"'{text}' is no prefix of MAC addresses\nwrite two bytes, e.g. 0a:1b")
    if text and int(text[:2], 16) & 1:
        raise ValueError(f"'{text}' is the prefix of multicast addresses\nwrite an even first byte, e.g. 0a:1b")


def _address_or_nothing(text: str) -> object:
    return address(text) if text else None


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
    podAffinity: LabelSelector | None = None
    multusName: Names = ()
    vlan: Anything = None

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield a selector of pods without a condition, which the webhook refuses, and a field of old releases."""
        pods = self.podAffinity
        if pods is not None and not pods.matchLabels and not pods.matchExpressions:
            message = "podAffinity selects by nothing"
            yield broken("spiderpool.affinity", message, "add matchLabels, or remove it", ("podAffinity",))
        if self.vlan is not None:
            message = "vlan is a field of old releases, and dropped"
            yield broken("spiderpool.deprecated", message, "set vlanID of the network", ("vlan",), verdict="warn")


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

    ips: Names = ()
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

    @property
    def resource(self) -> str | None:
        """What a webhook injects into pods of the network; None where the block names nothing."""
        return None


class Master(Block):
    """Block ``macvlan`` or ``ipvlan``: child interfaces of a NIC of the node."""

    MISTAKES: ClassVar[Mapping[str, str]] = {"enableRdma": OLD_RDMA}

    master: Names
    vlanID: Vlan | None = None
    mtu: Mtu | None = None
    bond: Bond | None = None
    rdmaResourceName: str | None = None

    @property
    def resource(self) -> str | None:
        """What a webhook injects into pods of the network; None where the block names nothing."""
        return self.rdmaResourceName

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield masters that make no interface, and pools that are looked up by the master's subnet."""
        if not self.master:
            yield broken("spiderpool.master", "no master is named", at=("master",))
        if len(self.master) > 1 and self.bond is None:
            message = f"{len(self.master)} masters need a bond"
            yield broken("spiderpool.master", message, "add 'bond', or keep one", ("master",))
        elif len(self.master) > 1 and self.bond is not None and not self.bond.name:
            yield broken("spiderpool.master", "the bond has no name", "write e.g. bond0", ("bond", "name"))
        if self.ippools is not None and self.ippools.matchMasterSubnet:
            message = "matchMasterSubnet is not supported for macvlan, ipvlan and vlan"
            yield broken("spiderpool.master-subnet", message, "remove it", ("ippools", "matchMasterSubnet"))


class VlanMaster(Master):
    """Block ``vlan``: the id is that of `vlanID` (``manual``), or the one that the master has (``auto``)."""

    vlanMode: Literal["manual", "auto"] = "manual"

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield what the rules of masters refuse, and an id that its mode does not have."""
        yield from super().broken_rules()
        if self.vlanMode == "manual" and self.vlanID is None:
            # the webhook fills in 0 (pkg/multuscniconfig/multusconfig_mutate.go, setVlanDefaultConfig)
            message = "vlanMode manual without vlanID has the id 0, and no VLAN"
            yield broken("spiderpool.vlan-mode", message, "add vlanID, or vlanMode: auto", ("master",), verdict="warn")
        if self.vlanMode == "auto" and self.vlanID is not None:
            help = "remove vlanID, or write vlanMode: manual"
            yield broken("spiderpool.vlan-mode", "vlanMode auto has no vlanID", help, ("vlanID",))


class Sriov(Block):
    """Block ``sriov``: a virtual function of a NIC."""

    MISTAKES: ClassVar[Mapping[str, str]] = {"enableRdma": OLD_RDMA}

    resourceName: Annotated[str, Field(min_length=1)]
    vlanID: Vlan | None = None
    mtu: Mtu | None = None
    minTxRateMbps: Annotated[int, Field(ge=0)] | None = None
    maxTxRateMbps: Annotated[int, Field(ge=0)] | None = None
    rdmaIsolation: bool = False

    @property
    def resource(self) -> str | None:
        """What a webhook injects into pods of the network; None where the block names nothing."""
        return self.resourceName

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield a least rate above the greatest."""
        least, most = self.minTxRateMbps, self.maxTxRateMbps
        # a rate that is not given is 0 (pkg/multuscniconfig/multusconfig_mutate.go, setSriovDefaultConfig)
        if least and (most is None or least > most):
            message = f"minTxRateMbps {least} is above maxTxRateMbps {'0, the default' if most is None else most}"
            yield broken("spiderpool.rate", message, f"set maxTxRateMbps: {least} or more", ("minTxRateMbps",))


class IbSriov(Block):
    """Block ``ibsriov``: a virtual function of an InfiniBand adapter."""

    resourceName: Annotated[str, Field(min_length=1)]
    pkey: str | None = None
    linkState: Literal["auto", "enable", "disable"] | None = None
    rdmaIsolation: bool = True
    enableIbKubernetes: bool = False

    @property
    def resource(self) -> str | None:
        """What a webhook injects into pods of the network; None where the block names nothing."""
        return self.resourceName


class Ipoib(Block):
    """Block ``ipoib``: IP over InfiniBand."""

    master: Annotated[str, Field(min_length=1)]

    @property
    def resource(self) -> str | None:
        """What a webhook injects into pods of the network; None where the block names nothing."""
        return self.master


class Trunk(Spec):
    """VLAN ids of an Open vSwitch trunk."""

    minID: Vlan | None = None
    maxID: Vlan | None = None
    id: Vlan | None = None

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield a range that ends before it begins, or that has no beginning."""
        if self.maxID is not None and self.minID is None:
            yield broken("spiderpool.trunk", "maxID needs minID", "add minID", ("maxID",))
        if self.maxID is not None and self.minID is not None and self.maxID < self.minID:
            message = f"the range of VLANs ends at {self.maxID} before it begins at {self.minID}"
            yield broken("spiderpool.trunk", message, "write the smaller one as minID", ("maxID",))


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

        dst: Annotated[str, keeps("spiderpool.route", address_or_network)]
        gw: Annotated[str, keeps("spiderpool.route", address)]

        def broken_rules(self) -> Iterator[BrokenRule]:
            """Yield a gateway of the other family."""
            dst, gw = address_or_network(self.dst), address(self.gw)
            if dst.version != gw.version:
                message = f"{dst} is IPv{dst.version}, and its gateway {gw} IPv{gw.version}"
                yield broken("spiderpool.route", message, at=("gw",))

    mode: Literal["auto", "underlay", "overlay", "disabled"] | None = None
    podCIDRType: Literal["auto", "cluster", "calico", "cilium", "none"] | None = None
    tunePodRoutes: bool | None = None
    podDefaultRouteNIC: str | None = None
    podMACPrefix: Annotated[str, keeps("spiderpool.mac-prefix", _mac_prefix)] | None = None
    podRPFilter: Annotated[int, Field(le=2)] | None = None  # a negative number leaves the kernel's setting as it is
    hostRuleTable: int | None = None
    hostRPFilter: int | None = None
    txQueueLen: Annotated[int, Field(ge=0)] | None = None
    vethLinkAddress: Annotated[str, keeps("spiderpool.address", _address_or_nothing)] | None = None
    vethMTU: Annotated[int, Field(gt=0)] | None = None
    hijackCIDR: tuple[Annotated[str, keeps("spiderpool.subnet", address_or_network)], ...] = ()
    policyRoutes: tuple[PolicyRoute, ...] = ()
    detectGateway: bool | None = None
    detectIPConflict: bool | None = None

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield switches that moved to the ConfigMap, which are taken and not used."""
        for name, value in (("detectGateway", self.detectGateway), ("detectIPConflict", self.detectIPConflict)):
            if value is not None:
                message, help = f"{name} is deprecated", self.MISTAKES[name]
                yield broken("spiderpool.deprecated", message, help, (name,), verdict="warn")


class Coordinator(Coordination):
    """``SpiderCoordinator``: the settings of the cluster, of which one has no default."""

    podCIDRType: Literal["auto", "cluster", "calico", "cilium", "none"]


class MultusConfig(Spec):
    """``SpiderMultusConfig``: a network of pods; `cniType` says which one of the blocks it has."""

    MISTAKES: ClassVar[Mapping[str, str]] = {"enableRdma": OLD_RDMA}

    cniType: Literal["macvlan", "ipvlan", "vlan", "sriov", "ovs", "ib-sriov", "ipoib", "custom"] = "custom"
    enableCoordinator: bool = True
    disableIPAM: bool = False
    coordinator: Coordination | None = None
    customCNI: Annotated[str, keeps("spiderpool.json", _json_or_nothing)] | None = None
    chainCNIJsonData: tuple[Annotated[str, keeps("spiderpool.json", cni_configuration)], ...] = ()
    macvlan: Master | None = None
    ipvlan: Master | None = None
    vlan: VlanMaster | None = None
    sriov: Sriov | None = None
    ibsriov: IbSriov | None = None
    ipoib: Ipoib | None = None
    ovs: Ovs | None = None

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield a block that is missing, and blocks of other types; a custom network may have none."""
        wanted, given = BLOCKS.get(self.cniType, self.cniType), list(self.blocks())
        given += ["customCNI"] if self.customCNI is not None else []
        if wanted not in given and self.cniType != "custom":
            message = f"cniType is {self.cniType}, and the block '{wanted}' is missing"
            yield broken("spiderpool.block-missing", message, f"add spec.{wanted}", ("cniType",))
        for name in given:
            if name != wanted:
                message = f"'{name}' is refused: cniType is {self.cniType}"
                yield broken("spiderpool.block-unused", message, "remove it, or change cniType", (name,))

    @property
    def block(self) -> Block | None:
        """The block of `cniType`."""
        return self.blocks().get(BLOCKS.get(self.cniType, self.cniType))

    def blocks(self) -> dict[str, Block]:
        """Return the blocks that are given, by name."""
        return {name: block for name, block in self if isinstance(block, Block)}


KINDS: dict[str, type[Spec]] = {
    "SpiderIPPool": IPPool,
    "SpiderSubnet": Subnet,
    "SpiderReservedIP": ReservedIP,
    "SpiderCoordinator": Coordinator,
    "SpiderMultusConfig": MultusConfig,
}
WITHOUT_SPEC = ("SpiderEndpoint",)
"""Kinds that Spiderpool itself writes."""
