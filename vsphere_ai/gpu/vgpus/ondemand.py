"""GPU instances that vSphere makes as VMs power on: at the default starts of the driver, in that order. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from vsphere_ai.gpu.catalog import Board, Profile
from vsphere_ai.gpu.mig.search import Instance, ProfilePlace, WantedInstance, allowed, best_arrangement, spots
from vsphere_ai.gpu.vgpus.vgpu import InstanceShare

# The driver's own order of starts on boards with 7 compute slices, by memory slices of the profile: NVIDIA documents
# the legal starts only; this order was seen on A100, H100 and H200. An illegal start is never in a profile's `starts`.
_SEVEN_SLICES = {1: (6, 4, 5, 0, 1, 2, 3), 2: (4, 0, 2, 6), 4: (4, 0), 8: (0,)}


@dataclass(frozen=True)
class MigState:
    """A GPU in MIG mode, as far as it decides what can power on next.

    `mask` has one bit per memory slice that an instance stands on; `idle` are the instances that wait for a VM;
    `tags` the profiles present that exclude others by a rule (media engines, a small maximum, 4g beside 3g).
    """

    mask: int
    idle: tuple[ProfilePlace, ...] = ()
    tags: tuple[Profile, ...] = ()
    open: tuple[tuple[ProfilePlace, int, int], ...] = ()
    """Instances that time-sliced vGPUs share: (where, framebuffer in GB of each, how many more it takes)."""


@cache
def default_starts(board: Board, profile: Profile) -> tuple[int, ...]:
    """Return the legal starts in the order in which the driver tries them when it is given none.

    For boards with 4 slices no order is known; ascending is assumed.
    """
    if board.compute_slices != len(_SEVEN_SLICES[1]):
        return profile.starts
    first = _SEVEN_SLICES.get(profile.memory_slices, ())
    return (*(s for s in first if s in profile.starts), *(s for s in profile.starts if s not in first))


def mig_state(board: Board, present: Iterable[Instance]) -> MigState:
    """Return the state of a GPU with these instances; those not in use serve the next VM of their profile."""
    instances = tuple(present)
    places = spots(board, instances)
    mask = 0
    for place in places:
        mask |= place.mask
    idle = [p for p, i in zip(places, instances, strict=True) if not i.in_use]
    return MigState(
        mask, tuple(sorted(idle, key=lambda p: (p.start, p.profile.id))), _tags(board, [p.profile for p in places])
    )


@lru_cache(maxsize=1 << 16)
def claim(
    board: Board, state: MigState, profile: Profile, driver_major: int | None = None
) -> tuple[MigState, int] | None:
    """Return the state once a VM with that profile has powered on, and the start of its instance; None if it cannot.

    An idle instance of the profile is taken first; otherwise one is made at the first default start that is free.
    """
    ready = next((p for p in state.idle if p.profile == profile), None)
    if ready is not None:
        return replace(state, idle=tuple(p for p in state.idle if p != ready)), ready.start
    if not allowed(board, (*state.tags, profile), driver_major):
        return None
    for start in default_starts(board, profile):
        mask = ProfilePlace(profile, start).mask
        if not state.mask & mask:
            tags = _tags(board, (*state.tags, profile))
            return replace(state, mask=state.mask | mask, tags=tags), start
    return None


def claim_share(
    board: Board, state: MigState, share: InstanceShare, driver_major: int | None = None
) -> tuple[MigState, int] | None:
    """Return the state once a VM shares an instance, and that instance's start; None if it cannot.

    An instance that has vGPUs of this size and room is taken first; otherwise one is claimed as for a VM of its own.
    """
    joined = join(state, share)
    if joined is not None:
        return joined
    got = claim(board, state, share.profile, driver_major)
    return None if got is None else (opened(got[0], share, got[1]), got[1])


def join(state: MigState, share: InstanceShare) -> tuple[MigState, int] | None:
    """Return the state once one more vGPU shares an instance that is shared already; None when none has room."""
    found = next((o for o in state.open if (o[0].profile, o[1]) == (share.profile, share.fb_gb)), None)
    if found is None:
        return None
    rest = tuple(o for o in state.open if o != found)
    left = ((found[0], found[1], found[2] - 1),) if found[2] > 1 else ()
    return replace(state, open=_ordered((*rest, *left))), found[0].start


def opened(state: MigState, share: InstanceShare, start: int, used: int = 1) -> MigState:
    """Return the state with an instance at `start` that so many vGPUs of a share use."""
    left = share.per_instance - used
    more = ((ProfilePlace(share.profile, start), share.fb_gb, left),) if left > 0 else ()
    return replace(state, open=_ordered((*state.open, *more)))


def _ordered(found: Iterable[tuple[ProfilePlace, int, int]]) -> tuple[tuple[ProfilePlace, int, int], ...]:
    return tuple(sorted(found, key=lambda o: (o[0].start, o[0].profile.id, o[1])))


def claims(
    board: Board, state: MigState, profile: Profile, driver_major: int | None = None
) -> tuple[tuple[MigState, int], ...]:
    """Return every state `claim` could lead to if the start were chosen, as it is in a layout made beforehand."""
    if any(p.profile == profile for p in state.idle):
        taken = claim(board, state, profile, driver_major)
        return (taken,) if taken else ()
    if not allowed(board, (*state.tags, profile), driver_major):
        return ()
    tags = _tags(board, (*state.tags, profile))
    places = [ProfilePlace(profile, start) for start in profile.starts]
    return tuple(
        (replace(state, mask=state.mask | p.mask, tags=tags), p.start) for p in places if not state.mask & p.mask
    )


def best_order(
    board: Board, present: Iterable[Instance], profiles: Iterable[str], *, driver_major: int | None = None
) -> tuple[str, ...] | None:
    """Return an order in which VMs with these MIG profiles can all power on, largest first if that works; else None."""
    wanted = Counter(board.profile(name) for name in profiles)
    kinds = sorted(wanted, key=lambda p: (-p.memory_slices, -p.compute_slices, p.name))
    dead: set[tuple[MigState, tuple[int, ...]]] = set()

    def search(state: MigState, left: tuple[int, ...]) -> tuple[str, ...] | None:
        if not any(left):
            return ()
        if (state, left) in dead:
            return None
        for at, profile in enumerate(kinds):
            got = claim(board, state, profile, driver_major) if left[at] else None
            if got is not None:
                rest = search(got[0], (*left[:at], left[at] - 1, *left[at + 1 :]))
                if rest is not None:
                    return (profile.name, *rest)
        dead.add((state, left))
        return None

    return search(mig_state(board, present), tuple(wanted[k] for k in kinds))


def unreachable(
    board: Board, present: Iterable[Instance], profiles: Iterable[str], *, driver_major: int | None = None
) -> str | None:
    """Return a warning when the profiles fit on the GPU, but only with explicit starts, which vSphere does not give.

    None when some power-on order works, and when they do not fit at all.
    """
    now, names = tuple(present), tuple(profiles)
    if best_order(board, now, names, driver_major=driver_major) is not None:
        return None
    stay, rest = _unclaimed(board, now, names)
    together = [s.profile for s in stay] + [w.profile for w in rest]
    if not allowed(board, together, driver_major) or best_arrangement(board, rest, stay) is None:
        return None
    listed = ", ".join(names)
    return (
        f"{listed} fit on one {board.title}, but in no power-on order: the driver's default starts block each other; "
        "state a layout with explicit starts, which is made before the VMs power on"
    )


def _unclaimed(
    board: Board, present: Sequence[Instance], names: Sequence[str]
) -> tuple[list[ProfilePlace], list[WantedInstance]]:
    """Return what stands on the GPU, and what has to be made because no idle instance serves it."""
    idle = Counter(i.profile_name for i in present if not i.in_use)
    rest = []
    for profile in map(board.profile, names):
        if idle[profile.name]:
            idle[profile.name] -= 1
        else:
            rest.append(WantedInstance(profile))
    return list(spots(board, present)), rest


def _tags(board: Board, profiles: Iterable[Profile]) -> tuple[Profile, ...]:
    return tuple(sorted((p for p in profiles if p in _telling(board)), key=lambda p: p.id))


@cache
def _telling(board: Board) -> frozenset[Profile]:
    """Return the profiles whose presence excludes others by more than the slices they take."""
    engines = any(p.all_media for p in board.profiles)
    return frozenset(
        p
        for p in board.profiles
        if p.media
        or (engines and not p.no_media)
        or p.max_instances < len(p.starts)
        or (board.architecture == "ampere" and board.compute_slices > 4 and p.compute_slices in (3, 4))
    )
