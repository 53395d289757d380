"""Changes of a member that is there: what takes effect in place, in a power cycle, or with a new VM only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Change, Effect, FieldChange
from vsphere_ai.model.steps import GuestReady, Reconfigure, Step
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member
from vsphere_ai.resources.vm_set.clone import nics_of
from vsphere_ai.resources.vm_set.details import ATTRIBUTE, attribute_steps, drive_changes
from vsphere_ai.resources.vm_set.disk_steps import disk_steps
from vsphere_ai.resources.vm_set.image import shares_machine_id
from vsphere_ai.resources.vm_set.settings import VmSetFields
from vsphere_ai.resources.vm_set.tags import OF_CATEGORY, tag_steps

WHOLE_DEVICES = ("VirtualPCIPassthrough", "VirtualSriovEthernetCard")
"""Devices with which vSphere adds no memory to a VM that runs; vGPUs are of the first type."""
IN_PLACE = ("disk_gb", "power_state", "ready", "notes", "cdrom")
HOT = {"cpus": "config.cpuHotAddEnabled", "memory_gb": "config.memoryHotAddEnabled"}
"""Fields that a VM that runs may have more of, and the property that permits it; without it, in a power cycle."""


def effect_of(field: FieldChange, facts: Facts) -> Effect:
    """Return what a change of a field takes; what only a new VM takes is refused, and replaced on request.

    Source: vSphere Virtual Machine Administration, Change CPU and Memory Hot Plug Settings.
    """
    if field.name in IN_PLACE or field.name.startswith((ATTRIBUTE, OF_CATEGORY)):
        return "in place"
    if field.name == "disks" and isinstance(field.after, tuple):
        there = {d.key for d in field.before or ()}
        cold = any(d.controller == "nvme" for d in field.after or () if d.key not in there)
        return "power cycle" if cold and facts.get("runtime.powerState") == "poweredOn" else "in place"
    if field.name not in HOT:
        return "rebuild"
    return "in place" if _is_hot(field, facts) else "power cycle"


def _is_hot(field: FieldChange, facts: Facts) -> bool:
    if facts.get("runtime.powerState") != "poweredOn":
        return True
    bound = field.name == "memory_gb" and (
        facts.get("config.memoryReservationLockedToMax")
        or any(d.get("_typeName") in WHOLE_DEVICES for d in facts.get("config.hardware.device") or ())
    )
    return bool(facts.get(HOT[field.name])) and field.after > field.before and not bound


def change_steps(wanted: VmSetFields, said: VmSetFields, change: Change, member: Member, view: View) -> Iterator[Step]:
    """Yield what brings a member that is there to what the play wants; `said` is what the play itself says."""
    changed, facts = {f.name: f for f in change.fields}, view.facts(change.target.ref)
    own: dict[str, Any] = {"target": change.target, "kinds": (change.kind,)}
    spec: dict[str, Any] = {"numCPUs": wanted.cpus} if "cpus" in changed else {}
    spec |= {"memoryMB": (wanted.memory_gb or 0) * 1024} if "memory_gb" in changed else {}
    spec |= {"annotation": wanted.notes} if "notes" in changed else {}
    drives = tuple(drive_changes(wanted, facts)) if "cdrom" in changed else ()
    cold = any(effect_of(f, facts) == "power cycle" for f in changed.values())
    if spec or drives:
        words = " and ".join((*sorted(spec), *(["CD drives"] if drives else [])))
        yield Reconfigure(**own, spec=spec, device_changes=drives, needs_power_off=cold, summary=f"set {words}")
    yield from attribute_steps(wanted, change)
    yield from tag_steps(wanted, change)
    if changed.keys() & {"disk_gb", "disks"}:
        yield from disk_steps(change.target, change.kind, facts, said)
    if wanted.power_state == "on" and member.nics and (cold or changed.keys() & {"power_state", "ready"}):
        step = ready_step(said, change, member, view)
        yield replace(step, generation=0) if change.before.adopted else step


def ready_step(said: VmSetFields, change: Change, member: Member, view: View) -> GuestReady:
    """Return the wait for the guest of a member, of which the play says this."""
    return GuestReady(
        target=change.target,
        kinds=(change.kind,),
        comes_last=True,
        generation=member.generation,
        nics=nics_of(member),
        customized=said.by_vcenter,
        one_machine_id=shares_machine_id(member, view),
        clears=any(user.password for user in said.users or ()),
        summary="wait until the guest is ready, with every planned address",
    )
