"""Groups of VMs that are alike to the rules about hosts: of which the same is wanted, and that can run on the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.resources.topics import Topic


class TopicsOfVms(NamedTuple):
    """The topics that what is wanted of some VMs touches, and the hosts these can run on."""

    topics: Topic
    hosts: tuple[Target, ...]


def vm_groups(view: View, wanted: Mapping[Target, Topic]) -> tuple[TopicsOfVms, ...]:
    """Return the groups of the VMs; on all hosts of its cluster is one that could run on none."""
    found: dict[tuple[Topic, int], TopicsOfVms] = {}
    for vm in (t for t in wanted if t.kind == "vm"):
        hosts = view.candidates(vm.ref) or view.estate.hosts_for(vm.ref)
        found.setdefault((wanted[vm], id(hosts)), TopicsOfVms(wanted[vm], hosts))
    return tuple(found.values())


def asked_hosts(groups: Iterable[TopicsOfVms], wanted: Mapping[Target, Topic]) -> dict[Target, Topic]:
    """Return the topics of what each host has to carry: what is wanted of it, and of VMs that can run there."""
    asked = dict(wanted)
    for group in groups:
        for host in group.hosts:
            asked[host] = asked.get(host, Topic.NONE) | group.topics
    return asked


def kept_hosts(groups: Iterable[TopicsOfVms], refuses: Callable[[Target, Topic], bool]) -> frozenset[Target]:
    """Return the hosts whose failures stand, because some VM has no other host without a failure."""
    kept: set[Target] = set()
    for group in groups:
        if all(refuses(host, group.topics) for host in group.hosts):
            kept.update(group.hosts)
    return frozenset(kept)
