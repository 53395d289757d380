"""Choice of hosts on as few leaf switches as the VMs of sets have room on: one leaf per rail where that is possible."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from vsphere_ai.model.facts import grouped
from vsphere_ai.sets.choice import Chooser, HostChoice, MemberNeed
from vsphere_ai.sets.leaves import Rails

MOST_CLASSES = 10
"""Kinds of hosts by their leaves of which every combination is tried; of more: pairs, then the roomiest together."""
Leaf = tuple[str, ...]
"""Leaf of a host for each rail."""


@dataclass(frozen=True)
class OnLeaves:
    """What was chosen for a set: in words; and whether every rail of it is on one leaf."""

    words: str
    one: bool


@dataclass(frozen=True)
class LeafChoice:
    """Hosts of VMs, and what is said of the rails of each set that has leaves."""

    choice: HostChoice
    sets: Mapping[str, OnLeaves] = field(default_factory=dict)


def choose(chooser: Chooser, needs: Sequence[MemberNeed], rails: Mapping[str, Rails]) -> LeafChoice:
    """Return hosts for all VMs: first as few leaves per set as possible, then as the chooser spreads them.

    Sets are decided in the order of their names, each with room for all the others.
    """
    left = list(needs)
    known = {name: each for name, each in sorted(rails.items()) if each.names}
    reasons = {}
    for name, own in known.items():
        left, reasons[name] = _narrowed(chooser, left, name, own)
    choice = chooser.choose(left)
    if choice.refused:
        return LeafChoice(choice)
    hosts = {
        name: {choice.hosts[n.name] for n in needs if n.set == name} | _there(chooser, name, own)
        for name, own in known.items()
    }
    return LeafChoice(choice, {n: _said(hosts[n], own, reasons[n]) for n, own in known.items()})


def _there(chooser: Chooser, name: str, rails: Rails) -> set[str]:
    """Return the hosts with VMs of a set that are there."""
    return {h for h, room in chooser.rooms.items() if room.sets.get(name) and h in rails.leaves}


def cost(used: set[Leaf]) -> int:
    """Return on how many leaves rails are, all rails together; one that the inventory does not name counts double."""
    return sum(2 if leaf == "" else 1 for rail in zip(*used, strict=True) for leaf in set(rail))


def _narrowed(chooser: Chooser, needs: list[MemberNeed], name: str, rails: Rails) -> tuple[list[MemberNeed], str]:
    """Return needs in which the VMs of a set may only be on the hosts of the fewest leaves that have room; and why."""
    own = [n for n in needs if n.set == name]
    hosts = sorted({h for n in own for h in n.hosts})
    classes = grouped(hosts, lambda h: rails.leaves[h])
    there = {rails.leaves[h] for h in _there(chooser, name, rails)}
    room = {h: _most(chooser, h, own) for h in hosts}
    for chosen in _candidates(classes, there, room, chooser):
        among = frozenset(h for leaf in chosen for h in classes[leaf])
        if any(sum(room[h][kind] for h in among & kind.hosts) < n for kind, n in _kinds(own).items()):
            continue
        tried = [replace(n, hosts=n.hosts & among) if n.set == name else n for n in needs]
        found = chooser.choose(tried)
        if not found.refused and (not chooser.spare or chooser.survives(found.hosts, tried)):
            return tried, _reason(classes, there, room, own)
    return needs, _reason(classes, there, room, own)


def _candidates(
    classes: Mapping[Leaf, Sequence[str]],
    there: set[Leaf],
    room: Mapping[str, Mapping[MemberNeed, int]],
    chooser: Chooser,
) -> Iterator[tuple[Leaf, ...]]:
    """Yield combinations of hosts that are alike by their leaves: those on the fewest leaves first."""
    names = sorted(classes)
    if len(names) <= MOST_CLASSES:
        several = [c for size in range(1, len(names) + 1) for c in combinations(names, size)]
    else:
        order = sorted(names, key=lambda leaf: (leaf not in there, -sum(sum(room[h].values()) for h in classes[leaf])))
        several = [*combinations(names, 1), *combinations(names, 2)]
        several += [tuple(order[:size]) for size in range(3, len(names) + 1)]

    def rank(chosen: tuple[Leaf, ...]) -> tuple[object, ...]:
        hosts = [h for leaf in chosen for h in classes[leaf]]
        return cost({*chosen, *there}), -len(hosts), sorted(chooser.rooms[h].rank for h in hosts), chosen

    yield from sorted(several, key=rank)


def _kinds(needs: Sequence[MemberNeed]) -> dict[MemberNeed, int]:
    return {kind: len(own) for kind, own in grouped(needs, lambda n: n.alike).items()}


def _most(chooser: Chooser, host: str, needs: Sequence[MemberNeed]) -> dict[MemberNeed, int]:
    """Return how many VMs of each kind alone a host takes."""
    found = {}
    for kind, count in _kinds(needs).items():
        few, many = 0, count if host in kind.hosts else 0
        while few < many:
            middle = (few + many + 1) // 2
            fits = chooser.takes(host, (kind,) * middle)
            few, many = (middle, many) if fits else (few, middle - 1)
        found[kind] = few
    return found


# -- what is said


def _said(hosts: Collection[str], rails: Rails, reason: str) -> OnLeaves:
    parts, whole = [], True
    for at, rail in enumerate(rails.names):
        leaves = sorted({rails.leaves[h][at] for h in hosts})
        whole &= len(leaves) == 1 and leaves != [""]
        unnamed = sorted(h for h in hosts if not rails.leaves[h][at])
        known = [leaf for leaf in leaves if leaf]
        known += [f"a leaf of {', '.join(unnamed)} that the inventory does not name"] if unnamed else []
        parts.append(f"{rail} on {' and '.join(known)}")
    words = ", ".join(parts)
    return OnLeaves(words if whole else f"{words}: {reason}", whole)


def _reason(
    classes: Mapping[Leaf, Sequence[str]],
    there: set[Leaf],
    room: Mapping[str, Mapping[MemberNeed, int]],
    own: Sequence[MemberNeed],
) -> str:
    """Return why a set is not on one leaf, for the case that it is not."""
    if len(there) > 1:
        return "VMs of the set are on several leaves already"
    kinds = _kinds(own)
    found = []
    for leaf, hosts in sorted(classes.items()):
        if all(leaf) and (not there or leaf in there):
            least = min(min(sum(room[h][kind] for h in hosts), n) for kind, n in kinds.items())
            found.append(f"{' and '.join(dict.fromkeys(leaf))} has room for {least} of {len(own)} VMs")
    if there and not found:
        return "no host on the leaf of its other VMs can run them"
    return "; ".join(found[:6]) or "the inventory names no leaf of the hosts"
