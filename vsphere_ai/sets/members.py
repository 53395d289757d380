"""Members of the sets of a playbook: those that are there, those to be made, and those that leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.vm_sets import (
    GENERATIONS,
    Member,
    MemberFault,
    has_copied_mark,
    instance_uuid,
    mark_of,
    planned_ref,
)
from vsphere_ai.resources.makes_vms import WantedSet
from vsphere_ai.sets.adoption import faults_of
from vsphere_ai.sets.places import place_of
from vsphere_ai.sets.set_plays import MembersFound, SetPlay

MOST_MEMBERS = 4096
"""Members of a set that are looked for."""
UUID = "config.instanceUuid"
MARKED = "config.extraConfig"


def find(plays: Sequence[SetPlay], estate: Estate) -> tuple[MembersFound, ...]:
    """Look the members of sets up in an estate, by their instance UUIDs and marks."""
    by_uuid = {f.get(UUID): f for f in estate.of_type("VirtualMachine") if f.get(UUID)}
    by_name: dict[str, list[Facts]] = {}
    for facts in estate.of_type("VirtualMachine"):
        by_name.setdefault(facts.name, []).append(facts)
    return tuple(_found(play, estate, by_uuid, by_name) for play in plays)


def _found(
    play: SetPlay, estate: Estate, by_uuid: Mapping[str, Facts], by_name: Mapping[str, Sequence[Facts]]
) -> MembersFound:
    there = dict(_there(play, estate, by_uuid))
    members, real = [], {}
    for index, name in play.names.items():
        generation, facts = there.pop(index, (1, None))
        if (old := play.play.replaces.get(name)) is not None and (not old or generation == old):
            if facts is not None:
                member = _leaving(play, estate, index, generation, f"{name} (generation {generation})")
                members.append(_with_faults(member, facts))
                real[member.ref] = facts.ref
                by_name = {**by_name, name: [f for f in by_name.get(name, ()) if f.ref != facts.ref]}
            generation, facts = (old or generation) % GENERATIONS + 1, None
        uuid = instance_uuid(estate.about.instance, play.wanted.name, index, generation)
        member = Member(play.wanted.name, index, planned_ref(uuid), name, uuid, generation, exists=facts is not None)
        if name in play.play.adopts:
            member, facts = _adopted(member, facts, by_name.get(name, ()), play.wanted, estate)
        if member.exists and facts is not None:
            real[member.ref] = facts.ref
            members.append(_with_faults(member, facts))
        else:
            same = _in_folder(by_name.get(name, ()), play.wanted, estate)
            members.append(member if member.faults else _refused(member, same))
    for index, (generation, facts) in sorted(there.items()):
        member = _leaving(play, estate, index, generation, facts.name)
        real[member.ref] = facts.ref
        members.append(_with_faults(member, facts))
    return MembersFound(play, tuple(replace(m, playbook=play.playbook) for m in members), real)


def _leaving(play: SetPlay, estate: Estate, index: int, generation: int, name: str) -> Member:
    uuid = instance_uuid(estate.about.instance, play.wanted.name, index, generation)
    return Member(play.wanted.name, index, planned_ref(uuid), name, uuid, generation, exists=True, leaving=True)


def _there(play: SetPlay, estate: Estate, by_uuid: Mapping[str, Facts]) -> Iterator[tuple[int, tuple[int, Facts]]]:
    """Yield the members that are there: place, generation and facts; the latest generation last."""
    last = max((*play.names, 0)) + MOST_MEMBERS
    known = _identities(estate.about.instance, play.wanted.name, last)
    found = ((known[uuid], facts) for uuid, facts in by_uuid.items() if uuid in known)
    for (generation, index), facts in sorted(found, key=lambda each: each[0]):
        yield index, (generation, facts)


@lru_cache(maxsize=64)
def _identities(vcenter: str, name: str, last: int) -> Mapping[str, tuple[int, int]]:
    """Return the generation and place of every instance UUID that a member of a set may have."""
    places = ((generation, index) for generation in range(1, GENERATIONS + 1) for index in range(1, last + 1))
    return {instance_uuid(vcenter, name, index, generation): (generation, index) for generation, index in places}


def _adopted(
    member: Member, there: Facts | None, same: Sequence[Facts], wanted: WantedSet, estate: Estate
) -> tuple[Member, Facts | None]:
    """Return a member that is to be adopted, and the VM of its name; with what keeps that VM from being adopted."""
    if there is not None and there.name == member.name:
        lost = MARKED in there.properties and mark_of(there) is None
        return replace(member, adopting=True, faults=tuple(faults_of(wanted, there, estate)) if lost else ()), there
    faults: tuple[MemberFault, ...]
    if there is not None:
        message = f"number {member.index} of the set is the VM {there.name}"
        faults = (
            MemberFault("adopt-taken", message, "adopt the VM under a name of the range that no VM of the set has"),
        )
    elif not same:
        faults = (
            MemberFault("not-found", "there is no VM of this name in this vCenter", "give the names of VMs as it has"),
        )
    elif len(same := _in_folder(same, wanted, estate) if len(same) > 1 else same) != 1:
        paths = ", ".join(sorted(estate.path_of(f.ref) for f in same)) or "none of them in the folder of the set"
        faults = (MemberFault("ambiguous", f"several VMs have this name: {paths}", "rename the others first"),)
    else:
        faults = tuple(faults_of(wanted, same[0], estate))
        if not faults:
            return replace(member, adopting=True, exists=True), same[0]
    ref = same[0].ref if same else member.ref
    return replace(member, ref=ref, exists=False, adopting=True, faults=faults), None


def _with_faults(member: Member, facts: Facts) -> Member:
    """Refuse a VM that has the instance UUID of a member and not its mark; an outline does not show marks."""
    if MARKED not in facts.properties or mark_of(facts) is not None or member.adopting:
        return member
    message = f"{facts.name} has the instance UUID of a member of the set {member.set}, and no mark of it"
    remedy = f"write its mark again: vsphere-ai adopt PLAYBOOK {shell_word(member.name)}; or remove the VM by hand"
    fault = MemberFault("mark-lost", message, remedy)
    return replace(member, faults=(*member.faults, fault))


def _in_folder(same: Sequence[Facts], wanted: WantedSet, estate: Estate) -> Sequence[Facts]:
    """Return the VMs, of some of one name, that are in the folder of a set; elsewhere a name may be used again.

    A VM whose folder cannot be read may be in it.
    """
    folder = place_of(wanted, estate)[0].folder if same else ""
    return [f for f in same if (home := estate.parent_of(f)) is None or home.ref == folder]


def _refused(member: Member, same: Sequence[Facts]) -> Member:
    """Refuse to make a VM whose name another one has in the same folder."""
    if not same:
        return member
    other = same[0]
    copied = has_copied_mark(other) if MARKED in other.properties else False
    words = "a clone of one, with a copied mark" if copied else "not one of the set"
    adopt = "" if copied else f", adopt it with: vsphere-ai adopt PLAYBOOK {shell_word(member.name)}"
    help_ = f"wait, if a clone of it is under way; else rename that VM, choose another range{adopt}"
    fault = MemberFault("name-taken", f"there is a VM of this name already, and it is {words}", help_)
    return replace(member, faults=(fault,))
