"""Checks of VMs of a set: reasons against making, changing or destroying them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vsphere_ai.fabric import networks
from vsphere_ai.fabric.host_cpus import AUTO_CORES, VM_CORES, cores_of_socket, makes_sockets
from vsphere_ai.guests.cloud_init import guest_problems
from vsphere_ai.guests.image import cleared_settings
from vsphere_ai.model.estate.maintenance import why_unreachable
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.view import View
from vsphere_ai.model.vm_sets import Member, MemberFault, settings_of
from vsphere_ai.resources._helpers import ethernet
from vsphere_ai.resources.mixins import HasSockets, stated
from vsphere_ai.resources.vm_set.clone import guest_of
from vsphere_ai.resources.vm_set.destruction import destroy_problems
from vsphere_ai.resources.vm_set.disks import disk_problems, present_disk_problems
from vsphere_ai.resources.vm_set.image import findings_of
from vsphere_ai.resources.vm_set.linux_prep import preparation_problems
from vsphere_ai.resources.vm_set.mtu import mtu_problems
from vsphere_ai.resources.vm_set.settings import VmSetFields

CPUS = "config.hardware.numCPU"
CLONE, DISABLED = "CloneVM_Task", "disabledMethod"
SOURCE_PATHS = (CPUS, VM_CORES, AUTO_CORES, DISABLED)
"""What is read of a source, and of the VMs of a set alike, for these checks."""
REBUILD = {
    "source": "the template or VM that it was cloned of",
    "guest": "what its guest was given",
    "addresses": "its addresses",
    "guest_id": "its guest operating system",
}
"""Fields that only a new VM takes, in words."""


def making_problems(state: VmSetFields, member: Member, facts: Facts, view: View) -> Iterator[MemberFault]:
    """Yield what keeps a VM from being made as the play wants it."""
    for name in ("name", "source"):
        if getattr(state, name) is None:
            yield MemberFault("incomplete", f"'{name}' is missing in vm_set", f"add '{name}: ...'")
    if member.faults:
        return
    yield from _source_problems(state, member, view)
    yield from socket_problems(facts, state.cpus)
    yield from disk_problems(state, member, view)
    for finding in findings_of(state, member, view):
        if finding.verdict == "fail":
            yield MemberFault(finding.rule, finding.message, finding.remedy)
    for nic in state.nics or ():
        network = ethernet.found(member.ref, nic.port_group, view)
        message, help_ = networks.for_vm(view.estate, member.ref, nic.port_group).ambiguity(view.estate)
        if message:
            yield MemberFault("ambiguous", f"{nic.name}: {message}", help_)
        elif not ethernet.is_port_group(network):
            known = "a port group by the name it has in the vSphere Client"
            yield MemberFault(
                "no-port-group", f"{nic.name}: there is no port group '{nic.port_group}'", f"write {known}"
            )
        yield from mtu_problems(nic, network, member, view)
    if state.user_data and (state.by_vcenter or not state.nics):
        why = (
            "LinuxPrep does not bring them into a guest" if state.by_vcenter else "a set without nics gives guests none"
        )
        yield MemberFault(
            "user-data", f"user data are for cloud-init: {why}", "leave user_data out, or give nics and cloud-init"
        )
    guest, settings = guest_of(state, member), settings_of(facts)
    if guest.nics and not state.by_vcenter:
        found = guest_problems(Target("vm", member.name, member.ref), guest, settings)
        yield from (MemberFault(p.rule, p.message, p.remedy) for p in found)
    elif state.by_vcenter:
        found = preparation_problems(state, guest, member, settings | cleared_settings(settings, {}), view)
        yield from (MemberFault(p.rule, p.message, p.remedy) for p in found)


def socket_problems(facts: Facts, cpus: int | None) -> Iterator[MemberFault]:
    """Yield that the CPUs a VM gets cannot be sockets of so many cores as it has, or as its clone brings."""
    count, cores = int(cpus or facts.get(CPUS) or 1), cores_of_socket(facts) or 1
    if not makes_sockets(count, cores):
        message = f"{count} CPUs cannot be sockets of {cores} cores, which it has from its source"
        yield MemberFault("cores", message, "add tuning: {cores_per_socket: N} to the play; N has to divide the CPUs")


def _source_problems(state: VmSetFields, member: Member, view: View) -> Iterator[MemberFault]:
    source = view.estate.get(member.place.source)
    if source is None:
        return
    home = view.estate.host_of(source.ref)
    if home is not None and (why := why_unreachable(view.estate[home.ref])):
        words = f"the host of the source {source.name}, {home.name}, is {why}: nothing is cloned from there"
        yield MemberFault(
            "source-host", words, "bring the host into service, or register the source on another one of its hosts"
        )
    if CLONE in (source.get(DISABLED) or ()):
        words = f"another product has disabled {CLONE} for the source {source.name}"
        yield MemberFault("source-disabled", words, "wait until that product has ended, or enable the method with it")
    if not source.get("config.template") and source.get("runtime.powerState") == "poweredOn" and not state.snapshot:
        words = "its disks would be copied while they change"
        yield MemberFault(
            "source-on", f"the source {source.name} is powered on, and {words}", "power it off, or clone a snapshot"
        )
    if state.linked and not source.get("config.template") and not state.snapshot:
        yield MemberFault(
            "linked", "a linked clone of a VM needs a snapshot", "add 'snapshot: NAME', or leave linked out"
        )
    if state.linked and source.get("config.template") and state.snapshot:
        yield MemberFault("linked", "a linked clone of a template takes no snapshot", "leave snapshot out")
    if state.memory_gb is None and "config.hardware.memoryMB" in source.unreadable:
        yield MemberFault(
            "source-unreadable", f"the configuration of {source.name} cannot be read", "grant System.Read on it"
        )


def present_problems(state: VmSetFields, now: VmSetFields, member: Member, view: View) -> Iterator[MemberFault]:
    """Yield what keeps a member that is there from being as the play wants it, or from being destroyed."""
    if state.destroyed:
        yield from destroy_problems(view.facts(member.ref), state.detached)
        return
    for field, words in REBUILD.items():
        wanted, has = getattr(state, field), getattr(now, field)
        if wanted is not None and wanted != has:
            text = f"{words} can only change with the VM: it has {_differing(has, wanted)}"
            text = f"{text}, wanted is {_differing(wanted, has)}"
            yield MemberFault("rebuild", text, "leave it as it was; or recreate the VM: vsphere-ai replace PLAYBOOK VM")
    if state.cpus != now.cpus and not any(s.cores_stated() for s in stated(view, member.ref, HasSockets)):
        yield from socket_problems(view.facts(member.ref), state.cpus)
    yield from present_disk_problems(state, now, member, view)
    if now.index != state.index:
        message = f"it is number {now.index} of its set, and the play makes it number {state.index}"
        yield MemberFault("renumbered", message, "keep the range, and take names out of it: train-[01:04]:!train-02")
    if state.power_state == "off" and now.power_state == "on":
        yield MemberFault("power-off", "it runs, and the play wants it off", "power it off in the vSphere Client first")


def _differing(value: object, other: object) -> str:
    """Return a value in words; of a mapping, what the other one does not have."""
    if not isinstance(value, Mapping):
        return "none" if value is None else str(value)
    theirs = other if isinstance(other, Mapping) else {}
    return ", ".join(f"{key} {said}" for key, said in value.items() if theirs.get(key) != said) or "none"
