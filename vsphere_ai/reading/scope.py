"""Scope of a reading: how many details of the targets of a playbook, and of the objects around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vsphere_ai.admission.admit import is_weighed_as_a_whole
from vsphere_ai.language.playbooks.play import TargetPlan
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target
from vsphere_ai.model.vm_sets import is_new
from vsphere_ai.reading import requirements
from vsphere_ai.reading.host_calls import asked_by
from vsphere_ai.resources import kinds
from vsphere_ai.resources.mixins import probes_of

if TYPE_CHECKING:
    from vsphere_ai.reading.collector import Depth


def depth_for(estate: Estate, wanted: Mapping[Target, TargetPlan]) -> Depth:
    """Return whom to read deeply, and whom to ask over SSH.

    Deeply: the targets, the VMs on target hosts (they may have to go off), and every host a target VM can run on. Over
    SSH: the targets, and hosts whose probed state decides what a target VM finds there (MIG, for a vGPU).
    """
    from vsphere_ai.reading.collector import Depth

    hosts = {t.ref for t in wanted if t.kind == "host"}
    vms = {t.ref for t in wanted if t.kind == "vm"} | {v.ref for h in hosts for v in estate.vms_on(h)}
    around = estate.hosts_around(t.ref for t in wanted if t.kind == "vm")
    # what is shared must not cut off a host that has its management network on it
    within = {h.ref for h in estate.hosts if estate.datacenter_of(h.ref) in wanted}
    around |= within
    # who shares a GPU with them; the whole cluster when its hosts have to stand in for one another
    beside = {h.ref for t in wanted if t.kind == "vm" and (h := estate.host_of(t.ref))}
    beside |= within  # whose RDMA goes over what is shared
    beside |= estate.hosts_around(t.ref for t in wanted if is_new(estate, t.ref))  # one will be chosen
    # VMs of others on target hosts are never powered off: whether they are, and can move, has to be known
    foreign = {v.ref for h in hosts for v in estate.managed_on(h)}
    vms |= foreign
    around |= estate.hosts_around(foreign)
    # where VMs of a host that enters maintenance mode may move
    moving = {estate[t.ref].get("parent") for t, p in wanted.items() if p.rolling.evacuate == "vmotion"}
    around |= (movers := {h.ref for h in estate.hosts if estate[h.ref].get("parent") in moving})
    beside |= movers  # what runs there takes GPUs that others would move to
    beside |= around if any(p.spare_hosts for p in wanted.values()) else set()
    around |= (whole := _whole_clusters(estate, wanted))
    beside |= whole
    vms |= {v.ref for h in beside for v in estate.vms_on(h) if estate.is_on(v.ref)}
    vms |= requirements.related(wanted, estate)
    deep, (asked, calls) = frozenset(hosts | around), asked_by(wanted, estate)
    return Depth(deep, frozenset(vms), frozenset(probed_by(wanted, estate)), asked, calls)


def _whole_clusters(estate: Estate, wanted: Mapping[Target, TargetPlan]) -> set[str]:
    """Return the hosts of clusters of the targets whose figures count over all hosts, such as slots of vSphere HA."""
    near = estate.hosts_around(t.ref for t in wanted if t.kind == "vm") | {t.ref for t in wanted if t.kind == "host"}
    clusters = {c.ref for ref in near if (c := estate.cluster_of(ref)) is not None and is_weighed_as_a_whole(c)}
    return {h.ref for ref in clusters for h in estate.hosts_in(ref)}


def probed_by(wanted: Mapping[Target, TargetPlan], estate: Estate) -> set[str]:
    """Return the hosts (references) that are asked over SSH: for their own states, or for those of VMs there."""
    probing = {t.ref for t, p in wanted.items() if any(probes_of(kinds()[s.kind]) for s in p.states)}
    looking = {t.ref: p for t, p in wanted.items() if t.kind == "vm" and _looks_at_probes(p)}
    probing |= {h.ref for ref in looking if (h := estate.host_of(ref))}
    spare = any(p.spare_hosts for p in wanted.values())
    return probing | estate.hosts_around(ref for ref in looking if spare or is_new(estate, ref))


def _looks_at_probes(plan: TargetPlan) -> bool:
    return any(probes_of(kinds()[k]) for state in plan.states for k in kinds()[state.kind].traits.after)


def with_gpus(estate: Estate) -> frozenset[str]:
    """Hosts are asked over SSH only when they may have a GPU; before the deep reading every host may."""
    return frozenset(h.ref for h in estate.hosts if estate[h.ref].get("runtime.connectionState") == "connected")
