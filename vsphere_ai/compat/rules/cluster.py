"""Rules about what else manages the hosts of a cluster: vSphere Configuration Profiles and single images."""

from __future__ import annotations

from vsphere_ai.compat.base import RuleCase, host_rule
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding
from vsphere_ai.resources import kinds
from vsphere_ai.resources.topics import Topic

PROFILE, IMAGE = "configManagerEnabled", "lifecycleManaged"
UNKNOWN = "the cluster of this host cannot be read"


@host_rule(
    "cluster.configuration-profile",
    "No vSphere Configuration Profile undoes the change",
    source="vSphere Web Services API reference, ComputeResource.configManagerEnabled; Managing Host and Cluster "
    "Lifecycle",
    verdicts={
        "pass": "the cluster has no configuration profile, or this plan changes nothing that one holds",
        "warn": "the cluster has a configuration profile, and this plan changes what such a profile holds",
        "unknown": "the cluster cannot be read",
    },
    reads=("parent",),
    also_reads={"ClusterComputeResource": (PROFILE,)},
)
def cluster_configuration_profile(case: RuleCase) -> Finding:
    """A cluster under a vSphere Configuration Profile applies its document to its hosts again.

    Advanced options, firewall rulesets and VMkernel adapters that differ from the document are drift, and the next
    remediation undoes them. That graphics types, MIG and passthrough are in such a document is shown nowhere.
    """
    cluster = _cluster(case)
    if cluster is None:
        return case.unknown(UNKNOWN)
    seen = (f"{cluster.name}: {PROFILE}", bool(cluster.get(PROFILE)))
    held = sorted((k, c.traits.in_profile) for k, c in kinds().items())
    changed = [(k, part) for k, part in held if part and case.view.is_planned(case.ref, k)]
    managed = f"{cluster.name} is managed by a vSphere Configuration Profile;"
    if not cluster.get(PROFILE):
        return case.passed(f"{cluster.name} has no vSphere Configuration Profile", seen)
    if not changed:
        return case.passed(f"{managed} this plan changes nothing it holds", seen)
    parts = "; ".join(f"{kind}: {part}" for kind, part in changed)
    message = f"{managed} its next remediation undoes a part of this plan ({parts})"
    evidence = ((f"plan.{kind}", part) for kind, part in changed)
    return case.warned(message, seen, *evidence, help="make the same change in the cluster's configuration profile")


@host_rule(
    "cluster.image",
    "Driver VIB and the cluster's image",
    source="vSphere Web Services API reference, ComputeResource.lifecycleManaged",
    verdicts={
        "pass": "the cluster is not managed with a single image, or it is",
        "unknown": "the cluster cannot be read",
    },
    reads=("parent",),
    also_reads={"ClusterComputeResource": (IMAGE,)},
    about=Topic.HOST_GRAPHICS | Topic.MIG,
)
def cluster_image(case: RuleCase) -> Finding:
    """A cluster that is managed with a single image takes its VIBs from it, NVIDIA's host driver among them."""
    cluster = _cluster(case)
    if cluster is None:
        return case.unknown(UNKNOWN)
    seen = (f"{cluster.name}: {IMAGE}", bool(cluster.get(IMAGE)))
    if not cluster.get(IMAGE):
        return case.passed(f"{cluster.name} is not managed with a single image", seen)
    removed = "a driver VIB that is not in the image is removed by the next remediation"
    return case.passed(f"{cluster.name} is managed with a single image: {removed}", seen)


def _cluster(case: RuleCase) -> Facts | None:
    case.need("parent")
    return case.view.estate.cluster_of(case.ref)
