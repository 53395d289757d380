"""Exhaustive search over MIG placements with bit masks: what fits where, and the least destructive transition. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from vsphere_ai.gpu.catalog import Board, Profile
from vsphere_ai.gpu.mig.layout import LayoutItem

FOUR_PLUS_THREE_DRIVER = 510
"""4g and 3g together on one Ampere GPU need driver R510 (NVIDIA MIG User Guide)."""


@dataclass(frozen=True)
class Instance:
    """A GPU instance at a memory slice. `gi_id` is known when it exists; `in_use` when a VM or process holds it.

    `used_by` names who holds it, empty when that is not known.
    """

    profile_name: str
    start: int
    gi_id: int | None = None
    in_use: bool = False
    used_by: str = ""

    def __str__(self) -> str:
        number = "" if self.gi_id is None else f"GPU instance {self.gi_id}: "
        return f"{number}{self.profile_name} at {self.start}"


@dataclass(frozen=True)
class ProfilePlace:
    """A profile at a start: one legal place on a board."""

    profile: Profile
    start: int

    @property
    def mask(self) -> int:
        """The memory slices it takes, one bit each."""
        return ((1 << self.profile.memory_slices) - 1) << self.start

    @property
    def instance(self) -> Instance:
        """The instance that would stand there."""
        return Instance(self.profile.name, self.start)


@dataclass(frozen=True)
class WantedInstance:
    """A wanted instance whose profile the board has; `start` None leaves the place open."""

    profile: Profile
    start: int | None = None

    @property
    def starts(self) -> tuple[int, ...]:
        """The legal starts that would do; empty when the wanted start is not legal."""
        if self.start is None:
            return self.profile.starts
        return (self.start,) if self.start in self.profile.starts else ()


@dataclass(frozen=True)
class Transition:
    """The way to a layout: what stays, what goes (never one in use), what is made with explicit starts."""

    keep: tuple[Instance, ...]
    destroy: tuple[Instance, ...]
    create: tuple[Instance, ...]

    @property
    def is_noop(self) -> bool:
        """Return whether the GPU is already in the desired state."""
        return not self.destroy and not self.create


def resolve(board: Board, items: Iterable[LayoutItem]) -> tuple[tuple[WantedInstance, ...], tuple[LayoutItem, ...]]:
    """Sort items into those whose profile the board has, and those it does not know."""
    known, unknown = [], []
    for item in items:
        profile = board.find_profile(item.profile)
        if profile is None:
            unknown.append(item)
        else:
            known.append(WantedInstance(profile, item.start))
    return tuple(known), tuple(unknown)


def spots(board: Board, instances: Iterable[Instance]) -> tuple[ProfilePlace, ...]:
    """Return the places of instances; `UnknownProfile` when the board has no such profile."""
    return tuple(ProfilePlace(board.profile(i.profile_name), i.start) for i in instances)


def allowed(board: Board, profiles: Sequence[Profile], driver_major: int | None = None) -> bool:
    """Return whether rules beyond the placement let these profiles stand together on one GPU."""
    if any(n > p.max_instances for p, n in Counter(profiles).items()) or sum(p.media for p in profiles) > 1:
        return False
    if without_engines(profiles):
        return False
    if driver_major is None:
        return True
    return not (any(needs_newer(p, driver_major) for p in profiles) or four_plus_three(board, profiles, driver_major))


def without_engines(profiles: Sequence[Profile]) -> tuple[Profile, ...]:
    """Return the profiles that get no media engine, because another one of them takes all (``+me.all``)."""
    if not any(p.all_media for p in profiles):
        return ()
    return tuple(p for p in profiles if not p.all_media and not p.no_media)


def needs_newer(profile: Profile, driver_major: int | None) -> bool:
    """Return whether the profile appeared after that driver branch."""
    return driver_major is not None and profile.min_driver is not None and profile.min_driver > driver_major


def four_plus_three(board: Board, profiles: Iterable[Profile], driver_major: int | None) -> bool:
    """Return whether 4g and 3g are to share a GPU under a driver that does not let them."""
    old = driver_major is not None and driver_major < FOUR_PLUS_THREE_DRIVER
    return old and board.architecture == "ampere" and {3, 4} <= {p.compute_slices for p in profiles}


def arrangements(wanted: Sequence[WantedInstance], taken: int = 0) -> Iterator[tuple[ProfilePlace, ...]]:
    """Yield every way to place all of `wanted` beside the slices of the bit mask `taken`, in the order searched.

    Items with the fewest starts come first, which keeps the search tiny; equal items go in ascending starts, so no
    arrangement is met twice.
    """
    order = sorted(wanted, key=lambda w: (len(w.starts), -w.profile.memory_slices, w.profile.id, w.starts))
    choices = [[(spot, spot.mask) for spot in (ProfilePlace(w.profile, s) for s in w.starts)] for w in order]
    twins = [at > 0 and order[at - 1] == item for at, item in enumerate(order)]

    def search(at: int, used: int, done: tuple[ProfilePlace, ...]) -> Iterator[tuple[ProfilePlace, ...]]:
        if at == len(order):
            yield done
            return
        for spot, mask in choices[at]:
            if not used & mask and not (twins[at] and spot.start < done[-1].start):
                yield from search(at + 1, used | mask, (*done, spot))

    return search(0, taken, ())


def move(
    board: Board, present: Sequence[Instance], wanted: Sequence[WantedInstance], *, driver_major: int | None = None
) -> Transition | None:
    """Return the transition with the fewest destroyed instances, none of them in use; None when there is none."""
    busy = [i for i in present if i.in_use]
    rest = without(wanted, spots(board, busy))
    if rest is None or not allowed(board, [w.profile for w in wanted], driver_major):
        return None
    stay = spots(board, busy)
    idle = {ProfilePlace(board.profile(i.profile_name), i.start): i for i in present if not i.in_use}
    best = min(
        arrangements(rest, mask_of(stay)),
        key=lambda a: (len(idle.keys() - set(a)), _rank(board, a, stay)),
        default=None,
    )
    if best is None:
        return None
    keep = [*busy, *(i for s, i in idle.items() if s in best)]
    destroy = [i for s, i in idle.items() if s not in best]
    create = [s for s in best if s not in idle]
    return Transition(_by_start(keep), _by_start(destroy), instances(create))


def without(wanted: Sequence[WantedInstance], stay: Iterable[ProfilePlace]) -> list[WantedInstance] | None:
    """Return what is still wanted beside instances that must stay; None when one of these is not wanted."""
    rest = list(wanted)
    for spot in stay:
        # An item that names this very start must not be left over by giving the instance to an open item.
        match = next((w for w in rest if w == WantedInstance(spot.profile, spot.start)), None)
        match = match or next((w for w in rest if w == WantedInstance(spot.profile)), None)
        if match is None:
            return None
        rest.remove(match)
    return rest


def best_arrangement(
    board: Board, wanted: Sequence[WantedInstance], stay: Sequence[ProfilePlace] = ()
) -> tuple[ProfilePlace, ...] | None:
    """Return the places for all of `wanted` that leave most room for further large instances; None without any."""
    return min(arrangements(wanted, mask_of(stay)), key=lambda a: _rank(board, a, stay), default=None)


def mask_of(places: Iterable[ProfilePlace]) -> int:
    """Return the memory slices of several places as one bit mask."""
    mask = 0
    for spot in places:
        mask |= spot.mask
    return mask


def room(board: Board, taken: int) -> tuple[int, ...]:
    """Return for each profile, largest first, how many more could be made beside the slices of a bit mask.

    Starts of one profile never overlap each other, so counting free starts is exact.
    """
    return tuple(min(most, sum(not taken & mask for mask in masks)) for most, masks in _masks(board))


@cache
def _masks(board: Board) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Per profile, largest first: how many a GPU holds at most, and the slices taken at each start."""
    return tuple((p.max_instances, tuple(ProfilePlace(p, s).mask for s in p.starts)) for p in board.largest_first)


def _rank(
    board: Board, chosen: Sequence[ProfilePlace], stay: Sequence[ProfilePlace]
) -> tuple[tuple[int, ...], list[int]]:
    left = room(board, mask_of(chosen) | mask_of(stay))
    return tuple(-n for n in left), [s.start for s in largest_first(chosen)]


def largest_first(chosen: Iterable[ProfilePlace]) -> list[ProfilePlace]:
    """Sort places by the size of what stands there, then by start."""
    return sorted(chosen, key=lambda s: (-s.profile.compute_slices, -s.profile.memory_slices, s.profile.name, s.start))


def instances(chosen: Iterable[ProfilePlace]) -> tuple[Instance, ...]:
    """Return what would stand at these places, largest first: the order to create them in."""
    return tuple(s.instance for s in largest_first(chosen))


def _by_start(instances: Iterable[Instance]) -> tuple[Instance, ...]:
    return tuple(sorted(instances, key=lambda i: i.start))


def plain_profiles(board: Board) -> tuple[Profile, ...]:
    """Return one profile per number of compute slices: without media or graphics extras, with the least memory."""
    plain: dict[int, Profile] = {}
    for profile in sorted(board.profiles, key=lambda p: (p.memory_slices, len(p.name))):
        plain.setdefault(profile.compute_slices, profile)
    return tuple(sorted(plain.values(), key=lambda p: p.compute_slices))


def placed_layouts(
    board: Board, profiles: Sequence[Profile], driver_major: int | None = None
) -> Iterator[tuple[ProfilePlace, ...]]:
    """Yield every legal set of places of these profiles once, by start, the empty one included."""
    every = sorted((ProfilePlace(p, s) for p in profiles for s in p.starts), key=lambda s: (s.start, s.profile.id))

    def extend(index: int, used: int, chosen: tuple[ProfilePlace, ...]) -> Iterator[tuple[ProfilePlace, ...]]:
        yield chosen
        for at in range(index, len(every)):
            spot = every[at]
            if not used & spot.mask and allowed(board, [s.profile for s in (*chosen, spot)], driver_major):
                yield from extend(at + 1, used | spot.mask, (*chosen, spot))

    return extend(0, 0, ())


def full_layouts(
    board: Board, profiles: Sequence[Profile], driver_major: int | None = None
) -> tuple[tuple[ProfilePlace, ...], ...]:
    """Return the sets of places nothing can be added to, those with the largest instances first."""
    every = list(placed_layouts(board, profiles, driver_major))
    partial = {frozenset(layout) - {spot} for layout in every for spot in layout}
    full = [layout for layout in every if frozenset(layout) not in partial]
    return tuple(
        sorted(full, key=lambda layout: [(-s.profile.memory_slices, -s.profile.compute_slices) for s in layout])
    )
