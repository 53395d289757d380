"""Children of disks: VMs whose disks go on from those of another VM, and that are lost when that one is destroyed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.finding import Finding, Problem
from vsphere_ai.model.steps import Destroy
from vsphere_ai.planning.planner import Plan

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter

RULE = "vm_set.has-children"
_DEVICES = "config.hardware.device"


def children_of(vcenter: VCenter, vms: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of VMs with disks that are children of those of these VMs, by the reference of the parent.

    A child is on a datastore of its parent (Virtual Machine Programming Guide, "Linked Virtual Machines").
    """
    own = vcenter.read_objects(list(vms), {"VirtualMachine": ("datastore", _DEVICES)})
    stores = sorted({str(s) for facts in own.values() for s in facts.get("datastore") or ()})
    there = vcenter.read_objects(stores, {"Datastore": ("vm",)}) if stores else {}
    others = sorted({str(v) for facts in there.values() for v in facts.get("vm") or ()})
    files = {ref: set(_files(facts, below=False)) for ref, facts in own.items()}
    found: dict[str, dict[str, None]] = {}
    for facts in vcenter.read_objects(others, {"VirtualMachine": ("name", _DEVICES)}).values() if others else ():
        heads, below = set(_files(facts, below=False)), set(_files(facts, below=True))
        for ref, mine in files.items():
            parents = {name for name in (*mine, *_files(own[ref], below=True)) if name and _is_own(name, mine)}
            if not heads & mine and below & parents:
                found.setdefault(ref, {})[facts.name] = None
    return {ref: tuple(sorted(names)) for ref, names in found.items()}


def may_have_children(facts: Facts) -> bool:
    """Return whether disks of a VM can have children: those of its snapshots can, and those of a template."""
    return bool(facts.get("snapshot") or facts.get("config.template"))


def child_problems(plan: Plan, vcenter: VCenter, estate: Estate) -> Iterator[Problem]:
    """Yield the VMs that a plan destroys and whose disks others go on from."""
    going = {p.step.target.ref: p.step.target for p in plan.steps if isinstance(p.step, Destroy)}
    asked = [ref for ref in going if ref in estate.objects and may_have_children(estate[ref])]
    for ref, names in (children_of(vcenter, asked) if asked else {}).items():
        yield Finding.problem(going[ref], RULE, words(names), "destroy these first, or give them disks of their own")


def words(names: Sequence[str]) -> str:
    """Return what blocks the destruction of a VM with children."""
    return f"disks of {', '.join(names)} are children of its disks, and would be lost"


def _files(facts: Facts, *, below: bool) -> Iterator[str]:
    """Yield the files of a VM's disks, or those that they are children of."""
    devices: Sequence[Mapping[str, Any]] = facts.get(_DEVICES) or ()
    for device in (d for d in devices if d.get("_typeName") == "VirtualDisk"):
        backing: Mapping[str, Any] = device.get("backing") or {}
        if not below:
            yield str(backing.get("fileName") or "")
        while below and (backing := backing.get("parent") or {}):
            yield str(backing.get("fileName") or "")


def _is_own(name: str, files: set[str]) -> bool:
    """Return whether a file is in the folder of one of a VM's disks: a base that a linked clone shares is not its."""
    return any(name.rpartition("/")[0] == own.rpartition("/")[0] for own in files)
