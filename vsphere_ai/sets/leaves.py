"""Leaf switches of the rails of a set: which leaf each host has for each of its RDMA networks, by the inventory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vsphere_ai.fabric import dvs, networks
from vsphere_ai.language.inventories.inventory import Inventory
from vsphere_ai.language.inventories.inventory_leaves import Leaf
from vsphere_ai.language.inventories.selection import hosts_named
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.vm_sets import MemberPlace
from vsphere_ai.resources.makes_vms import WantedNic, WantedSet

RDMA_TYPES = ("pvrdma", "sriov")


@dataclass(frozen=True)
class Rails:
    """Rails of a set in words, and the leaf of each host for each of them, by the host's name; empty: not named.

    A host that has a rail on several leaves has them all in one text, ``leaf-1+leaf-2``.
    """

    names: tuple[str, ...] = ()
    leaves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    must: bool = False


@dataclass(frozen=True)
class Leaves:
    """Leaf switches of an inventory, and the references of the hosts that each of them connects."""

    known: Mapping[str, Leaf] = field(default_factory=dict)
    hosts: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def rails(self, wanted: WantedSet, place: MemberPlace, hosts: Sequence[Facts], estate: Estate) -> Rails:
        """Return the leaves of the hosts that the VMs of a set may be on; rails without any leaf are left out."""
        found: dict[str, tuple[str, ...]] = {}
        for nic in _rails(wanted):
            switch = _switch(nic, place, estate)
            own = tuple(self._of(nic, switch, host) for host in hosts)
            if any(own):
                found[f"rail {nic.rail}" if nic.rail is not None else nic.name] = own
        leaves = {h.name: tuple(own[at] for own in found.values()) for at, h in enumerate(hosts)}
        return Rails(tuple(found), leaves, wanted.placement.one_leaf == "must")

    def _of(self, nic: WantedNic, switch: Facts | None, host: Facts) -> str:
        own = (name for name, leaf in self.known.items() if host.ref in self.hosts.get(name, ()))
        return "+".join(sorted(name for name in own if _carries(self.known[name], nic, switch, host)))


def leaves_of(inventory: Inventory, estate: Estate) -> Leaves:
    """Return the leaves of an inventory with those of their hosts that are in an estate."""
    hosts = {
        n: frozenset(t.ref for t in hosts_named(leaf.hosts, inventory, estate)) for n, leaf in inventory.leaves.items()
    }
    return Leaves(inventory.leaves, hosts)


def _rails(wanted: WantedSet) -> Sequence[WantedNic]:
    """Return the NICs with a rail; where none has one, those that are for RDMA."""
    numbered = {n.rail: n for n in reversed(wanted.nics) if n.rail is not None}
    return [numbered[r] for r in sorted(numbered)] or [
        n for n in wanted.nics if n.role == "rdma" or n.type in RDMA_TYPES
    ]


def _switch(nic: WantedNic, place: MemberPlace, estate: Estate) -> Facts | None:
    return dvs.switch_of(estate, networks.for_place(estate, place, nic.port_group).network)


def _carries(leaf: Leaf, nic: WantedNic, switch: Facts | None, host: Facts) -> bool:
    """Return whether a leaf of a host has the rail of a NIC: by its number, distributed switch and physical NIC."""
    proxy = dvs.proxies(host).get(str(switch.get("uuid"))) if switch is not None and leaf.vmnics else None
    vmnics = {str(key).rpartition("-")[2] for key in (proxy or {}).get("pnic", ())}
    return (
        (not leaf.rails or nic.rail in leaf.rails)
        and (not leaf.switches or (switch is not None and switch.name in leaf.switches))
        and (not leaf.vmnics or bool(vmnics & set(leaf.vmnics)))
    )
