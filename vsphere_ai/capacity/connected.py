"""Connected components of sets that overlap. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TypeVar

Member = TypeVar("Member", bound=Hashable)


def leaders(sets: Iterable[Collection[Member]]) -> dict[Member, Member]:
    """Return for every member of the sets the one that stands for its component; which one is arbitrary."""
    leader: dict[Member, Member] = {}

    def head(one: Member) -> Member:
        while leader[one] != one:
            leader[one] = leader[leader[one]]  # shortens the next search
            one = leader[one]
        return one

    for members in sets:
        for one in members:
            leader.setdefault(one, one)
        for one in members:
            leader[head(one)] = head(next(iter(members)))
    return {one: head(one) for one in leader}


def connected(sets: Sequence[Collection[Member]]) -> list[list[int]]:
    """Return the indices of sets that share members, directly or through others; an empty set is on its own."""
    leader = leaders(sets)
    found: dict[Hashable, list[int]] = defaultdict(list)
    for at, members in enumerate(sets):
        found[("of", leader[next(iter(members))]) if members else ("empty", at)].append(at)
    return list(found.values())
