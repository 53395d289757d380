"""Assignment of places to those that ask for one, each with places of its own that would do (bipartite matching)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

Place = TypeVar("Place", bound=Hashable)


def assigned(allowed: Sequence[Sequence[Place]]) -> dict[int, Place]:
    """Give each of several askers one of the places it allows, as many askers as can have one; asker -> place.

    An asker gets the first place that is free, so that equals keep their order, and one that has a place keeps one
    whatever comes after it (Kuhn).
    """
    holder: dict[Place, int] = {}

    def place_for(asker: int, tried: set[Place]) -> bool:
        free = next((p for p in allowed[asker] if p not in holder), None)
        if free is not None:
            holder[free] = asker
            return True
        for place in allowed[asker]:
            if place not in tried:
                tried.add(place)
                if place_for(holder[place], tried):
                    holder[place] = asker
                    return True
        return False

    for asker in range(len(allowed)):
        place_for(asker, set())
    return {asker: place for place, asker in holder.items()}
