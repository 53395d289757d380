"""Fragmentation of a GPU in MIG mode: unusable slices, and the room gained by moving instances. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from vsphere_ai.gpu.catalog import Board, Profile
from vsphere_ai.gpu.mig.search import Instance, ProfilePlace, WantedInstance, allowed, arrangements, mask_of, spots


@dataclass(frozen=True)
class ProfileRoom:
    """How many more instances of a profile fit `now`, and `after` the others were placed anew.

    `move` is the cheapest set of instances whose move makes room for one more: fewest in use, then fewest, then
    smallest; empty when moving gains nothing.
    """

    profile: str
    now: int
    after: int
    move: tuple[Instance, ...] = ()


@dataclass(frozen=True)
class Fragmentation:
    """Free memory slices of a GPU, those that no profile can use with the current layout, and the room per profile."""

    free: tuple[int, ...]
    stranded: tuple[int, ...]
    profiles: tuple[ProfileRoom, ...]


def fragmentation(board: Board, instances: Iterable[Instance], *, driver_major: int | None = None) -> Fragmentation:
    """Return how the free slices of a GPU can be used; `UnknownProfile` when the board lacks an instance's profile."""
    return _found(board, tuple(instances), driver_major)


@lru_cache(maxsize=4096)  # thousands of GPUs of a farm hold one of a few layouts
def _found(board: Board, present: tuple[Instance, ...], driver_major: int | None) -> Fragmentation:
    places = spots(board, present)
    taken = mask_of(places)
    free = tuple(s for s in range(board.memory_slices) if not taken >> s & 1)
    standing = [p.profile for p in places]
    usable = 0
    for profile in board.profiles:
        if allowed(board, [*standing, profile], driver_major):
            usable |= mask_of(s for s in (ProfilePlace(profile, at) for at in profile.starts) if not s.mask & taken)
    stranded = tuple(s for s in free if not usable >> s & 1)
    rooms = (_room(board, present, profile, driver_major) for profile in board.largest_first)
    return Fragmentation(free, stranded, tuple(rooms))


def _room(board: Board, present: Sequence[Instance], profile: Profile, driver: int | None) -> ProfileRoom:
    now = _most(board, spots(board, present), (), profile, driver)
    after = _most(board, (), spots(board, present), profile, driver)
    move = _cheapest(board, present, [profile] * (now + 1), driver) if after > now else ()
    return ProfileRoom(profile.name, now, after, move)


def _most(
    board: Board, fixed: Sequence[ProfilePlace], loose: Sequence[ProfilePlace], profile: Profile, driver: int | None
) -> int:
    """Return how many instances of a profile fit beside fixed places, and beside instances that may stand anywhere."""
    count = 0
    while _fits(board, fixed, [*(p.profile for p in loose), *[profile] * (count + 1)], driver):
        count += 1
    return count


def _fits(board: Board, fixed: Sequence[ProfilePlace], profiles: Sequence[Profile], driver: int | None) -> bool:
    if not allowed(board, [*(p.profile for p in fixed), *profiles], driver):
        return False
    return next(arrangements([WantedInstance(p) for p in profiles], mask_of(fixed)), None) is not None


def _cheapest(
    board: Board, present: Sequence[Instance], wanted: Sequence[Profile], driver: int | None
) -> tuple[Instance, ...]:
    """Return the cheapest instances to place anew, on the same GPU, so that the wanted ones fit beside all of them."""
    places = dict(zip(present, spots(board, present), strict=True))

    def cost(moved: Sequence[Instance]) -> tuple[int, int, int]:
        return sum(i.in_use for i in moved), len(moved), sum(places[i].profile.memory_slices for i in moved)

    choices = [moved for size in range(1, len(present) + 1) for moved in combinations(present, size)]

    def fits(moved: Sequence[Instance]) -> bool:
        fixed = [places[i] for i in present if i not in moved]
        return _fits(board, fixed, [*(places[i].profile for i in moved), *wanted], driver)

    # moving all of them is among the choices, and is known to do
    return next(moved for moved in sorted(choices, key=cost) if fits(moved))
