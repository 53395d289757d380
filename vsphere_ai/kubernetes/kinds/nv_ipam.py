"""Pools of NVIDIA's IPAM plugin: fields and rules of ``IPPool`` and ``CIDRPool``, version v1alpha1.

Source: github.com/Mellanox/nvidia-k8s-ipam at 3ce4a34, api/v1alpha1 with its validation. Its webhook does not refuse
host bits of an `IPPool`, nor pools that overlap each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated

from pydantic import Field

from vsphere_ai.kubernetes.kinds.labels import NodeSelector, network_name
from vsphere_ai.kubernetes.objects import Manifest, ObjectFinding, Spec, Texts
from vsphere_ai.language.yaml_files.document import DocumentPath
from vsphere_ai.model.names.networks import (
    Address,
    AddressRange,
    Network,
    address,
    has_host_bits,
    network,
    network_of,
    range_of,
    without,
)

GROUP = "nv-ipam.nvidia.com"
VERSION = "v1alpha1"


class Exclusion(Spec):
    """Addresses that no pod gets, both ends included."""

    startIP: str
    endIP: str


class IndexExclusion(Spec):
    """Places in each node's block that no pod gets, both ends included, from 0."""

    startIndex: Annotated[int, Field(ge=0)]
    endIndex: Annotated[int, Field(ge=0)]


class Route(Spec):
    """A route by the gateway of the pool."""

    dst: str


class IPPool(Spec):
    """A subnet of which each node gets a block of `perNodeBlockSize` addresses."""

    subnet: str
    perNodeBlockSize: Annotated[int, Field(ge=1)]
    gateway: str | None = None
    exclusions: tuple[Exclusion, ...] = ()
    perNodeExclusions: tuple[IndexExclusion, ...] = ()
    nodeSelector: NodeSelector | None = None
    defaultGateway: bool = False
    routes: tuple[Route, ...] = ()


class StaticAllocation(Spec):
    """The prefix of one node."""

    nodeName: str | None = None
    prefix: str
    gateway: str | None = None


class CIDRPool(Spec):
    """A network of which each node gets a prefix of its own."""

    cidr: str
    perNodeNetworkPrefix: Annotated[int, Field(ge=1, le=128)]
    gatewayIndex: Annotated[int, Field(ge=0)] | None = None
    exclusions: tuple[Exclusion, ...] = ()
    perNodeExclusions: tuple[IndexExclusion, ...] = ()
    staticAllocations: tuple[StaticAllocation, ...] = ()
    nodeSelector: NodeSelector | None = None
    defaultGateway: bool = False
    routes: tuple[Route, ...] = ()


KINDS: dict[str, type[Spec]] = {"IPPool": IPPool, "CIDRPool": CIDRPool}


@dataclass(frozen=True)
class Range:
    """The network of a pool that could be read."""

    manifest: Manifest
    field: str
    network: Network


def check_pool(manifest: Manifest, spec: IPPool | CIDRPool, ranges: list[Range]) -> Iterator[ObjectFinding]:
    """Yield what is wrong with one pool by itself, and add its network to `ranges`."""
    texts = Texts(manifest)
    texts.read(("metadata", "name"), "nv-ipam.name", network_name, manifest.name)
    field = "subnet" if isinstance(spec, IPPool) else "cidr"
    text = spec.subnet if isinstance(spec, IPPool) else spec.cidr
    # the webhook refuses host bits of a CIDRPool only (Mellanox/nvidia-k8s-ipam, api/v1alpha1, *_validate.go)
    whole = texts.read(("spec", field), "nv-ipam.subnet", network_of if isinstance(spec, IPPool) else network, text)
    yield from texts.faults
    if whole is None:
        return
    if has_host_bits(text, whole):
        yield manifest.warning(("spec", field), "nv-ipam.subnet", f"'{text}' has host bits set", f"write {whole}")
    ranges.append(Range(manifest, field, whole))
    if isinstance(spec, IPPool):
        yield from _block(manifest, spec, whole)
    else:
        yield from _prefixes(manifest, spec, whole)
    yield from _exclusions(manifest, spec, whole)
    yield from _routes(manifest, spec, whole)


def check_apart(ranges: Sequence[Range]) -> Iterator[ObjectFinding]:
    """Yield pools whose networks overlap; nothing else compares them."""
    for one, other in combinations(ranges, 2):
        if one.network.overlaps(other.network):
            where = other.manifest.mark_of(("spec", other.field))
            message = f"{one.network} overlaps {other.network} of {other.manifest} ({where})"
            help = "pods of two pools could get one address: let the pools lie apart"
            yield one.manifest.warning(("spec", one.field), "nv-ipam.pools-overlap", message, help)


def _block(manifest: Manifest, spec: IPPool, subnet: Network) -> Iterator[ObjectFinding]:
    usable = _usable(subnet.version, subnet.max_prefixlen - subnet.prefixlen)
    if spec.perNodeBlockSize > usable:
        message = f"a block of {spec.perNodeBlockSize} addresses is larger than {subnet}, which has {usable}"
        yield manifest.fault(("spec", "perNodeBlockSize"), "nv-ipam.block-size", message, f"give at most {usable}")
    if not spec.gateway:  # an empty text is none, in Go
        return
    texts = Texts(manifest)
    gateway = texts.read(("spec", "gateway"), "nv-ipam.gateway", address, spec.gateway)
    yield from texts.faults
    if gateway is not None and gateway not in subnet:
        message = f"the gateway {gateway} is not inside of {subnet}"
        yield manifest.fault(("spec", "gateway"), "nv-ipam.gateway-outside", message)


def _usable(version: int, host_bits: int) -> int:
    """Return how many addresses nv-ipam gives out of a network: GetPossibleIPCount of api/v1alpha1/helpers.go."""
    size = 1 << host_bits
    return size if host_bits <= 1 else size - (2 if version == 4 else 1)


def _prefixes(manifest: Manifest, spec: CIDRPool, whole: Network) -> Iterator[ObjectFinding]:
    bits, length = whole.max_prefixlen, spec.perNodeNetworkPrefix
    if not whole.prefixlen <= length <= bits:
        message = f"a node's prefix /{length} does not lie between /{whole.prefixlen} and /{bits}"
        yield manifest.fault(("spec", "perNodeNetworkPrefix"), "nv-ipam.prefix", message)
        return
    index, usable = spec.gatewayIndex, _usable(whole.version, bits - length)
    least, most = (0, usable - 1) if length >= bits - 1 else (1, usable)
    if index is not None and not least <= index <= most:
        message = f"gatewayIndex {index} is no usable address of a /{length}"
        yield manifest.fault(("spec", "gatewayIndex"), "nv-ipam.gateway-index", message, f"write {least} to {most}")
    yield from _allocations(manifest, spec, whole)


def _allocations(manifest: Manifest, spec: CIDRPool, whole: Network) -> Iterator[ObjectFinding]:
    texts, nodes, prefixes = Texts(manifest), dict[str, int](), dict[Network, int]()
    for index, each in enumerate(spec.staticAllocations):
        path: DocumentPath = ("spec", "staticAllocations", index)
        if each.nodeName and nodes.setdefault(each.nodeName, index) != index:
            message = f"the node {each.nodeName} already has staticAllocations[{nodes[each.nodeName]}]"
            yield manifest.fault((*path, "nodeName"), "nv-ipam.allocation-twice", message)
        prefix = texts.read((*path, "prefix"), "nv-ipam.prefix", network, each.prefix)
        if prefix is None:
            continue
        if prefixes.setdefault(prefix, index) != index:
            message = f"{prefix} is already staticAllocations[{prefixes[prefix]}]"
            yield manifest.fault((*path, "prefix"), "nv-ipam.allocation-twice", message)
        if prefix.prefixlen != spec.perNodeNetworkPrefix:
            message = f"{prefix} is not as large as perNodeNetworkPrefix /{spec.perNodeNetworkPrefix}"
            yield manifest.fault((*path, "prefix"), "nv-ipam.prefix", message)
        if not range_of(prefix).within(whole):
            message = f"{prefix} is not inside of {whole}"
            yield manifest.fault((*path, "prefix"), "nv-ipam.outside-subnet", message)
        gateway = texts.read((*path, "gateway"), "nv-ipam.gateway", address, each.gateway) if each.gateway else None
        if gateway is not None and gateway not in prefix:
            message = f"the gateway {gateway} is not inside of {prefix}"
            yield manifest.fault((*path, "gateway"), "nv-ipam.gateway-outside", message)
    yield from texts.faults


def _exclusions(manifest: Manifest, spec: IPPool | CIDRPool, whole: Network) -> Iterator[ObjectFinding]:
    texts = Texts(manifest)
    for index, each in enumerate(spec.exclusions):
        path: DocumentPath = ("spec", "exclusions", index)
        ends = [
            texts.read((*path, key), "nv-ipam.address", address, text)
            for key, text in (("startIP", each.startIP), ("endIP", each.endIP))
        ]
        found: list[Address] = [end for end in ends if end is not None]
        if any(end not in whole for end in found):
            message = f"{each.startIP} to {each.endIP} is not inside of {whole}"
            yield manifest.fault(path, "nv-ipam.outside-subnet", message)
        elif len(found) == 2 and int(found[0]) > int(found[1]):
            yield manifest.fault(path, "nv-ipam.order", f"{each.startIP} comes after {each.endIP}")
    yield from texts.faults
    if isinstance(spec, IPPool):
        size = spec.perNodeBlockSize
    else:
        size = 1 << max(0, whole.max_prefixlen - spec.perNodeNetworkPrefix)
    for index, block in enumerate(spec.perNodeExclusions):
        if block.startIndex > block.endIndex or block.endIndex >= size:
            message = f"{block.startIndex} to {block.endIndex} are no places of a block of {size} addresses"
            help = f"count from 0 to {size - 1}, the smaller one first"
            yield manifest.fault(("spec", "perNodeExclusions", index), "nv-ipam.order", message, help)
    places = [AddressRange(4, block.startIndex, block.endIndex) for block in spec.perNodeExclusions]
    if places and not without([AddressRange(4, 0, size - 1)], places):
        # admitted, and no pod ever gets an address: Mellanox/nvidia-k8s-ipam, issue 154
        message = f"all {size} places of each node's block are excluded"
        yield manifest.warning(("spec", "perNodeExclusions"), "nv-ipam.no-address", message, "leave some out")


def _routes(manifest: Manifest, spec: IPPool | CIDRPool, whole: Network) -> Iterator[ObjectFinding]:
    texts = Texts(manifest)
    by_gateway = bool(spec.gateway) if isinstance(spec, IPPool) else spec.gatewayIndex is not None
    for field, used in (("defaultGateway", spec.defaultGateway), ("routes", bool(spec.routes))):
        if used and not by_gateway:
            message = f"'{field}' needs a gateway, and the pool has none"
            yield manifest.fault(("spec", field), "nv-ipam.no-gateway", message)
    for index, route in enumerate(spec.routes):
        path: DocumentPath = ("spec", "routes", index, "dst")
        dst = texts.read(path, "nv-ipam.route", network_of, route.dst)
        if dst is not None and has_host_bits(route.dst, dst):
            yield manifest.warning(path, "nv-ipam.route", f"'{route.dst}' has host bits set", f"write {dst}")
        if dst is not None and dst.version != whole.version:
            yield manifest.fault(path, "nv-ipam.route", f"{dst} is IPv{dst.version}, and {whole} IPv{whole.version}")
        elif dst is not None and dst.prefixlen == 0 and spec.defaultGateway:
            message = "a default route beside defaultGateway"
            yield manifest.fault(path, "nv-ipam.default-route", message, "keep one of them")
    yield from texts.faults
