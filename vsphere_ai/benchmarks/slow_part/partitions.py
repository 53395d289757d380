"""Partitions of a set of VMs into groups of about √N: within hosts and switches, and across them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isqrt

from vsphere_ai.model.nodes import Node

Group = tuple[str, ...]


@dataclass(frozen=True)
class FabricPlace:
    """Where a VM is: its ESXi host, and the physical switches of its rails; empty where that is not known."""

    host: str
    switch: str


def switch_of(switch_port: str) -> str:
    """Return the switch of a port, which is named ``SWITCH PORT``; empty where no port is known."""
    return switch_port.split(maxsplit=1)[0] if switch_port.strip() else ""


def places(nodes: Sequence[Node]) -> dict[str, FabricPlace]:
    """Return the place of each VM; one with rails on several switches is on all of them."""
    found = {}
    for node in nodes:
        switches = dict.fromkeys(switch_of(rail.switch_port) for rail in node.rails)
        found[node.vm] = FabricPlace(node.host, "+".join(s for s in switches if s))
    return found


def by_host(where: Mapping[str, FabricPlace]) -> tuple[Group, ...]:
    """Return groups of about √N VMs that share hosts, and switches where those are known."""
    size = max(2, isqrt(max(1, len(where) - 1)) + 1)
    switches: dict[str, list[str]] = {}
    for vm in sorted(where, key=lambda v: (where[v].switch, where[v].host, v)):
        switches.setdefault(where[vm].switch, []).append(vm)
    groups: list[Group] = []
    for vms in switches.values():
        count = -(-len(vms) // size)
        groups += [tuple(vms[len(vms) * at // count : len(vms) * (at + 1) // count]) for at in range(count)]
    return _without_singles(groups)


def across(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return groups that have at most one VM of each given group, as far as groups of two and more allow."""
    width = max(map(len, groups))
    dealt = [tuple(group[at] for group in groups if at < len(group)) for at in range(width)]
    return _without_singles(dealt)


def by_rail(vms: Sequence[str], rails: Sequence[int]) -> dict[int, Group]:
    """Return a group for each rail; fewer rails than given where there are not two VMs for each."""
    count = min(len(rails), len(vms) // 2)
    return {rails[at]: tuple(vms[at::count]) for at in range(count)}


def _without_singles(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return groups of at least two: a VM alone joins the smallest other group."""
    kept = [g for g in groups if len(g) > 1]
    for vm in (vm for g in groups if len(g) == 1 for vm in g):
        if kept and not (len(kept) == 1 and len(kept[0]) == 1):
            at = min(range(len(kept)), key=lambda i: len(kept[i]))
            kept[at] = (*kept[at], vm)
        else:
            kept.append((vm,))
    return tuple(kept)
