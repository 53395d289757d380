"""Calls of hosts: facts that no property has, each asked of a host by a call of its own, and whom they are asked of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import cache, reduce
from operator import or_

from vsphere_ai.compat import gate
from vsphere_ai.gpu.devices import found_gpus
from vsphere_ai.language.playbooks.play import TargetPlan
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import KindName, Target
from vsphere_ai.resources import kinds
from vsphere_ai.resources.mixins import AsksMore, affected_by, concerned
from vsphere_ai.resources.topics import Topic

OPTION = "option:"
"""``option:Net.PVRDMAVmknic`` among a host's paths is an advanced setting of that name."""
SOFTWARE = "software"
"""Among a host's paths: the installed packages (VIBs)."""
QUERY = "query:"
"""``query:NAME`` among a host's facts is the answer to the `Query` of that name."""
DEVICES = ("hardware.pciDevice", "config.network.rdmaDevice", "config.network.pnic")
"""What has to be read of a host before `may_accelerate` can say no."""


def is_call(path: str) -> bool:
    """Return whether a path among a host's is asked for by a call of its own."""
    return path == SOFTWARE or path.startswith((OPTION, QUERY))


def _calls_in(properties: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    return filter(is_call, properties.get("HostSystem", ()))


@cache
def calls_for(names: frozenset[KindName], topics: Topic) -> frozenset[str]:
    """Return the facts of hosts, each a call of its own, that kinds need where they are wanted.

    Needed is what these kinds read, those that they are planned after, and the rules about the topics and about what
    a change of these kinds affects.
    """
    found, left = set[KindName](), set(names)
    while left:
        found |= left
        left = {near for name in left for near in kinds()[name].traits.after} - found
    return _calls_of(found, topics | affected_by(names))


@cache
def _own_calls(names: frozenset[KindName], topics: Topic) -> frozenset[str]:
    """Return the calls that these kinds themselves, and the rules about them, need of any host they are wanted on."""
    return _calls_of(names, topics)


def _calls_of(names: Set[KindName], about: Topic) -> frozenset[str]:
    """Return the calls that kinds make, and those of the rules about others."""
    calls = {path for name in names for path in _calls_in(kinds()[name].traits.properties)}
    asking = (kind for name in names if issubclass(kind := kinds()[name], AsksMore))
    calls |= {QUERY + query.name for kind in asking for query in kind.queries}
    return frozenset(calls.union(*(_calls_in(r.properties) for r in gate.rules() if r.concerns(about))))


def asked_by(wanted: Mapping[Target, TargetPlan], estate: Estate) -> tuple[frozenset[str], frozenset[str]]:
    """Return the hosts (references) that are asked whatever devices they have, and the calls that matter on any host.

    Asked are those a play gives a kind that itself, or a rule about it, looks at such an answer, and those a VM with
    such a kind can run on. Where VMs with vGPUs move, packages matter: they say which driver a host has.
    """
    asked, calls = list[Target](), set[str]()
    for target, plan in wanted.items():
        names = frozenset(state.kind for state in plan.states)
        topics = reduce(or_, (concerned(kinds()[state.kind], state) for state in plan.states), Topic.NONE)
        calls |= calls_for(names, topics)
        if _own_calls(names, topics):
            asked.append(target)
        calls |= {SOFTWARE} if plan.rolling.evacuate == "vmotion" else set()
    hosts = estate.hosts_around(t.ref for t in asked if t.kind == "vm")
    return frozenset(hosts.union(t.ref for t in asked if t.kind != "vm")), frozenset(calls)


def may_accelerate(host: Facts) -> bool:
    """Return whether a host that was read deeply has an NVIDIA GPU or an RDMA NIC, or does not show what it has."""
    return should_query(host, OPTION)


def should_query(host: Facts, call: str) -> bool:
    """Return whether a host that was read deeply has, or may have, the devices that a call is about.

    Packages matter for NVIDIA GPUs, options for these and for RDMA NICs (a GPU host may yet get PVRDMA over TCP),
    everything else for RDMA NICs.
    """
    devices, nics = host.get("hardware.pciDevice"), host.get("config.network.pnic") or ()
    if devices is None or (call.startswith((SOFTWARE, OPTION)) and found_gpus(devices)):
        return True
    rdma = host.get("config.network.rdmaDevice") or [n for n in nics if str(n.get("driver", "")).startswith("nmlx")]
    return call != SOFTWARE and bool(rdma)
