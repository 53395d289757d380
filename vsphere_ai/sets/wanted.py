"""Wanted states of the members of sets: what follows from their NICs, and the end of those that leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.language.inventories import patterns
from vsphere_ai.language.playbooks.play import Desired, Play, Playbook, TargetPlan
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import State, Target
from vsphere_ai.model.vm_sets import Member, member_of, members_of, replaced_by
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.makes_vms import MakesVms
from vsphere_ai.sets.set_plays import SetPlay


def with_members(desired: Desired, plays: Iterable[SetPlay], estate: Estate) -> Desired:
    """Return what is wanted with the states that follow for members of sets, and with the members that leave."""
    found = dict(desired)
    for target, plan in desired.items():
        member = member_of(estate, target.ref) if target.kind == "vm" else None
        makes = next((s for s in plan.states if isinstance(s, MakesVms)), None)
        if member is not None and makes is not None and not (member.leaving or member.adopting or member.faults):
            known = {s.kind for s in plan.states}
            more = _resources(s for s in makes.implied(member) if s.kind not in known)
            found[target] = replace(plan, states=(*plan.states, *more))
    by_set = {each.wanted.name: each for each in plays}
    for member in members_of(estate):
        play = by_set.get(member.set)
        if member.leaving and play is not None and _is_meant(member, play):
            states = tuple(_resources([play.kind.leaving(detach=play.play.detach_disks)]))
            found[Target("vm", member.name, member.ref)] = TargetPlan(states, power=play.play.power)
    return Desired(dict(sorted(found.items())))


def going_for(new: Iterable[Target], among: Iterable[Target], estate: Estate) -> set[Target]:
    """Return the members, of these targets, that others take the places of."""
    going = {old.ref for t in new if t.kind == "vm" and (old := replaced_by(estate, t.ref)) is not None}
    return {t for t in among if t.ref in going}


def pin_leaving(playbook: Playbook, only: Iterable[Target], estate: Estate) -> Playbook:
    """Return a pinned playbook whose sets also mean the members that leave, as far as they are in `only`."""
    leaving: dict[str, list[Member]] = {}
    for target in only:
        member = member_of(estate, target.ref)
        if member is not None and member.leaving:
            leaving.setdefault(member.set, []).append(member)
    return replace(playbook, plays=tuple(_with_leaving(play, leaving) for play in playbook.plays))


def _with_leaving(play: Play, leaving: Mapping[str, Sequence[Member]]) -> Play:
    kind = next((s.state for s in play.states if isinstance(s.state, MakesVms)), None)
    more = leaving.get(kind.wanted_set().name, ()) if kind is not None else ()
    if play.targets is None or not more:
        return play
    targets = {*play.targets, *(Target("vm", m.name, m.ref) for m in more)}
    going, names = {m.index: m.generation for m in more}, patterns.members(play.pattern)
    replaces = {n: going.get(i, play.replaces[n]) for i, n in names.items() if n in play.replaces}
    return replace(play, targets=tuple(sorted(targets)), replaces=replaces)


def _is_meant(member: Member, play: SetPlay) -> bool:
    """Return whether a member leaves in a play; one that is pinned names those that did when it was approved."""
    return not play.play.targets or any(t.ref == member.ref for t in play.play.targets)


def _resources(states: Iterable[State]) -> Iterable[Resource]:
    return (s for s in states if isinstance(s, Resource))
