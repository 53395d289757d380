"""Groups of VMs that are alike to the rules about hosts: of which the same is wanted, and that can run on the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View

Kinds = frozenset[str]


class KindsOfVms(NamedTuple):
    """The kinds that are wanted of some VMs, and the hosts these can run on."""

    kinds: Kinds
    hosts: tuple[Target, ...]


def vm_groups(view: View, wanted: Mapping[Target, Kinds]) -> tuple[KindsOfVms, ...]:
    """Return the groups of the VMs; on all hosts of its cluster is one that could run on none."""
    found: dict[tuple[Kinds, int], KindsOfVms] = {}
    for vm in (t for t in wanted if t.kind == "vm"):
        hosts = view.candidates(vm.ref) or view.estate.hosts_for(vm.ref)
        found.setdefault((wanted[vm], id(hosts)), KindsOfVms(wanted[vm], hosts))
    return tuple(found.values())


def asked_hosts(groups: Iterable[KindsOfVms], wanted: Mapping[Target, Kinds]) -> dict[Target, Kinds]:
    """Return the kinds that each host has to carry: those that are wanted of it, and of VMs that can run there."""
    asked = dict(wanted)
    for group in groups:
        for host in group.hosts:
            asked[host] = asked.get(host, frozenset()) | group.kinds
    return asked


def kept_hosts(groups: Iterable[KindsOfVms], refuses: Callable[[Target, Kinds], bool]) -> frozenset[Target]:
    """Return the hosts whose failures stand, because some VM has no other host without a failure."""
    kept: set[Target] = set()
    for group in groups:
        if all(refuses(host, group.kinds) for host in group.hosts):
            kept.update(group.hosts)
    return frozenset(kept)
