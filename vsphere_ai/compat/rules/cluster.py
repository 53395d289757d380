"""Rules about what else manages the hosts of a cluster: vSphere Configuration Profiles and single images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from vsphere_ai.compat.base import Case, Meanings, Paths, Rule
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.finding import Finding
from vsphere_ai.resources import kinds

PROFILE, IMAGE = "configManagerEnabled", "lifecycleManaged"


class ClusterConfigurationProfile(Rule):
    """A cluster under a vSphere Configuration Profile applies its document to its hosts again.

    Advanced options, firewall rulesets and VMkernel adapters that differ from the document are drift, and the next
    remediation undoes them. That graphics types, MIG and passthrough are in such a document is shown nowhere.
    """

    id = "cluster.configuration-profile"
    title = "No vSphere Configuration Profile undoes the change"
    target = "host"
    source = (
        "vSphere Web Services API reference, ComputeResource.configManagerEnabled; Managing Host and Cluster Lifecycle"
    )
    verdicts: ClassVar[Meanings] = {
        "pass": "the cluster has no configuration profile, or this plan changes nothing that one holds",
        "warn": "the cluster has a configuration profile, and this plan changes what such a profile holds",
        "unknown": "the cluster cannot be read",
    }
    properties: ClassVar[Paths] = {"ClusterComputeResource": (PROFILE,), "HostSystem": ("parent",)}

    def judge(self, case: Case) -> Iterator[Finding]:
        """Ask the cluster first, then the kinds this plan changes on the host."""
        cluster = _cluster(case)
        if cluster is None:
            yield case.unknown("the cluster of this host cannot be read")
            return
        seen = (f"{cluster.name}: {PROFILE}", bool(cluster.get(PROFILE)))
        held = {k: c.traits.in_profile for k, c in kinds().items()}
        changed = {k: part for k, part in held.items() if part and case.view.is_planned(case.ref, k)}
        if not cluster.get(PROFILE):
            yield case.passed(f"{cluster.name} has no vSphere Configuration Profile", seen)
        elif changed:
            parts = "; ".join(f"{kind}: {part}" for kind, part in sorted(changed.items()))
            yield case.warned(
                f"{cluster.name} is managed by a vSphere Configuration Profile; its next remediation undoes a part of "
                f"this plan ({parts})", seen, *((f"plan.{kind}", part) for kind, part in sorted(changed.items())),
                help="make the same change in the cluster's configuration profile",
            )  # fmt: skip
        else:
            yield case.passed(
                f"{cluster.name} is managed by a vSphere Configuration Profile; this plan changes nothing it holds",
                seen,
            )


class ClusterImage(Rule):
    """A cluster that is managed with a single image takes its VIBs from it, NVIDIA's host driver among them."""

    id = "cluster.image"
    title = "Driver VIB and the cluster's image"
    target = "host"
    source = "vSphere Web Services API reference, ComputeResource.lifecycleManaged"
    verdicts: ClassVar[Meanings] = {
        "pass": "the cluster is not managed with a single image, or it is",
        "unknown": "the cluster cannot be read",
    }
    properties: ClassVar[Paths] = {"ClusterComputeResource": (IMAGE,), "HostSystem": ("parent",)}
    needed_by = frozenset({"graphics", "mig"})

    def judge(self, case: Case) -> Iterator[Finding]:
        """Say where the driver comes from: nothing here installs one."""
        cluster = _cluster(case)
        if cluster is None:
            yield case.unknown("the cluster of this host cannot be read")
            return
        seen = (f"{cluster.name}: {IMAGE}", bool(cluster.get(IMAGE)))
        if cluster.get(IMAGE):
            yield case.passed(
                f"{cluster.name} is managed with a single image: a driver VIB that is not in the image is removed by "
                "the next remediation", seen,
            )  # fmt: skip
        else:
            yield case.passed(f"{cluster.name} is not managed with a single image", seen)


def _cluster(case: Case) -> Facts | None:
    case.need("parent")
    return case.view.estate.cluster_of(case.ref)
