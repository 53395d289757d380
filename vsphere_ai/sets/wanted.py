"""Wanted states of the members of sets: what follows from their NICs, and the end of those that leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vsphere_ai.language.play import Desired, TargetPlan
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import State, Target
from vsphere_ai.model.vm_sets import member_of, members_of
from vsphere_ai.resources.base import Resource
from vsphere_ai.resources.makes_vms import MakesVms
from vsphere_ai.sets.members import SetPlay


def with_members(desired: Desired, plays: Iterable[SetPlay], estate: Estate) -> Desired:
    """Return what is wanted with the states that follow for members of sets, and with the members that leave."""
    found = dict(desired)
    for target, plan in desired.items():
        member = member_of(estate, target.ref) if target.kind == "vm" else None
        makes = next((s for s in plan.states if isinstance(s, MakesVms)), None)
        if member is not None and makes is not None and not member.leaving and not member.faults:
            known = {s.kind for s in plan.states}
            more = _resources(s for s in makes.implied(member) if s.kind not in known)
            found[target] = replace(plan, states=(*plan.states, *more))
    by_set = {each.wanted.name: each for each in plays}
    for member in members_of(estate):
        play = by_set.get(member.set)
        if member.leaving and play is not None:
            states = tuple(_resources([play.kind.leaving()]))
            found[Target("vm", member.name, member.ref)] = TargetPlan(states, power=play.play.power)
    return Desired(dict(sorted(found.items())))


def _resources(states: Iterable[State]) -> Iterable[Resource]:
    return (s for s in states if isinstance(s, Resource))
