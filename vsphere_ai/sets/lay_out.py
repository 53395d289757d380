"""Estate with sets: VMs that do not exist yet as vCenter will show them right after their clones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.vm_sets import LEAVING, MEMBERS, SET, Member, MemberNic, mac_address
from vsphere_ai.resources.makes_vms import WantedSet
from vsphere_ai.sets.members import Found, SetPlay, find
from vsphere_ai.sets.new_vm import facts_of
from vsphere_ai.sets.placement import spread
from vsphere_ai.sets.places import place_of

Nics = Callable[[Found], Mapping[tuple[int, str], MemberNic]]
"""Returns the NICs of the members of a set, with their addresses, by place and name of the NIC."""


@dataclass(frozen=True)
class LaidOut:
    """An estate with the members of sets in it, under the references of their instance UUIDs.

    `real` maps these to the references that vCenter has, for the members that are there; `sources` are what the others
    are cloned of.
    """

    estate: Estate
    found: tuple[Found, ...] = ()
    real: Mapping[str, str] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()

    @property
    def members(self) -> tuple[Member, ...]:
        """The members of all sets."""
        return tuple(m for each in self.found for m in each.members)

    def as_read(self, refs: Iterable[str]) -> frozenset[str]:
        """Return references as vCenter knows them, without those of VMs that do not exist yet."""
        new = {m.ref for m in self.members if not m.exists}
        return frozenset(self.real.get(ref, ref) for ref in refs if ref not in new)


def without_addresses(found: Found) -> Mapping[tuple[int, str], MemberNic]:
    """Return NICs with their MAC addresses only."""
    return {}


def lay_out(plays: Sequence[SetPlay], estate: Estate, nics: Nics = without_addresses) -> LaidOut:
    """Lay the members of sets over an estate; one that was laid out before comes back as it is."""
    if not plays or any(f.ref.startswith(f"{SET}:") for f in estate.objects.values()):
        return LaidOut(estate)
    made = []
    for each in find(plays, estate):
        placed = [_placed(each.play.wanted, m, estate) for m in each.members]
        addresses = nics(each)
        made.append(replace(each, members=tuple(_with_nics(each, m, addresses, estate) for m in placed)))
    found = tuple(spread(each, estate) for each in made)
    return laid(estate, found)


def laid(estate: Estate, found: Sequence[Found]) -> LaidOut:
    """Return an estate with members, whose places are decided, as objects of it."""
    real = {alias: ref for each in found for alias, ref in each.real.items()}
    objects = dict(estate.objects)
    for alias, ref in real.items():
        facts = objects.pop(ref)
        name = next(m.name for each in found for m in each.members if m.ref == alias)
        objects[alias] = replace(facts, ref=alias).having({"name": name})
    sources = set()
    for each in found:
        for member in each.members:
            new = not member.exists and not member.faults
            if not member.exists and member.place.source:
                sources.add(member.place.source)
            if new or (not member.exists and member.ref not in objects):
                objects[member.ref] = facts_of(each.play.wanted, member, estate)
        name = each.play.wanted.name
        known = {m.ref: m for m in each.members}
        objects[f"{SET}:{name}"] = Facts(
            f"{SET}:{name}", {"name": name, MEMBERS: known, LEAVING: tuple(m.ref for m in each.members if m.leaving)}
        )
    return LaidOut(Estate(estate.about, objects), tuple(found), real, frozenset(sources))


def _placed(wanted: WantedSet, member: Member, estate: Estate) -> Member:
    if member.exists or member.faults:
        return member
    place, faults = place_of(wanted, estate)
    return replace(member, place=place, faults=(*member.faults, *faults))


def _with_nics(found: Found, member: Member, addresses: Mapping[tuple[int, str], MemberNic], estate: Estate) -> Member:
    own = []
    for nic in found.play.wanted.nics:
        given = addresses.get((member.index, nic.name))
        mac = mac_address(estate.about.instance, member.set, member.index, nic.name)
        own.append(given if given is not None else MemberNic(nic.name, mac))
    return replace(member, nics=tuple(own))
