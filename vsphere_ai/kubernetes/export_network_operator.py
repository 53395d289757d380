"""Objects of the NVIDIA Network Operator for pods on VMs: a policy, pools of nv-ipam, and networks.

Source: github.com/Mellanox/network-operator at b06827e0, example/crs; github.com/Mellanox/nvidia-k8s-ipam at 3ce4a34;
pkg/utils of github.com/k8snetworkplumbingwg/sriov-network-device-plugin (a device without a physical function, as in a
VM, is selected by its own name as `pfNames`); pkg/resources of github.com/Mellanox/k8s-rdma-shared-dev-plugin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.kubernetes.findings import mac_findings, rdma_findings
from vsphere_ai.kubernetes.kinds import network_operator as fields
from vsphere_ai.kubernetes.kinds import nv_ipam, sriov_operator
from vsphere_ai.kubernetes.manifest import Object, WrittenObject, kubernetes_object
from vsphere_ai.kubernetes.network_operator_rules import PREFIX
from vsphere_ai.kubernetes.pod_networks import HeldBlock, Names, PodNetwork, Pods, of_vm
from vsphere_ai.kubernetes.vm_nodes import NicModel
from vsphere_ai.model.dated_table import dated_table
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.names.networks import AddressRange, range_of, without

OPERATOR, POOLS, SRIOV = (f"{each.GROUP}/{each.VERSION}" for each in (fields, nv_ipam, sriov_operator))
NAMESPACE = "nvidia-network-operator"
REPOSITORY = "nvcr.io/nvidia/mellanox"
_RELEASES = dated_table("kubernetes/operators.yaml")
_TAG = "network-operator-v"
RELEASE, RELEASE_READ = f"{_TAG}{_RELEASES.values['network_operator']}", _RELEASES.read.isoformat()
"""The newest release, and the day on which NVIDIA's list of images was read (Network Operator, platform support).

NVIDIA supports the newest release, and corrects vulnerabilities in the one before. The fields that are written are
those of 26.1 to 26.10.
"""
_PATCHES = {patch.rpartition(".")[0]: patch for patch in _RELEASES.values["network_operator_patches"]}
OLDEST = str(_RELEASES.values["network_operator_oldest"])
"""The oldest release in which vulnerabilities are corrected; nothing is known of one that is newer than the table."""
_VERSION = re.compile(rf"(?:{_TAG}|v)?((\d{{2,3}}\.\d{{1,2}})(\.\d{{1,3}}\S{{0,40}})?)", re.ASCII)
MOST_PODS = 63
"""Pods that share an RDMA device, as in the operator's examples (``rdmaHcaMax``)."""


@dataclass(frozen=True)
class NetworkOperatorOptions:
    """`release` is the tag of the operator's images, or a release such as 26.7.1 (empty: `RELEASE`).

    `namespace` is that of the pods' networks.

    `functions`: virtual functions to make of each NIC that a VM has as a whole.
    """

    release: str = ""
    namespace: str = "default"
    functions: int = 8


def network_operator_findings(pods: Pods, options: NetworkOperatorOptions) -> Iterator[Finding]:
    """Yield the problems of these objects on these VMs, and what to know about them."""
    yield from _release_findings(options.release)
    for network in pods.networks:
        if network.nic.type != "sriov":
            yield from mac_findings(network)
        yield from rdma_findings(network)
        for version in (4, 6):
            if len(found := network.pools(version)) > 1:
                message = f"the VMs hold blocks of several pools for IPv{version}: {', '.join(found)}"
                help = "a network of nv-ipam has one pool per family: write the VMs of each pool by themselves"
                yield Finding(network.subject, "export.two-pools", "fail", message, help)
    for pool, shares in _by_pool(pods).items():
        yield from _pool_findings(pool, shares)
    virtual = [nic for nic in pods.passed if nic.is_virtual]
    for nic in virtual:
        message = "no pool is known for a NIC by DirectPath I/O: vCenter shows neither its MAC address nor its network"
        yield Finding(
            Subject("device", f"{nic.vendor}:{nic.device}"),
            "export.no-addresses",
            "warn",
            message,
            "add 'ipam' by hand",
        )
    if len(virtual) < len(pods.passed) and (virtual or any(n.nic.type == "sriov" for n in pods.networks)):
        message = "the SR-IOV operator, for whole NICs, and the SR-IOV device plugin, for functions, exclude each other"
        vms = ", ".join(node.vm.name for node in pods.nodes)
        yield Finding(of_vm(vms), "export.mixed", "fail", message, "write VMs with whole NICs by themselves")


def tag_of(release: str) -> str:
    """Return the tag of the images of a release such as ``26.7.1`` or ``26.7``; any other text is a tag itself."""
    version = _VERSION.fullmatch(release)
    if not release or version is None:
        return release or RELEASE
    patch = version[1] if version[3] else _PATCHES.get(version[2])
    return f"{_TAG}{patch}" if patch else release


def _release_findings(release: str) -> Iterator[Finding]:
    version = _VERSION.fullmatch(release)
    if version is not None and _order(version[2]) < _order(OLDEST):
        message = f"NVIDIA corrected nothing in the release {version[2]} on {RELEASE_READ}: {OLDEST} was the oldest one"
        help = "update the operator, one release after the other"
        yield Finding(Subject("release", tag_of(release)), "export.old-release", "warn", message, help)


def _order(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def network_operator_objects(pods: Pods, options: NetworkOperatorOptions) -> Iterator[WrittenObject]:
    """Yield the objects: the cluster's policy, a pool per pool of the inventory, networks, policies of whole NICs."""
    resources = {n.name: n.name.replace("-", "_") for n in pods.networks if n.nic.type == "sriov"}
    yield _policy(pods, resources, options)
    names = Names()
    pools = {pool: names.of(pool) for pool in _by_pool(pods)}
    for pool, shares in _by_pool(pods).items():
        yield _pool(pools[pool], pool, pods.pools[pool], shares)
    for network in pods.networks:
        yield _network(network, pools, resources.get(network.name, ""), options)
    for nic in pods.passed:
        yield from _passed(nic, options)


def _passed(nic: NicModel, options: NetworkOperatorOptions) -> Iterator[WrittenObject]:
    """Yield the network of virtual functions, or policy and network of whole NICs, that VMs have by DirectPath I/O."""
    ids = f"{nic.vendor}:{nic.device}"
    if nic.is_virtual:
        spec: Object = {"networkNamespace": options.namespace, "resourceName": f"vf_{nic.device}"}
        comment = f"Virtual functions {ids} by DirectPath I/O."
        yield WrittenObject(kubernetes_object(OPERATOR, "HostDeviceNetwork", f"vf-{nic.device}", spec), (comment,))
        return
    spec = {
        "resourceName": f"pf_{nic.device}",
        "nodeSelector": {f"feature.node.kubernetes.io/pci-{nic.vendor}.present": "true"},
        "numVfs": options.functions,
        "nicSelector": {"vendor": nic.vendor, "deviceID": nic.device},
        "deviceType": "netdevice",
        "isRdma": True,
    }
    comment = f"NIC {ids}, a whole device by DirectPath I/O; its virtual functions are made in the guest."
    more = "Nodes are those with its label of Node Feature Discovery."
    name = f"pf-{nic.device}"
    yield WrittenObject(kubernetes_object(SRIOV, "SriovNetworkNodePolicy", name, spec, NAMESPACE), (comment, more))
    network: Object = {"resourceName": f"pf_{nic.device}", "networkNamespace": options.namespace}
    comment = f"Network of pods with such a function; vCenter shows no address of {ids}: add 'ipam'."
    yield WrittenObject(kubernetes_object(SRIOV, "SriovNetwork", name, network, NAMESPACE), (comment,))


def _by_pool(pods: Pods) -> dict[str, tuple[HeldBlock, ...]]:
    return grouped([share for network in pods.networks for share in network.shares], lambda share: share.pool)


def _pool_findings(pool: str, shares: Sequence[HeldBlock]) -> Iterator[Finding]:
    for vm, own in grouped(shares, lambda share: share.vm).items():
        if len(own) > 1:
            message = f"two of its adapters hold blocks of the pool {pool}, and a CIDRPool has one prefix per node"
            yield Finding(of_vm(vm), "export.two-blocks", "fail", message, "give each rail a pool of its own")
    if any(share.is_flat for share in shares) and not all(share.gateway for share in shares):
        message = (
            f"pods get the prefix /{shares[0].prefix.prefixlen} of their block of the pool {pool}, though the VMs "
            "reach all of it directly; without a gateway in each block they reach no pods of other nodes"
        )
        yield Finding(
            Subject("pool", pool),
            "export.flat-subnet",
            "warn",
            message,
            "set 'node_gateway' in the pool, or use Spiderpool",
        )


def _policy(pods: Pods, resources: dict[str, str], options: NetworkOperatorOptions) -> WrittenObject:
    release = tag_of(options.release)

    def image(name: str, key: str = "", entries: Sequence[Object] = ()) -> Object:
        text: Object = {"config": _config(key, entries)} if key else {}
        return {"image": name, "repository": REPOSITORY, "version": release, **text}

    spec: Object = {}
    if any(network.nic.type == "pvrdma" for network in pods.networks):
        shared: Object = {"resourceName": "pvrdma", "rdmaHcaMax": MOST_PODS,
                          "selectors": {"vendors": ["15ad"], "deviceIDs": ["0820"]}}  # fmt: skip
        spec["rdmaSharedDevicePlugin"] = image("k8s-rdma-shared-dev-plugin", "configList", [shared])
    listed: list[Object] = []
    for network in pods.networks:
        if network.name in resources:
            listed.append(_device(resources[network.name], {"pfNames": [network.nic.interface]}, network.nic.rdma))
    for nic in pods.passed:
        if nic.is_virtual:
            listed.append(_device(f"vf_{nic.device}", {"vendors": [nic.vendor], "devices": [nic.device]}, True))
    if listed:
        spec["sriovDevicePlugin"] = image("sriov-network-device-plugin", "resourceList", listed)
    spec["secondaryNetwork"] = {"cniPlugins": image("plugins"), "multus": image("multus-cni")}
    if pods.networks:
        spec["nvIpam"] = image("nvidia-k8s-ipam")
    newest = "" if options.release else f", the newest on {RELEASE_READ}"
    said = f"Images of the release {release}{newest}: give that of your operator with --release."
    drivers = "The guests' own drivers are used: there is no ofedDriver. RDMA devices are in the shared namespace mode."
    return WrittenObject(kubernetes_object(OPERATOR, "NicClusterPolicy", fields.POLICY_NAME, spec), (said, drivers))


def _config(key: str, entries: Sequence[Object]) -> str:
    """Return the configuration of a device plugin, a JSON text: an entry per line."""
    return f'{{"{key}": [\n' + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n]}\n"


def _device(resource: str, selectors: Object, rdma: bool) -> Object:
    return {
        "resourceName": resource,
        "resourcePrefix": PREFIX,
        "selectors": {**selectors, **({"isRdma": True} if rdma else {})},
    }


def _pool(name: str, pool_name: str, pool: AddressPool, shares: Sequence[HeldBlock]) -> WrittenObject:
    nodes: list[JsonValue] = [share.node for share in shares]
    match: Object = {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
    # routes need a gatewayIndex, which the gateway of each allocation then overrides (nv-ipam, cidrpool_validate.go)
    indexes = [int(share.gateway) - int(share.prefix.network_address) for share in shares if share.gateway is not None]
    routed = len(indexes) == len(shares) and min(indexes, default=0) > 0
    routes: list[JsonValue] = [
        {"dst": route.to} for route in pool.routes if routed and (":" in route.to) == (pool.version == 6)
    ]
    exclusions: list[JsonValue] = []
    for share in shares:
        for each in without([_given(share)], list(share.free)):
            first, _, last = str(each).partition("-")
            exclusions.append({"startIP": first, "endIP": last or first})
    allocations: list[JsonValue] = []
    for share in shares:
        gateway: Object = {"gateway": str(share.gateway)} if share.gateway else {}
        allocations.append({"nodeName": share.node, "prefix": str(share.prefix), **gateway})
    spec: Object = {
        "cidr": pool.subnet,
        "perNodeNetworkPrefix": pool.per_node,
        "staticAllocations": allocations,
        **({"exclusions": exclusions} if exclusions else {}),
        **({"gatewayIndex": min(indexes), "routes": routes} if routes else {}),
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [match]}]},
    }
    reported = sum(share.is_reported for share in shares)
    said = (
        f"The pool {pool_name}: each VM has the block that it holds; own addresses of VMs (reported by {reported} of "
        f"{len(shares)} guests, else of guestinfo.metadata) and gateways are excluded. No other node gets a block."
    )
    return WrittenObject(kubernetes_object(POOLS, "CIDRPool", name, spec, NAMESPACE), (said,))


def _given(share: HeldBlock) -> AddressRange:
    """Return what nv-ipam gives to pods of a prefix: all of it but, where there are more than two, its ends in IPv4.

    It leaves out the first address in IPv6, too.
    """
    whole = range_of(share.prefix)
    if whole.size <= 2:
        return whole
    return AddressRange(whole.version, whole.first + 1, whole.last - int(whole.version == 4))


def _network(
    network: PodNetwork, pools: dict[str, str], resource: str, options: NetworkOperatorOptions
) -> WrittenObject:
    nic = network.nic
    chosen = ",".join(pools[pool] for version in (4, 6) for pool in network.pools(version))
    ipam = json.dumps({"type": "nv-ipam", "poolName": chosen, "poolType": "cidrpool"})
    comments = [f"{network.label}, interface by {nic.source}."]
    if resource:
        comments.append(f"A pod takes the whole adapter: it asks for {PREFIX}/{resource}.")
        device: Object = {"networkNamespace": options.namespace, "resourceName": resource, "ipam": ipam}
        return WrittenObject(kubernetes_object(OPERATOR, "HostDeviceNetwork", network.name, device), tuple(comments))
    if nic.type == "pvrdma":
        comments.append("For RDMA a pod asks for rdma/pvrdma.")
    spec: Object = {
        "networkNamespace": options.namespace,
        "master": nic.interface,
        "mode": "bridge",
        **({"mtu": network.mtu} if network.mtu else {}),
        "ipam": ipam,
    }
    return WrittenObject(kubernetes_object(OPERATOR, "MacvlanNetwork", network.name, spec), tuple(comments))
