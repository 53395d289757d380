"""vSphere tags of the VMs of sets, where a play sets tags: read in bulk from the tag service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vsphere_ai.language.playbooks.play import TargetPlan
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.vm_sets import is_new
from vsphere_ai.model.vm_tags import ATTACHED, CATEGORIES, TAG_SERVICE
from vsphere_ai.resources.mixins import TagsVms

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter


def with_tags(vcenter: VCenter, estate: Estate, wanted: Mapping[Target, TargetPlan]) -> Estate:
    """Return an estate with the tags of those VMs for which a play sets tags, and with the categories there are.

    The number of requests depends on categories and their tags; of 100 VMs each, one more. Without such a play nothing
    is asked. `Denied`, `Unreachable` or `Unparsed` where the service gives no answer.
    """
    categories = {target.ref: own for target, plan in wanted.items() if (own := _categories(plan))}
    if not categories:
        return estate
    there = [ref for ref in categories if ref in estate.objects and not is_new(estate, ref)]
    table, attached = vcenter.attached_tags(there, frozenset().union(*categories.values()))
    service = Facts(f"{TAG_SERVICE}:{TAG_SERVICE}", {"name": TAG_SERVICE, CATEGORIES: table})
    vms = (
        estate[ref].having({ATTACHED: {name: own for name, own in names.items() if name in categories[ref]}})
        for ref, names in attached.items()
    )
    return estate.with_objects((service, *vms))


def _categories(plan: TargetPlan) -> frozenset[str]:
    return frozenset().union(*(s.tag_categories() for s in plan.states if isinstance(s, TagsVms)))
