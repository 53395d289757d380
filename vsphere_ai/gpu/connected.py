"""What hangs together through sets that overlap."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import TypeVar

Member = TypeVar("Member", bound=Hashable)


def leaders(sets: Iterable[Collection[Member]]) -> dict[Member, Member]:
    """Return for every member of the sets the one that stands for all it is connected with; which one is arbitrary."""
    leader: dict[Member, Member] = {}

    def head(one: Member) -> Member:
        while leader[one] != one:
            leader[one] = leader[leader[one]]  # makes the next way shorter
            one = leader[one]
        return one

    for members in sets:
        for one in members:
            leader.setdefault(one, one)
        for one in members:
            leader[head(one)] = head(next(iter(members)))
    return {one: head(one) for one in leader}
