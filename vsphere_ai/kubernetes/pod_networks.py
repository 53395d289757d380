"""Networks of pods on VMs: adapters on one port group with one interface name, and the blocks of pools that they hold.

A VM that holds a block of a pool with `per_node` has one address of it itself; the others are for pods on this VM.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_network

from vsphere_ai.addresses.pool import AddressPool, Affinity, AffinityPlace
from vsphere_ai.kubernetes.guest_network import Interface
from vsphere_ai.kubernetes.vm_nodes import MOST_NAME, NicModel, NodeNic, VmNode
from vsphere_ai.model.facts import grouped
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.names.networks import Address, AddressRange, Network, address, address_range, without

Pools = Mapping[str, AddressPool]


@dataclass(frozen=True)
class HeldBlock:
    """The block of a pool that a VM holds: its own address in it, and what is free for pods."""

    node: str
    vm: str
    pool: str
    block: AddressRange
    own: Interface
    is_reported: bool
    free: tuple[AddressRange, ...] = ()
    gateway: Address | None = None
    """An address of the block itself that is a gateway."""

    @property
    def prefix(self) -> Network:
        """The block in CIDR notation."""
        first, _, _ = str(self.block).partition("-")
        return ip_network(f"{first}/{self.own.max_prefixlen - (self.block.size - 1).bit_length()}")

    @property
    def is_flat(self) -> bool:
        """Return whether the VM reaches the other blocks directly: its own prefix is larger than its block."""
        return self.own.network.prefixlen != self.prefix.prefixlen


@dataclass(frozen=True)
class PodNetwork:
    """A network of pods. `name` is fit for an object of Kubernetes; `nodes` are all VMs with such an adapter."""

    name: str
    nic: NodeNic
    nodes: tuple[str, ...]
    mtu: int | None
    shares: tuple[HeldBlock, ...]

    @property
    def label(self) -> str:
        """What an operator knows it by."""
        return f"{self.nic.interface}: {self.nic.type} on {self.nic.port_group}"

    @property
    def subject(self) -> Subject:
        """What a finding about it is about."""
        return Subject("network", self.label)

    def pools(self, version: int) -> tuple[str, ...]:
        """Return the names of the pools of one family, in their order."""
        return tuple(dict.fromkeys(s.pool for s in self.shares if s.block.version == version))


@dataclass(frozen=True)
class Pods:
    """What pods on some VMs can have. `left_out` says for each other adapter why it is not for pods."""

    nodes: tuple[VmNode, ...]
    networks: tuple[PodNetwork, ...]
    pools: Pools
    findings: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def passed(self) -> tuple[NicModel, ...]:
        """Every model of NIC that is passed through to some VM."""
        return tuple(sorted({nic for node in self.nodes for nic in node.passed}))


@dataclass
class Names:
    """Names of objects: of small letters, digits and hyphens, each given once."""

    given: set[str] = field(default_factory=set)

    def of(self, text: str) -> str:
        """Return a name that is like a text."""
        plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50].strip("-") or "net"
        name, number = plain, 1
        while name in self.given:
            number += 1
            name = f"{plain}-{number}"
        self.given.add(name)
        return name


def pods_on(nodes: Sequence[VmNode], pools: Pools, reserved: Sequence[AddressRange]) -> Pods:
    """Return the networks of pods on VMs, out of those pools in which the VMs hold blocks."""
    findings = list(_unknown(nodes))
    others: dict[str, list[str]] = {}
    held: list[tuple[VmNode, NodeNic, str, Interface]] = []
    for node in nodes:
        for nic in node.nics:
            found = list(_held(nic, pools))
            if isinstance(reason := _reason(nic, pools, found), str):
                others.setdefault(f"{nic.label} on {nic.port_group}: {reason}", []).append(node.vm.name)
            findings += _refused(node, nic) if found else ()
            held += ((node, nic, pool, own) for pool, own in found)
    left_out = tuple(f"{_few(vms)}: {why}" for why, vms in others.items())
    taken = [address_range(str(own.ip)) for node in nodes for nic in node.nics for own in nic.addresses]
    taken += reserved
    given = ((nic, _share(node, nic, pool, pools[pool], own)) for node, nic, pool, own in held)
    shares = [(nic, _with_free(share, pools[share.pool], taken)) for nic, share in given]
    findings += _conflicts([share for _, share in shares], pools)
    if not held and not any(node.passed for node in nodes):
        message = f"no adapter of these VMs is for pods: {'; '.join(left_out) or 'they have none'}"
        help = "give a pool of the inventory 'per_node', and each VM an address of its own block"
        findings.append(Finding(None, "export.nothing", "fail", message, help))
    networks = tuple(_networks(shares))
    return Pods(tuple(nodes), networks, pools, tuple(findings), left_out)


def of_vm(name: str) -> Subject:
    """Return what a finding about a VM, or about several by their names, is about."""
    return Subject("vm", name)


def _few(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many there are more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _networks(shares: Sequence[tuple[NodeNic, HeldBlock]]) -> Iterator[PodNetwork]:
    """Yield a network for adapters of one type, with one interface name, on one port group."""
    names = Names()
    alike = grouped(shares, lambda each: (each[0].interface, each[0].type, each[0].port_group))
    for own in alike.values():
        nics = [nic for nic, _ in own]
        mtus = [nic.mtu for nic in nics if nic.mtu]
        nodes = tuple(dict.fromkeys(share.node for _, share in own))
        # the same name may be that of several port groups: what one of them lacks, pods cannot rely on
        allowed = False if any(nic.macs_allowed is False for nic in nics) else nics[0].macs_allowed
        unknown = allowed and any(nic.macs_allowed is None for nic in nics)
        nic = replace(nics[0], macs_allowed=None if unknown else allowed, rdma=all(nic.rdma for nic in nics))
        yield PodNetwork(names.of(nic.interface), nic, nodes, min(mtus, default=None), tuple(s for _, s in own))


def _held(nic: NodeNic, pools: Pools) -> Iterator[tuple[str, Interface]]:
    """Yield the pool with blocks that each address of an adapter is in, one per family.

    Pools of several domains may have the same subnet: then the one for the port group, or that is named like it or the
    interface.
    """
    seen: set[int] = set()
    for own in nic.addresses:
        found = {name: rank for name, pool in pools.items() if (rank := _rank(nic, own, name, pool)) is not None}
        if found and own.version not in seen:
            seen.add(own.version)
            yield max(found, key=lambda name: found[name]), own


def _rank(nic: NodeNic, own: Interface, name: str, pool: AddressPool) -> tuple[bool, bool] | None:
    """Return how surely an address is of a pool; None where it cannot be."""
    named = Affinity(portgroups=pool.affinity.portgroups).matches(
        AffinityPlace(portgroups=nic.names or (nic.port_group,))
    )
    if pool.per_node is None or own.ip not in pool.network or named is None:
        return None
    return any(named), name in (nic.interface, nic.port_group, *nic.names)


def _reason(nic: NodeNic, pools: Pools, found: Collection[object]) -> str | None:
    """Say why an adapter is not for pods; None where it is."""
    if found:
        return None
    if not nic.addresses:
        return "its address is not known"
    own = nic.addresses[0].ip
    within = [name for name, pool in pools.items() if own in pool.network]
    return f"the pool {within[0]} has no per_node, its addresses are for VMs" if within else f"no pool has {own}"


def _refused(node: VmNode, nic: NodeNic) -> Iterator[Finding]:
    adapter = Subject("adapter", f"{node.vm.name}: {nic.label} on {nic.port_group}")
    if not nic.interface:
        message = "the name of its interface in the guest is not known: no network file in guestinfo.metadata names it"
        yield Finding(adapter, "export.interface", "fail", message, f"add --interface '{nic.port_group}=NAME'")
    if nic.mtu and nic.switch_mtu and nic.mtu > nic.switch_mtu:
        message = f"the guest's MTU is {nic.mtu}, and the switch passes {nic.switch_mtu}"
        yield Finding(
            adapter,
            "export.mtu",
            "fail",
            message,
            "raise the MTU of the switch, or lower that of the guest",
        )


def _unknown(nodes: Sequence[VmNode]) -> Iterator[Finding]:
    for node in nodes:
        if node.unreadable:
            message = f"its devices cannot be read: {node.unreadable}"
            yield Finding(of_vm(node.vm.name), "export.unreadable", "fail", message, "grant System.Read on the VM")
        if not node.name:
            message = f"no name of it can be that of a node: at most {MOST_NAME} small letters, digits, '-' and '.'"
            yield Finding(of_vm(node.vm.name), "export.node-name", "fail", message, "set the host name of the guest")
    for name, alike in grouped([n for n in nodes if n.name], lambda n: n.name).items():
        if len(alike) > 1:
            vms = ", ".join(node.vm.name for node in alike)
            help = "give each guest a host name of its own"
            yield Finding(of_vm(vms), "export.node-name", "fail", f"the name of their node is '{name}'", help)


def _share(node: VmNode, nic: NodeNic, name: str, pool: AddressPool, own: Interface) -> HeldBlock:
    base, at = int(pool.network.network_address), int(own.ip)
    first = at - (at - base) % pool.block
    block = AddressRange(pool.version, first, first + pool.block - 1)
    gateways = (*nic.gateways, *map(address, filter(None, [pool.gateway_of(block)])), *_vias(pool))
    gateway = next((via for via in gateways if via in block and via != own.ip), None)
    return HeldBlock(node.name, node.vm.name, name, block, own, nic.is_reported, gateway=gateway)


def _with_free(share: HeldBlock, pool: AddressPool, taken: Sequence[AddressRange]) -> HeldBlock:
    """Return a share with what is free for pods: no address of a VM, no gateway, and nothing that is excluded."""
    gateways = {str(via) for via in (*_vias(pool), share.gateway) if via}
    gone = [*taken, *map(address_range, (*pool.exclude, *gateways))]
    return replace(share, free=tuple(without(pool.inner(share.block), gone)))


def _vias(pool: AddressPool) -> list[Address]:
    return [address(text) for text in (pool.gateway, *(route.via for route in pool.routes)) if text]


def _conflicts(shares: Sequence[HeldBlock], pools: Pools) -> Iterator[Finding]:
    for (name, block), alike in grouped(shares, lambda s: (s.pool, s.block)).items():
        if len(alike) > 1:
            vms = ", ".join(f"{share.vm} ({share.own.ip})" for share in alike)
            message = f"they have addresses of one block of the pool {name}: {block}"
            yield Finding(
                of_vm(vms), "export.block-shared", "fail", message, "give each VM an address of its own block"
            )
        for share in alike:
            if not share.free:
                message = f"its block {block} of the pool {name} has no address for pods"
                help = f"choose a smaller 'per_node' than {pools[name].per_node}"
                yield Finding(of_vm(share.vm), "export.no-room", "fail", message, help)
    for name, alike in grouped(shares, lambda s: s.pool).items():
        if len({share.is_flat for share in alike}) > 1:
            message = f"some of their addresses have the prefix of their block of the pool {name}, others a larger one"
            vms = ", ".join(f"{share.vm} ({share.own})" for share in alike)
            yield Finding(of_vm(vms), "export.prefix", "fail", message, "give all VMs addresses with one prefix length")
