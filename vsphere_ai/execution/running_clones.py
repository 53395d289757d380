"""Clones under way that may make a member of a set which a plan destroys: it would be left over, with its addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.steps import Clone, Destroy, WriteLeases
from vsphere_ai.model.vm_sets import mark_of
from vsphere_ai.planning.planner import Plan

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter

RULE = "vm_set.clone-running"
_CLONE = ".clone"
"""End, in lower case, of the key of the description of a task that clones a VM: ``VirtualMachine.clone``."""


def clone_problems(plan: Plan, vcenter: VCenter, estate: Estate) -> Iterator[Problem]:
    """Yield what keeps a plan from releasing addresses: a clone of the source of VMs that it destroys is running.

    Where no such VM is left that names its source, any clone counts.
    """
    releases = [p.step for p in plan.steps if isinstance(p.step, WriteLeases) and p.step.comes_last]
    if not releases or any(isinstance(p.step, Clone) for p in plan.steps):
        return
    going = [p.step.target.ref for p in plan.steps if isinstance(p.step, Destroy)]
    marks = (mark_of(estate[ref]) for ref in going if ref in estate.objects)
    sources = {mark.source.partition("@")[0].rpartition("/")[2] for mark in marks if mark is not None}
    for name in sorted(set(running_clones(vcenter).values())):
        if not sources or name in sources:
            message = f"a clone of {name} is under way, which may make a VM of the set"
            yield Finding.problem(
                releases[0].target, RULE, message, "wait until vCenter has ended it, then give the command again"
            )


def running_clones(vcenter: VCenter) -> dict[str, str]:
    """Return the tasks, of whatever user, that make VMs now, with the names of the VMs and templates they clone."""
    manager = vcenter.service("taskManager")
    seen = vcenter.read_objects([manager], {"TaskManager": ("recentTask",)}) if manager else {}
    tasks = [str(ref) for facts in seen.values() for ref in facts.get("recentTask") or ()]
    paths = ("info.state", "info.descriptionId", "info.entityName")
    infos = vcenter.read_objects(tasks, {"Task": paths}) if tasks else {}
    return {
        ref: str(info.get("info.entityName"))
        for ref, info in infos.items()
        if info.get("info.state") in ("queued", "running")
        and str(info.get("info.descriptionId", "")).lower().endswith(_CLONE)
    }
