"""Objects of Spiderpool for pods on VMs: pools, networks, and the coordinator.

Source: github.com/spidernet-io/spiderpool at a7fbd3b (v1.2.1), docs/usage/install/ai and docs/usage/readme.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.kubernetes.findings import mac_findings, rdma_findings
from vsphere_ai.kubernetes.kinds.spiderpool import GROUP, VERSION
from vsphere_ai.kubernetes.manifest import Object, WrittenObject, kubernetes_object
from vsphere_ai.kubernetes.pod_networks import HeldBlock, Names, PodNetwork, Pods
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.networks import without

API = f"{GROUP}/{VERSION}"
PVRDMA_RESOURCE = "rdma/pvrdma"
"""What the RDMA shared device plugin offers for PVRDMA, as the export for the Network Operator configures it."""


@dataclass(frozen=True)
class SpiderpoolOptions:
    """How networks are made; `namespace` is theirs. With `subnets` each pool is also a ``SpiderSubnet``."""

    cni: Literal["macvlan", "ipvlan"] = "macvlan"
    namespace: str = "spiderpool"
    subnets: bool = False


def spiderpool_findings(pods: Pods, options: SpiderpoolOptions) -> Iterator[Finding]:
    """Yield the problems of networks of Spiderpool on these VMs, and what to know about them."""
    for network in pods.networks:
        if _cni(network, options) == "macvlan":
            yield from mac_findings(network, "use --cni ipvlan, or ")
        yield from rdma_findings(network)
        if options.subnets and not all(share.is_flat for share in network.shares):
            message = "each of these VMs is in a subnet of its own, and pools of a SpiderSubnet are bound to no node"
            yield Finding(network.subject, "export.subnets", "fail", message, "leave out --subnets")


def spiderpool_objects(pods: Pods, options: SpiderpoolOptions) -> Iterator[WrittenObject]:
    """Yield the objects: subnets if asked for, a pool per VM and network, the networks, the coordinator."""
    names = Names()
    held = [(network, share) for network in pods.networks for share in network.shares]
    made = [(network, share, names.of(f"{share.pool}-{share.node}")) for network, share in held]
    if options.subnets:
        yield from _subnets(pods, [share for _, share, _ in made])
    for network, share, name in made:
        spec = _addresses(pods.pools[share.pool], [share], share.is_flat)
        spec |= {"nodeName": [share.node], "multusName": [f"{options.namespace}/{network.name}"]}
        origin = "reported by VMware Tools" if share.is_reported else "of guestinfo.metadata"
        said = f"{share.vm} holds {share.block} of the pool {share.pool}; its own address {share.own.ip} ({origin}) and"
        yield WrittenObject(kubernetes_object(API, "SpiderIPPool", name, spec), (f"{said} gateways are left out.",))
    for network in pods.networks:
        chosen = [(share, name) for other, share, name in made if other is network]
        yield _network(network, chosen, options)
    coordinator: Object = {"mode": "auto", "podCIDRType": "auto", "tunePodRoutes": True, "hostRuleTable": 500}
    said = "Rules for pods are in the node's routing table 500, beside those of its NICs (101 and up)."
    yield WrittenObject(kubernetes_object(API, "SpiderCoordinator", "default", coordinator), (said,))


def _network(network: PodNetwork, chosen: Sequence[tuple[HeldBlock, str]], options: SpiderpoolOptions) -> WrittenObject:
    cni, nic = _cni(network, options), network.nic
    resource = PVRDMA_RESOURCE if nic.type == "pvrdma" else f"rdma/{network.name}"
    rdma = nic.type == "pvrdma" or (nic.type == "sriov" and nic.rdma)
    block: Object = {
        "master": [nic.interface],
        **({"mtu": network.mtu} if network.mtu else {}),
        **({"rdmaResourceName": resource} if rdma else {}),
        "ippools": {
            family: [name for share, name in chosen if share.block.version == version]
            for family, version in (("ipv4", 4), ("ipv6", 6))
            if any(share.block.version == version for share, _ in chosen)
        },
    }
    comments = [f"{network.label}, interface by {nic.source}, MTU {network.mtu or 'of the node'}."]
    if rdma:
        select = "vendors 15ad, deviceIDs 0820" if nic.type == "pvrdma" else f"ifNames {nic.interface}"
        comments.append(f"Resource {resource}: of the RDMA shared device plugin, with the selectors {select}.")
    spec: Object = {"cniType": cni, cni: block}
    return WrittenObject(
        kubernetes_object(API, "SpiderMultusConfig", network.name, spec, options.namespace), tuple(comments)
    )


def _cni(network: PodNetwork, options: SpiderpoolOptions) -> Literal["macvlan", "ipvlan"]:
    """Return how pods share a NIC; a virtual function takes no frames for MAC addresses that are not its own."""
    return "ipvlan" if network.nic.type == "sriov" else options.cni


def _subnets(pods: Pods, shares: Sequence[HeldBlock]) -> Iterator[WrittenObject]:
    names = Names()
    for pool in dict.fromkeys(share.pool for share in shares):
        own = [share for share in shares if share.pool == pool]
        spec = _addresses(pods.pools[pool], own, flat=True)
        said = f"The pool {pool}: what these VMs hold of it. Pools that Spiderpool cuts of it are bound to no node."
        yield WrittenObject(kubernetes_object(API, "SpiderSubnet", names.of(pool), spec), (said,))


def _addresses(pool: AddressPool, shares: Sequence[HeldBlock], flat: bool) -> Object:
    """Return subnet, addresses, gateway and routes; a VM in a subnet of its own has the gateways of that one."""
    subnet = pool.network if flat else shares[0].prefix
    gateway = pool.gateway if flat else str(shares[0].gateway or "")
    pairs = [(route.to, (route.via or gateway) if flat else gateway) for route in pool.routes]
    routes: list[JsonValue] = [{"dst": to, "gw": gw} for to, gw in pairs if gw and (":" in to) == (pool.version == 6)]
    ranges = [each for share in shares for each in share.free]
    return {
        "ipVersion": pool.version,
        "subnet": str(subnet),
        "ips": [str(each) for each in without(ranges, [])],
        **({"gateway": gateway} if gateway else {}),
        **({"routes": routes} if routes else {}),
    }
