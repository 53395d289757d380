"""GPU of a host with the vGPUs that run on it, and what it can take next. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Literal

from vsphere_ai.gpu.catalog import Board, Profile
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.vgpus.mixed_sizes import MAX_VGPUS, MixedState, added, mixed_state
from vsphere_ai.gpu.vgpus.ondemand import MigState, claim, claim_share, join, mig_state, opened
from vsphere_ai.gpu.vgpus.vgpu import InstanceShare, VgpuNameError, VgpuProfile, mig_profile, parse, share_of

# mixed sizes need Ampere or newer (NVIDIA vGPU User Guide, "vGPUs with different amounts of frame buffer")
_EQUAL_SIZES_ONLY = ("maxwell", "pascal", "volta", "turing")

Mode = Literal["mig", "time_sliced"]
Takes = Profile | InstanceShare | VgpuProfile
"""What a vGPU takes of a GPU: an instance, a part of one, or its time-sliced size."""
Shared = tuple[InstanceShare, int, int]
"""A share, the start of its instance, and how many vGPUs it has."""
Vector = tuple[int, ...]
"""How many vGPUs of each of several profiles."""


@dataclass(frozen=True)
class StayingVgpu:
    """A vGPU of a VM that stays where it is; `start` is where on the GPU, None if not known.

    It is the memory slice on a GPU in MIG mode, the place in GB on one in mixed-size mode.
    """

    vm: str
    profile: str
    start: int | None = None


@dataclass(frozen=True)
class Sharing:
    """What may share one time-sliced GPU: `mixed` sizes (vSphere 8.0 U3), `any_series` of one size (8.0 U2)."""

    mixed: bool = False
    any_series: bool = False


@dataclass(eq=False)
class GpuKind:
    """Everything that decides what an empty GPU takes; equal kinds are one object (see `GpuSlot.kind`)."""

    board: Board
    mode: Mode
    sharing: Sharing
    offered: frozenset[str] | None
    spellings: tuple[str, ...] | None
    driver_major: int | None
    explicit: bool
    fixed: bool

    def __post_init__(self) -> None:
        self.mixed = self.sharing.mixed and self.board.architecture not in _EQUAL_SIZES_ONLY
        self._known: dict[str, Takes | None] = {}

    def takes(self, name: str) -> Takes | None:
        """Return what is behind a vGPU profile name; None when this GPU never takes it."""
        if name not in self._known:
            self._known[name] = self._resolve(name)
        return self._known[name]

    def _resolve(self, name: str) -> Takes | None:
        try:
            parsed = parse(name)
        except VgpuNameError:
            return None
        spellings = self.spellings or self.board.vgpu_names
        if parsed.stem not in spellings or (self.offered is not None and name not in self.offered):
            return None
        if parsed.is_mig:
            return self._instance(parsed) if self.mode == "mig" else None
        memory = self.board.memory_gb
        fits = (memory is not None and 0 < parsed.fb_gb <= memory) or parsed.ending in self.board.types
        return parsed if self.mode == "time_sliced" and fits else None

    def _instance(self, name: VgpuProfile) -> Takes | None:
        """The host's own list makes a name a part of an instance even where NVIDIA publishes no such type."""
        return share_of(self.board, name, listed=self.offered is not None) or mig_profile(self.board, name)


@dataclass(frozen=True)
class TimeSlicedState:
    """What shares a time-sliced GPU in same-size mode: how many vGPUs of each (framebuffer in GB, series)."""

    counts: tuple[tuple[tuple[int, str], int], ...] = ()

    @property
    def total(self) -> int:
        """Number of vGPUs."""
        return sum(n for _, n in self.counts)


State = MigState | TimeSlicedState | MixedState
_kind = cache(GpuKind)


@dataclass(frozen=True)
class GpuSlot:
    """A GPU of a host. `running` vGPUs never move; `instances` are GPU instances made beforehand, idle ones included.

    An instance in `instances` that is in use needs no entry in `running` to count. `offered` holds the profile names
    the host lists (None: whatever the catalogue says), `spellings` how those of the board begin (None: all).
    `unsure` means that VMs may use the GPU of which nothing more is known. With `explicit`, instances can be made at
    any legal start beforehand; else vSphere makes them where the driver puts them. With `fixed`, none are made.
    """

    host: str
    pci: str
    board: Board
    mode: Mode
    running: tuple[StayingVgpu, ...] = ()
    instances: tuple[Instance, ...] = ()
    sharing: Sharing = Sharing()
    offered: frozenset[str] | None = None
    spellings: tuple[str, ...] | None = None
    driver_major: int | None = None
    unsure: bool = False
    explicit: bool = False
    fixed: bool = False

    @cached_property
    def kind(self) -> GpuKind:
        """What an empty GPU like this one takes; the same object for all that are alike."""
        mine = self.offered, self.spellings, self.driver_major, self.explicit, self.fixed
        return _kind(self.board, self.mode, self.sharing, *mine)

    @property
    def has_places(self) -> bool:
        """Return whether it matters where on the GPU a vGPU is."""
        return self.mode == "mig" or self.kind.mixed

    @cached_property
    def present(self) -> tuple[Instance, ...]:
        """The GPU instances on it, those of running VMs in use; one of unknown start is where vSphere would make it."""
        return self._matched[0]

    @cached_property
    def guessed(self) -> bool:
        """Return whether the place of something that runs here is not known, so that a fit is none for certain."""
        return self.assumed or (isinstance(self.state, MixedState) and bool(self.state.unplaced))

    @cached_property
    def assumed(self) -> bool:
        """Return whether a place is assumed for something that runs here: a refusal is none for certain either."""
        return self.unsure or self._matched[1]

    @cached_property
    def _matched(self) -> tuple[tuple[Instance, ...], bool, tuple[Shared, ...]]:
        return _present(self)

    @cached_property
    def state(self) -> State:
        """The state it is in now."""
        if self.mode == "mig":
            mig = mig_state(self.board, self.present)
            for share, start, used in self._matched[2]:
                mig = opened(mig, share, start, used)
            return mig
        named = [(parsed, one.start) for one in self.running if (parsed := _parsed(one.profile)) is not None]
        if self.kind.mixed:
            return mixed_state(self.board, [(parsed.fb_gb, start) for parsed, start in named])
        state = TimeSlicedState()
        for parsed, _ in named:
            state = _added(state, parsed)
        return state


def _present(slot: GpuSlot) -> tuple[tuple[Instance, ...], bool, tuple[Shared, ...]]:
    """Match running vGPUs with instances: by start, else with any idle instance of the profile, else as vSphere would.

    Which of several instances of one profile a VM holds changes nothing: they are interchangeable.
    """
    found = list(slot.instances)
    guessed = False
    open_profiles: list[Profile] = []
    shares: dict[InstanceShare, list[int | None]] = {}
    for one in slot.running:
        takes = slot.kind.takes(one.profile)
        if isinstance(takes, InstanceShare):
            shares.setdefault(takes, []).append(one.start)
        if not isinstance(takes, Profile):
            continue  # it runs under a mode that the GPU is about to leave
        if not _held(found, takes, one.start):
            open_profiles.append(takes)
    for profile in sorted(open_profiles, key=slot.board.largest_first.index):
        guessed = True
        _made(slot, found, profile)
    shared = [one for share, starts in shares.items() for one in _divided(slot, found, share, starts)]
    # where several share instances, which of them do is known only by their starts
    guessed |= any(start is None for starts in shares.values() for start in starts)
    return tuple(sorted(found, key=lambda i: i.start)), guessed, tuple(shared)


def _held(found: list[Instance], profile: Profile, start: int | None) -> Instance | None:
    """Mark the instance that a vGPU holds; with a start that is not listed, add it. None when it is not known."""
    at = next((n for n, i in enumerate(found) if _holds(i, profile, start)), None)
    if at is not None:
        found[at] = replace(found[at], in_use=True)
        return found[at]
    if start is not None:
        found.append(Instance(profile.name, start, in_use=True))
        return found[-1]
    return None


def _made(slot: GpuSlot, found: list[Instance], profile: Profile) -> Instance | None:
    got = claim(slot.board, mig_state(slot.board, found), profile, slot.driver_major)
    if got is None:
        return None
    found.append(Instance(profile.name, got[1], in_use=True))
    return found[-1]


def _divided(slot: GpuSlot, found: list[Instance], share: InstanceShare, starts: Sequence[int | None]) -> list[Shared]:
    """Fill the instances that vGPUs of one size share: where they are known to be first, then as few as possible."""
    used = Counter(start for start in starts if start is not None)
    for known in used:
        _held(found, share.profile, known)
    left = sum(start is None for start in starts)
    while left:
        at = next((place for place, n in used.items() if n < share.per_instance), None)
        if at is None:
            instance = _held(found, share.profile, None) or _made(slot, found, share.profile)
            if instance is None:
                break
            at = instance.start
        more = min(left, share.per_instance - used[at])
        used[at] += more
        left -= more
    return [(share, start, n) for start, n in used.items()]


def _holds(instance: Instance, profile: Profile, start: int | None) -> bool:
    same = instance.profile_name == profile.name and not instance.in_use
    return same and start in (None, instance.start)


def _parsed(name: str) -> VgpuProfile | None:
    with suppress(VgpuNameError):
        return parse(name)
    return None


def _added(state: TimeSlicedState, one: VgpuProfile) -> TimeSlicedState:
    counts = dict(state.counts)
    counts[one.fb_gb, one.series] = counts.get((one.fb_gb, one.series), 0) + 1
    return TimeSlicedState(tuple(sorted(counts.items())))


@lru_cache(maxsize=1 << 16)
def step(kind: GpuKind, state: State, name: str) -> tuple[State, int | None] | None:
    """Return the GPU's state once a vGPU has been given to a VM, and where on the GPU, if known; None if it cannot."""
    takes = kind.takes(name)
    if isinstance(takes, Profile) and isinstance(state, MigState):
        if kind.fixed and all(p.profile != takes for p in state.idle):
            return None
        return claim(kind.board, state, takes, kind.driver_major)
    if isinstance(takes, InstanceShare) and isinstance(state, MigState):
        if kind.fixed and join(state, takes) is None and all(p.profile != takes.profile for p in state.idle):
            return None
        return claim_share(kind.board, state, takes, kind.driver_major)
    if not isinstance(takes, VgpuProfile):
        return None
    if isinstance(state, MixedState):
        return added(kind.board, state, takes.fb_gb)
    if isinstance(state, TimeSlicedState) and _equal_fits(kind, state, takes):
        return _added(state, takes), None
    return None


def max_equal(board: Board, fb_gb: int, series: str = "c") -> int:
    """Return how many vGPUs of one size share a GPU; computed from the framebuffer where NVIDIA publishes no count."""
    listed = board.types.get(f"{fb_gb}{series}".upper())
    if listed or board.memory_gb is None:
        return listed if listed is not None else 0  # of unknown memory nothing is known to fit
    return min(MAX_VGPUS, board.memory_gb // fb_gb)


def _equal_fits(kind: GpuKind, state: TimeSlicedState, wanted: VgpuProfile) -> bool:
    """The first VM fixes the size (before vSphere 8.0 U2 the series as well) until the GPU is empty again."""
    same = all(fb == wanted.fb_gb and (kind.sharing.any_series or s == wanted.series) for (fb, s), _ in state.counts)
    series = {wanted.series, *(s for (_, s), _ in state.counts)}
    return same and state.total < min(max_equal(kind.board, wanted.fb_gb, s) for s in series)


def most(kind: GpuKind, state: State, name: str) -> int:
    """Return how many vGPUs of one profile a GPU in that state can still take."""
    count = 0
    got = step(kind, state, name)
    while got is not None:
        count += 1
        got = step(kind, got[0], name)
    return count


def plus(one: Vector, other: Sequence[int]) -> Vector:
    """Add two vectors."""
    return tuple(a + b for a, b in zip(one, other, strict=True))
