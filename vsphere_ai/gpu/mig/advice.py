"""Reasons, with numbers, why a MIG layout does not fit, and the closest layouts that do. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from vsphere_ai.gpu.catalog import NO_PLACEMENTS, Board, Profile
from vsphere_ai.gpu.mig.layout import LayoutItem
from vsphere_ai.gpu.mig.search import (
    FOUR_PLUS_THREE_DRIVER,
    Instance,
    ProfilePlace,
    WantedInstance,
    allowed,
    arrangements,
    best_arrangement,
    four_plus_three,
    largest_first,
    mask_of,
    needs_newer,
    plain_profiles,
    resolve,
    spots,
    without,
    without_engines,
)

MAX_POOLED = 28
"""Instances `pool` distributes; more than four GPUs' worth is a question for a capacity plan."""

_EXTRA = re.compile(r"^\d+g\.\d+gb")
_TIMES = {1: "once", 2: "twice"}


@dataclass(frozen=True)
class Layout:
    """A legal layout of one GPU with explicit starts, largest instance first."""

    instances: tuple[Instance, ...]
    ids: tuple[int, ...]
    short: str
    """The usual spelling by compute slices, e.g. ``4-2-1``; what is not plain stays visible: ``3-1+me-1g.10gb``."""

    @property
    def cgi(self) -> str:
        """The value for ``nvidia-smi mig -cgi``, e.g. ``5:0,14:4,19:6``; any order of creation works with it."""
        return ",".join(f"{number}:{i.start}" for number, i in zip(self.ids, self.instances, strict=True))


def reasons(
    board: Board, wanted: Sequence[LayoutItem], busy: Sequence[Instance] = (), *, driver_major: int | None = None
) -> tuple[str, ...]:
    """Return every reason why the layout cannot be made while the `busy` instances stay; empty if it can."""
    if not board.mig_capable:
        return (f"{board.title} has no MIG",)
    if board.named_profiles:
        return tuple(_unpublished(board, wanted))
    known, unknown = resolve(board, wanted)
    found = [
        *_sums(board, known),
        *(_unknown(board, item) for item in dict.fromkeys(unknown)),
        *_counts(known),
        *_starts(known),
        *_driver(board, known, driver_major),
    ]
    if not found and best_arrangement(board, known) is None:
        found.append("the sums fit, but no legal starts are free for all of them: " + _listed(known))
    return tuple(found) + tuple(_busy(board, known, busy, alone=not found))


def nearest(
    board: Board,
    wanted: Sequence[LayoutItem],
    busy: Sequence[Instance] = (),
    *,
    driver_major: int | None = None,
    limit: int = 5,
) -> tuple[Layout, ...]:
    """Return the legal layouts closest to a request, made of its own profiles, `busy` instances included.

    Closest first: drops fewest of the wanted instances, then adds fewest, then uses most slices. A name of another
    board counts as this board's profile with as many compute slices.
    """
    stay = spots(board, busy)
    want, fixed = Counter(_valid_part(board, wanted)), Counter(s.profile for s in stay)

    def distance(candidate: Counter[Profile]) -> tuple[int, int, int, int]:
        return (want - candidate).total(), (candidate - want).total(), -_compute(candidate), -_memory(candidate)

    chosen: list[Counter[Profile]] = []
    layouts: list[Layout] = []
    for candidate in sorted(_legal(board, _kinds([*want, *fixed]), driver_major), key=distance):
        if len(layouts) == limit:
            break
        if not candidate or any(candidate <= c for c in chosen) or not fixed <= candidate:
            continue
        found = best_arrangement(board, [WantedInstance(p) for p in (candidate - fixed).elements()], stay)
        if found is not None:
            chosen.append(candidate)
            layouts.append(_layout(board, (*stay, *found)))
    return tuple(layouts)


def pool(
    board: Board, wanted: Sequence[LayoutItem], *, driver_major: int | None = None, most_gpus: int = 4
) -> tuple[Layout, ...] | None:
    """Return layouts for as few GPUs as can hold the valid part of a request; None when `most_gpus` do not suffice.

    Starts that were asked for are not kept: on several GPUs they mean nothing.
    """
    profiles = _valid_part(board, wanted)
    if not profiles or len(profiles) > MAX_POOLED:
        return None
    kinds = _kinds(profiles)
    legal = sorted(_legal(board, kinds, driver_major), key=lambda c: [-c[k] for k in kinds])

    def split(left: Counter[Profile], gpus: int) -> list[Counter[Profile]] | None:
        if not left:
            return []
        if _memory(left) <= gpus * board.memory_slices and (frozenset(left.items()), gpus) not in dead:
            largest = next(k for k in kinds if left[k])
            # The largest instance has to go somewhere: only layouts that hold it are worth trying.
            for take in (c for c in legal if c[largest] and c <= left):
                rest = split(left - take, gpus - 1)
                if rest is not None:
                    return [take, *rest]
            dead.add((frozenset(left.items()), gpus))
        return None

    dead: set[tuple[frozenset[tuple[Profile, int]], int]] = set()
    answers = (split(Counter(profiles), gpus) for gpus in range(1, most_gpus + 1))
    found = next((a for a in answers if a is not None), None)
    if found is None:
        return None
    places = (best_arrangement(board, [WantedInstance(p) for p in each.elements()]) for each in found)
    return tuple(_layout(board, each or ()) for each in places)


def _unpublished(board: Board, wanted: Iterable[LayoutItem]) -> Iterator[str]:
    """Say what is known of a request when NVIDIA publishes no more than the names of the profiles."""
    yield NO_PLACEMENTS
    for name in dict.fromkeys(i.profile for i in wanted):
        if not name.isdecimal() and name not in board.profile_names:
            yield f"no profile {name} on this GPU; its profiles are {', '.join(board.profile_names)}"


def _sums(board: Board, known: Sequence[WantedInstance]) -> Iterator[str]:
    profiles = Counter(w.profile for w in known)
    compute, memory = _compute(profiles), _memory(profiles)
    if compute > board.compute_slices:
        yield f"{compute} of {board.compute_slices} compute slices"
    if memory > board.memory_slices:
        yield f"{memory} of {board.memory_slices} memory slices"


def _unknown(board: Board, item: LayoutItem) -> str:
    text = f"no profile {item.profile} on this GPU"
    other = _same_slices(board, item.profile)
    return f"{text}; its {other.compute_slices}g is {other.name}" if other else text


def _counts(known: Sequence[WantedInstance]) -> Iterator[str]:
    for profile, wanted in Counter(w.profile for w in known).items():
        most = profile.max_instances
        if wanted > most and not profile.media:
            yield f"{profile.name} fits {_TIMES.get(most, f'{most} times')}, {wanted} wanted"
    media = [w.profile.name for w in known if w.profile.media]
    if len(media) > 1:
        yield f"{len(media)} instances with media extensions ({', '.join(media)}), a GPU has one set"
    left = without_engines([w.profile for w in known])
    if left:
        all_of_them = next(w.profile.name for w in known if w.profile.all_media)
        names = ", ".join(dict.fromkeys(p.name for p in left))
        yield f"{all_of_them} takes every media engine of the GPU; beside it only -me profiles fit, not {names}"


def _starts(known: Sequence[WantedInstance]) -> Iterator[str]:
    for item in dict.fromkeys(w for w in known if not w.starts):
        legal = ", ".join(str(s) for s in item.profile.starts)
        yield f"{item.profile.name} cannot start at memory slice {item.start}, only at {legal}"


def _driver(board: Board, known: Sequence[WantedInstance], driver_major: int | None) -> Iterator[str]:
    for profile in dict.fromkeys(w.profile for w in known if needs_newer(w.profile, driver_major)):
        yield f"{profile.name} needs driver R{profile.min_driver} or newer, the host has R{driver_major}"
    if four_plus_three(board, (w.profile for w in known), driver_major):
        yield f"4g and 3g on one GPU need driver R{FOUR_PLUS_THREE_DRIVER} or newer, the host has R{driver_major}"


def _busy(board: Board, known: Sequence[WantedInstance], busy: Sequence[Instance], *, alone: bool) -> Iterator[str]:
    rest = list(known)
    untrusted = False
    for instance, spot in zip(busy, spots(board, busy), strict=True):
        left = without(rest, [spot])
        if left is None:
            untrusted = True
            yield f"{instance} is in use{_by([instance])} and not part of the layout"
        else:
            rest = left
    if busy and alone and not untrusted and best_arrangement(board, rest, spots(board, busy)) is None:
        yield from _fragmentation(board, rest, busy)


def _fragmentation(board: Board, rest: Sequence[WantedInstance], busy: Sequence[Instance]) -> Iterator[str]:
    """Say which instances find no place although the sums fit, and who stands in the way of each place."""
    standing = spots(board, busy)
    taken = mask_of(standing)
    free = board.memory_slices - taken.bit_count()
    alone = False
    for item in dict.fromkeys(rest):
        places = [ProfilePlace(item.profile, start) for start in item.starts]
        if any(not place.mask & taken for place in places):
            continue
        alone = True
        wall = mask_of(places)
        blockers = [i for i, spot in zip(busy, standing, strict=True) if spot.mask & wall]
        yield f"{free} free memory slices, but {_no_place(board, item, places)}: {_held(blockers)}"
    if not alone:
        yield f"{free} free memory slices, but not for {_listed(rest)} together: {_held(busy)}"


def _no_place(board: Board, item: WantedInstance, places: Sequence[ProfilePlace]) -> str:
    name, spans = LayoutItem(item.profile.name, item.start), " or ".join(_span(p) for p in places)
    if len(places) == 1:
        return f"the only place for {name} (memory slices {spans}) is not free"
    half = 2 * item.profile.memory_slices == board.memory_slices
    return f"no free {'half' if half else 'place'} for {name} (memory slices {spans})"


def _span(place: ProfilePlace) -> str:
    size = place.profile.memory_slices
    return str(place.start) if size == 1 else f"{place.start}-{place.start + size - 1}"


def _held(blockers: Sequence[Instance]) -> str:
    ordered = sorted(blockers, key=lambda i: i.start)
    if len({i.used_by for i in ordered}) == 1:
        return f"{', '.join(map(str, ordered))} {'is' if len(ordered) == 1 else 'are'} in use{_by(ordered)}"
    return f"{', '.join(f'{i} ({i.used_by})' if i.used_by else str(i) for i in ordered)} are in use"


def _by(same: Sequence[Instance]) -> str:
    return f" by {same[0].used_by}" if same[0].used_by else ""


def _listed(items: Iterable[WantedInstance]) -> str:
    return ", ".join(str(LayoutItem(w.profile.name, w.start)) for w in items)


def _short(profile: Profile, plain: Sequence[Profile]) -> str:
    if any(p.compute_slices == profile.compute_slices and p.memory_slices == profile.memory_slices for p in plain):
        return f"{profile.compute_slices}{_EXTRA.sub('', profile.name)}"
    return profile.name


def _same_slices(board: Board, name: str) -> Profile | None:
    slices, dot, _ = name.partition("g.")
    same = (p for p in board.profiles if dot and str(p.compute_slices) == slices)
    return min(same, key=lambda p: (p.memory_slices, p.name), default=None)


def _valid_part(board: Board, wanted: Iterable[LayoutItem]) -> list[Profile]:
    found = (board.find_profile(i.profile) or _same_slices(board, i.profile) for i in wanted)
    return [p for p in found if p is not None]


def _kinds(profiles: Iterable[Profile]) -> tuple[Profile, ...]:
    return tuple(sorted(set(profiles), key=lambda p: (-p.compute_slices, -p.memory_slices, p.name)))


def _compute(profiles: Counter[Profile]) -> int:
    return sum(p.compute_slices for p in profiles.elements())


def _memory(profiles: Counter[Profile]) -> int:
    return sum(p.memory_slices for p in profiles.elements())


@lru_cache(maxsize=256)
def _legal(board: Board, kinds: tuple[Profile, ...], driver_major: int | None) -> tuple[Counter[Profile], ...]:
    """Return every combination of these kinds that an empty GPU can hold, the empty one included."""

    def extend(index: int, chosen: tuple[Profile, ...]) -> Iterator[Counter[Profile]]:
        if index == len(kinds):
            yield Counter(chosen)
            return
        for count in range(kinds[index].max_instances + 1):
            profiles = (*chosen, *(kinds[index],) * count)
            wanted = [WantedInstance(p) for p in profiles]
            if not allowed(board, profiles, driver_major) or next(arrangements(wanted), None) is None:
                break
            yield from extend(index + 1, profiles)

    return tuple(extend(0, ()))


def _layout(board: Board, places: Sequence[ProfilePlace]) -> Layout:
    plain = plain_profiles(board)
    ordered = largest_first(places)
    return Layout(
        tuple(s.instance for s in ordered),
        tuple(s.profile.id for s in ordered),
        "-".join(_short(s.profile, plain) for s in ordered),
    )
