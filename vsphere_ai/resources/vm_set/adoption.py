"""Adoption of a VM by a set: the one reconfigure that gives it the identity and the mark of a member."""

from __future__ import annotations

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.model.vm_sets import Member, MemberMark
from vsphere_ai.resources.base import kind_names

UUID = "config.instanceUuid"


def mark_step(target: Target, member: Member, facts: Facts) -> Reconfigure:
    """Return the reconfigure that makes a VM a member: instance UUID and mark in one call, whatever its power state.

    Source: vSphere Web Services API reference, VirtualMachineConfigSpec, instanceUuid: it may change while a VM runs.
    """
    mark = MemberMark(
        set=member.set,
        index=member.index,
        uuid=member.uuid,
        playbook=member.playbook,
        generation=member.generation,
        nics=member.nics,
        adopted=was(facts),
    )
    return Reconfigure(
        target=target,
        kinds=kind_names("vm_set"),
        spec={"instanceUuid": member.uuid},
        extra_config=tuple(mark.settings().items()),
        summary=f"write the mark of number {member.index} of the set {member.set}, and its instance UUID",
    )


def was(facts: Facts) -> str:
    """Return the instance UUID that a VM has before it is adopted."""
    return str(facts.get(UUID) or "none")


def note(facts: Facts) -> str:
    """Return what else knows a VM by its instance UUID."""
    return f"its instance UUID is {was(facts)} until then: what knows the VM by it, such as a backup, sees a new VM"
