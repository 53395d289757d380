"""Rules of Spiderpool's admission webhook, and across objects, that its objects have to keep.

Source: github.com/spidernet-io/spiderpool at a7fbd3b (v1.2.1), pkg/ippoolmanager/ippool_validate.go and pkg/ip/cidr.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from vsphere_ai.kubernetes.kinds.labels import subdomain
from vsphere_ai.kubernetes.kinds.spiderpool import (
    BLOCKS,
    GROUP,
    KINDS,
    VERSION,
    WITHOUT_SPEC,
    Block,
    IPPool,
    MultusConfig,
    PoolNames,
    ReservedIP,
    Route,
    Subnet,
)
from vsphere_ai.kubernetes.objects import (
    Manifest,
    ObjectFinding,
    Spec,
    Texts,
    TypedObject,
    is_newer_kind,
    twice,
    version_fault,
)
from vsphere_ai.kubernetes.schema import read_spec
from vsphere_ai.language.yaml_files.document import DocumentPath
from vsphere_ai.model.names.networks import (
    Address,
    AddressRange,
    Network,
    address,
    address_range,
    has_host_bits,
    network,
    network_of,
    range_of,
    without,
)
from vsphere_ai.model.names.suggestion import suggest

CR_NAME = "multus.spidernet.io/cr-name"
CNI_VERSION = "multus.spidernet.io/cni-version"
CNI_VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0")
INJECT_RDMA = "cni.spidernet.io/rdma-resource-inject"
INJECT_NETWORK = "cni.spidernet.io/network-resource-inject"
"""Annotations of a ``SpiderMultusConfig``: pkg/constant/k8s.go and pkg/multuscniconfig."""


@dataclass(frozen=True)
class _Pool:
    """A pool whose addresses could be read."""

    manifest: Manifest
    subnet: Network
    free: tuple[AddressRange, ...]
    default: bool


def is_not_judged(manifest: Manifest) -> bool:
    """Return whether an object is of a kind that has no rules here, and is not one that is misspelt."""
    return manifest.group == GROUP and is_newer_kind(manifest.kind, (*KINDS, *WITHOUT_SPEC))


def check(objects: Sequence[Manifest]) -> Iterator[ObjectFinding]:
    """Yield what is wrong with Spiderpool's objects, each by itself and together; others are left out."""
    own = [each for each in objects if each.group == GROUP and not is_not_judged(each)]
    read: list[TypedObject[Spec]] = []
    for manifest in own:
        if (found := _header(manifest)) is not None:
            yield found
        elif manifest.kind not in WITHOUT_SPEC:
            spec, faults = read_spec(manifest, KINDS[manifest.kind])
            yield from faults
            read += [] if spec is None else [TypedObject(manifest, spec)]
    pools: list[_Pool] = []
    for each in read:
        match each.spec:
            case IPPool() | Subnet():
                yield from _subnet(each.manifest, each.spec, pools)
            case ReservedIP():
                yield from _reserved(each.manifest, each.spec)
            case MultusConfig():
                yield from _network(each.manifest, each.spec)
    yield from _together([p for p in pools if p.manifest.kind == "SpiderIPPool"])
    yield from twice(own)
    yield from _missing_pools(read)


def _header(manifest: Manifest) -> ObjectFinding | None:
    if manifest.kind not in (*KINDS, *WITHOUT_SPEC):
        help = suggest(manifest.kind, (*KINDS, *WITHOUT_SPEC))
        return manifest.fault(("kind",), "manifest.kind", f"there is no kind '{manifest.kind}' in {GROUP}", help)
    return version_fault(manifest, VERSION)


def _subnet(manifest: Manifest, spec: IPPool | Subnet, pools: list[_Pool]) -> Iterator[ObjectFinding]:
    texts = Texts(manifest)
    subnet = texts.read(("spec", "subnet"), "spiderpool.subnet", _canonical, spec.subnet)
    ips = texts.read_all(("spec", "ips"), "spiderpool.address", _range, spec.ips)
    excluded = texts.read_all(("spec", "excludeIPs"), "spiderpool.address", _range, spec.excludeIPs)
    gateway = (
        texts.read(("spec", "gateway"), "spiderpool.gateway", address, spec.gateway)
        if spec.gateway is not None
        else None
    )
    yield from texts.faults
    if subnet is None:
        return
    if spec.ipVersion is not None and spec.ipVersion != subnet.version:
        message = f"ipVersion is {spec.ipVersion}, and {subnet} is IPv{subnet.version}"
        yield manifest.fault(("spec", "ipVersion"), "spiderpool.ip-version", message, f"write {subnet.version}")
    for field, ranges in (("ips", ips), ("excludeIPs", excluded)):
        for index, each in ranges.items():
            if not each.within(subnet):
                message = f"{each} is not inside of {subnet}"
                yield manifest.fault(("spec", field, index), "spiderpool.outside-subnet", message, _usable(subnet))
    free = without(list(ips.values()), list(excluded.values()))
    if gateway is not None:
        yield from _gateway(manifest, gateway, subnet, free)
    yield from _routes(manifest, spec.routes, subnet)
    pools.append(_Pool(manifest, subnet, tuple(free), spec.default))


def _canonical(text: str) -> Network:
    """Return a subnet; `ValueError` where its text is not the one that Spiderpool writes (IsFormatCIDR of pkg/ip)."""
    subnet = network(text)
    if str(subnet) != text:
        raise ValueError(f"'{text}' is not the usual form of this subnet\nwrite {subnet}")
    return subnet


def _range(text: str) -> AddressRange:
    """Return addresses; `ValueError` for anything else, and for blanks, which IsIPRange of pkg/ip refuses."""
    if text != "".join(text.split()):
        raise ValueError(f"'{text}' has blanks in it\nwrite {''.join(text.split())}")
    if "%" in text:
        raise ValueError(f"'{text}' has a zone, which addresses of pods have not\nwrite {text.partition('%')[0]}")
    return address_range(text)


def _gateway(
    manifest: Manifest, gateway: Address, subnet: Network, free: Sequence[AddressRange]
) -> Iterator[ObjectFinding]:
    path = ("spec", "gateway")
    if gateway not in subnet:
        message = f"the gateway {gateway} is not inside of {subnet}"
        yield manifest.fault(path, "spiderpool.gateway-outside", message, _usable(subnet))
    elif any(gateway in each for each in free):
        help = f"leave {gateway} out of ips, or add it to excludeIPs"
        yield manifest.fault(
            path, "spiderpool.gateway-in-ips", f"a pod could get the gateway's address {gateway}", help
        )


def _routes(manifest: Manifest, routes: Sequence[Route], subnet: Network) -> Iterator[ObjectFinding]:
    texts = Texts(manifest)
    first: dict[str, int] = {}
    for index, route in enumerate(routes):
        path: DocumentPath = ("spec", "routes", index)
        # Spiderpool parses the destination and compares no bits of it (pkg/ippoolmanager, webhook of pools)
        dst = texts.read((*path, "dst"), "spiderpool.route", network_of, route.dst)
        gw = texts.read((*path, "gw"), "spiderpool.route", address, route.gw)
        if dst is not None and has_host_bits(route.dst, dst):
            yield manifest.warning(
                (*path, "dst"), "spiderpool.route", f"'{route.dst}' has host bits set", f"write {dst}"
            )
        if dst is not None and dst.prefixlen == 0:
            help = "set 'gateway' of the pool instead"
            yield manifest.fault((*path, "dst"), "spiderpool.default-route", f"{dst} is the default route", help)
        if dst is not None and dst.version != subnet.version:
            message = f"{dst} is IPv{dst.version}, and {subnet} IPv{subnet.version}"
            yield manifest.fault((*path, "dst"), "spiderpool.ip-version", message)
        if first.setdefault(route.dst, index) != index:  # the webhook compares the texts
            message = f"there is already a route to {route.dst}: routes[{first[route.dst]}]"
            yield manifest.fault((*path, "dst"), "spiderpool.route-twice", message, "keep one of them")
        if gw is not None and gw not in subnet:
            message = f"the gateway {gw} of the route is not inside of {subnet}"
            yield manifest.fault((*path, "gw"), "spiderpool.gateway-outside", message, _usable(subnet))
    yield from texts.faults


def _reserved(manifest: Manifest, spec: ReservedIP) -> Iterator[ObjectFinding]:
    texts = Texts(manifest)
    ranges = texts.read_all(("spec", "ips"), "spiderpool.address", _range, spec.ips)
    yield from texts.faults
    if not spec.ips and spec.ipVersion is None:
        message = "no address is reserved, and ipVersion is not known without one"
        yield manifest.fault(("spec", "ips"), "spiderpool.address", message, "add addresses to 'ips'")
    elif not spec.ips:
        yield manifest.warning(("spec", "ips"), "spiderpool.address", "no address is reserved", "add some to 'ips'")
    # without ipVersion the webhook takes the family of the first address (pkg/reservedipmanager/reservedip_mutate.go)
    family = spec.ipVersion or (ranges[0].version if 0 in ranges else None)
    for index, each in ranges.items():
        if family is not None and each.version != family:
            message = f"{each} is IPv{each.version}, and the object is for IPv{family}"
            yield manifest.fault(("spec", "ips", index), "spiderpool.ip-version", message)


def _network(manifest: Manifest, spec: MultusConfig) -> Iterator[ObjectFinding]:
    """Yield what is wrong with annotations of a network, which name versions, names and resources to inject."""
    texts = Texts(manifest)
    if (name := _annotation(manifest, CR_NAME)) is not None:
        texts.read(("metadata", "annotations", CR_NAME), "spiderpool.annotation", subdomain, name)
    yield from texts.faults
    version = _annotation(manifest, CNI_VERSION)
    if version is not None and version not in CNI_VERSIONS:
        message = f"Spiderpool writes no CNI configuration of version '{version}'"
        help = f"write one of {', '.join(CNI_VERSIONS)}"
        yield manifest.fault(("metadata", "annotations", CNI_VERSION), "spiderpool.annotation", message, help)
    for key in (INJECT_RDMA, INJECT_NETWORK):
        if _annotation(manifest, key) is None:
            continue
        path: DocumentPath = ("metadata", "annotations", key)
        if spec.cniType in ("ovs", "custom"):
            message = f"a network of the type {spec.cniType} has no resource to inject"
            yield manifest.fault(path, "spiderpool.inject", message, "remove the annotation")
        elif spec.block is not None:
            yield from _injected(manifest, path, key, spec.block)


def _injected(manifest: Manifest, path: DocumentPath, key: str, block: Block) -> Iterator[ObjectFinding]:
    """Yield what a block lacks whose resource is given to pods by annotation."""
    if key == INJECT_RDMA and not block.resource:
        message = "the annotation injects a resource, and the block names none"
        yield manifest.fault(path, "spiderpool.inject", message, "add rdmaResourceName to the block")
    pools = block.ippools
    if (pools is None or not (pools.ipv4 or pools.ipv6)) and (key == INJECT_RDMA or block.resource):
        message = "a network whose resource is injected has an IP pool of its own, and this one names none"
        yield manifest.fault(path, "spiderpool.inject", message, "add ippools to the block")


def _annotation(manifest: Manifest, key: str) -> str | None:
    annotations = manifest.metadata.get("annotations")
    text = annotations.get(key) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else None


def _together(pools: Sequence[_Pool]) -> Iterator[ObjectFinding]:
    """Compare every two pools: their subnets are the same or apart, and no address is in both."""
    for one, other in combinations(pools, 2):
        if not one.subnet.overlaps(other.subnet):
            continue
        where = other.manifest.mark_of(("spec", "subnet"))
        if one.subnet != other.subnet:
            message = f"{one.subnet} overlaps {other.subnet} of {other.manifest} ({where})"
            help = "pools share one subnet, or their subnets lie apart"
            yield one.manifest.fault(("spec", "subnet"), "spiderpool.subnets-overlap", message, help)
        shared = next((f"{a} and {b}" for a in one.free for b in other.free if a.overlaps(b)), "")
        if shared:
            message = f"pods of two pools could get one address: {shared} of {other.manifest} ({where})"
            yield one.manifest.fault(
                ("spec", "ips"), "spiderpool.ips-overlap", message, "give each address to one pool"
            )
    for version in (4, 6):
        defaults = [p for p in pools if p.default and p.subnet.version == version]
        for each in defaults[1:]:
            message = f"two pools are the default for IPv{version}: {defaults[0].manifest} and {each.manifest}"
            yield each.manifest.warning(("spec", "default"), "spiderpool.two-defaults", message, "keep one of them")


def _missing_pools(read: Iterable[TypedObject[Spec]]) -> Iterator[ObjectFinding]:
    """Name pools that networks ask for and that are not there, where the pools are checked too."""
    every = list(read)
    pools = {each.manifest.name: each.spec for each in every if isinstance(each.spec, IPPool)}
    if not pools:
        return
    for each in every:
        if not isinstance(each.spec, MultusConfig):
            continue
        name, block = BLOCKS.get(each.spec.cniType, each.spec.cniType), each.spec.block
        asked = (block.ippools if block is not None else None) or PoolNames()
        for family, names in (("ipv4", asked.ipv4), ("ipv6", asked.ipv6)):
            for index, pool in enumerate(names):
                path = ("spec", name, "ippools", family, index)
                if pool not in pools:
                    help = suggest(pool, pools)
                    yield each.manifest.warning(
                        path, "spiderpool.pool-missing", f"there is no pool '{pool}' here", help
                    )


def _usable(subnet: Network) -> str:
    return f"its addresses are {range_of(subnet)}"
