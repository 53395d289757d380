"""Plays that make VMs, and what is found of the members of their sets: what a command needs to know without any set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from vsphere_ai.language.inventories import patterns
from vsphere_ai.language.playbooks.play import Play, Playbook
from vsphere_ai.model.facts import Estate, grouped
from vsphere_ai.model.vm_sets import Member, is_planned_ref
from vsphere_ai.resources.makes_vms import MakesVms, WantedSet
from vsphere_ai.resources.mixins import HasSockets


@dataclass(frozen=True)
class SetPlay:
    """A play that makes VMs: what it says of them, and their names by their places in its pattern."""

    play: Play
    kind: MakesVms
    wanted: WantedSet
    names: Mapping[int, str]
    playbook: str = ""


@dataclass(frozen=True)
class MembersFound:
    """The members of a set and, of those that are there, the references that vCenter has for them."""

    play: SetPlay
    members: tuple[Member, ...] = ()
    real: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LaidOut:
    """An estate with the members of sets in it, under the references of their instance UUIDs.

    `real` maps these to the references that vCenter has, for the members that are there; `sources` are what the others
    are cloned of.
    """

    estate: Estate
    found: tuple[MembersFound, ...] = ()
    real: Mapping[str, str] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()

    @property
    def members(self) -> tuple[Member, ...]:
        """The members of all sets."""
        return tuple(m for each in self.found for m in each.members)

    def as_read(self, refs: Iterable[str]) -> frozenset[str]:
        """Return references as vCenter knows them, without those of VMs that do not exist yet."""
        new = {m.ref for m in self.members if not m.exists and is_planned_ref(m.ref)}
        return frozenset(self.real.get(ref, ref) for ref in refs if ref not in new)


def plays_of(playbook: Playbook | None, vcenter: str) -> tuple[SetPlay, ...]:
    """Return the plays that make VMs in a vCenter: those for it, and those that name none."""
    found = []
    for play in playbook.plays if playbook else ():
        kind = next((s.state for s in play.states if isinstance(s.state, MakesVms)), None)
        if kind is not None and play.vcenter in (vcenter, ""):
            path = playbook.path if playbook else ""
            cores = (s.state.cores_stated() for s in play.states if isinstance(s.state, HasSockets))
            wanted = replace(kind.wanted_set(), cores_per_socket=next(cores, None))
            found.append(SetPlay(play, kind, wanted, patterns.members(play.pattern), path))
    return tuple(_joined(found))


def _joined(plays: Iterable[SetPlay]) -> Iterator[SetPlay]:
    """Join what a run that goes on has of one play in several parts, which differ in their other kinds only."""
    for parts in grouped(plays, lambda p: (p.wanted.name, p.play.pattern)).values():
        targets = [p.play.targets for p in parts]
        every = None if None in targets else tuple(sorted({t for own in targets for t in own or ()}))
        yield replace(parts[0], play=replace(parts[0].play, targets=every))


def makes_vms(playbook: Playbook | None) -> bool:
    """Return whether a play of a playbook makes VMs."""
    return any(isinstance(s.state, MakesVms) for p in (playbook.plays if playbook else ()) for s in p.states)
