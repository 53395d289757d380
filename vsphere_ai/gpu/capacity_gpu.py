"""One GPU of a capacity question: what runs on it, what it can take next, and every combination it has room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

from vsphere_ai.gpu.catalog import Board, Profile
from vsphere_ai.gpu.ondemand import MigState, claim, claims, mig_state
from vsphere_ai.gpu.search import Instance
from vsphere_ai.gpu.vgpu import VgpuNameError, VgpuProfile, mig_profile, parse

MAX_VGPUS = 32
"""More time-sliced vGPUs than this fit on no GPU (NVIDIA vGPU User Guide)."""
# mixed sizes need Ampere or newer (NVIDIA vGPU User Guide, "vGPUs with different amounts of frame buffer")
_EQUAL_SIZES_ONLY = ("maxwell", "pascal", "volta", "turing")

Mode = Literal["mig", "time_sliced"]
Vector = tuple[int, ...]
"""How many vGPUs of each of several profiles."""


@dataclass(frozen=True)
class Running:
    """A vGPU of a VM that stays where it is; `start` is its memory slice on a GPU in MIG mode, None if not known."""

    vm: str
    profile: str
    start: int | None = None


@dataclass(frozen=True)
class Sharing:
    """What may share one time-sliced GPU: `mixed` sizes (vSphere 8.0 U3), `any_series` of one size (8.0 U2)."""

    mixed: bool = False
    any_series: bool = False


class GpuKind:
    """Everything that decides what an empty GPU takes; equal kinds are one object (see `GpuSlot.kind`)."""

    def __init__(self, slot: GpuSlot) -> None:
        self.board, self.mode, self.driver_major = slot.board, slot.mode, slot.driver_major
        self.offered, self.spellings = slot.offered, slot.spellings or slot.board.vgpu_boards
        self.any_series, self.explicit, self.fixed = slot.sharing.any_series, slot.explicit, slot.fixed
        self.mixed = slot.sharing.mixed and slot.board.architecture not in _EQUAL_SIZES_ONLY
        self._known: dict[str, Profile | VgpuProfile | None] = {}

    def takes(self, name: str) -> Profile | VgpuProfile | None:
        """Return the MIG profile or time-sliced size behind a vGPU profile name; None when this GPU never takes it."""
        if name not in self._known:
            self._known[name] = self._resolve(name)
        return self._known[name]

    def _resolve(self, name: str) -> Profile | VgpuProfile | None:
        try:
            parsed = parse(name)
        except VgpuNameError:
            return None
        if parsed.board not in self.spellings or (self.offered is not None and name not in self.offered):
            return None
        if parsed.is_mig:
            return mig_profile(self.board, parsed) if self.mode == "mig" else None
        return parsed if self.mode == "time_sliced" and 0 < parsed.fb_gb <= self.board.memory_gb else None


@dataclass(frozen=True)
class TimeSlicedState:
    """What shares a time-sliced GPU: how many vGPUs of each (framebuffer in GB, series)."""

    counts: tuple[tuple[tuple[int, str], int], ...] = ()

    @property
    def total(self) -> int:
        """How many vGPUs there are."""
        return sum(n for _, n in self.counts)


State = MigState | TimeSlicedState
_KINDS: dict[tuple[object, ...], GpuKind] = {}


@dataclass(frozen=True)
class GpuSlot:
    """A GPU of a host. `running` vGPUs never move; `instances` are GPU instances made beforehand, idle ones included.

    An instance in `instances` that is in use needs no entry in `running` to count. `offered` holds the profile names
    the host lists (None: whatever the catalogue says), `spellings` the board's spellings in them (None: all).
    `unsure` says that somebody uses the GPU of whom nothing more is known. With `explicit`, instances can be made at
    any legal start beforehand; else vSphere makes them where the driver puts them. With `fixed`, none are made.
    """

    host: str
    pci: str
    board: Board
    mode: Mode
    running: tuple[Running, ...] = ()
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
        key = (
            *(self.board, self.mode, self.sharing, self.offered, self.spellings),
            *(self.driver_major, self.explicit, self.fixed),
        )
        found = _KINDS.get(key)
        if found is None:
            found = _KINDS[key] = GpuKind(self)
        return found

    @cached_property
    def present(self) -> tuple[Instance, ...]:
        """The GPU instances on it, those of running VMs in use; one of unknown start is where vSphere would make it."""
        return _present(self)[0]

    @cached_property
    def guessed(self) -> bool:
        """Tell whether the place of something that runs here is not known, so that no verdict on this GPU is exact."""
        return self.unsure or _present(self)[1]

    @cached_property
    def state(self) -> State:
        """The state it is in now."""
        if self.mode == "mig":
            return mig_state(self.board, self.present)
        state = TimeSlicedState()
        for one in self.running:
            state = _added(state, one.profile)
        return state


def _present(slot: GpuSlot) -> tuple[tuple[Instance, ...], bool]:
    """Match running vGPUs with instances: by start, else with any idle instance of the profile, else as vSphere would.

    Which of several instances of one profile a VM holds changes nothing: they are interchangeable.
    """
    found = list(slot.instances)
    guessed = False
    open_profiles: list[Profile] = []
    for one in slot.running:
        profile = slot.kind.takes(one.profile)
        if not isinstance(profile, Profile):
            continue  # it runs under a mode that the GPU is about to leave
        at = next((n for n, i in enumerate(found) if _holds(i, profile, one.start)), None)
        if at is not None:
            found[at] = replace(found[at], in_use=True)
        elif one.start is not None:
            found.append(Instance(profile.name, one.start, in_use=True))
        else:
            open_profiles.append(profile)
    for profile in sorted(open_profiles, key=lambda p: (-p.memory_slices, -p.compute_slices, p.id)):
        guessed = True
        got = claim(slot.board, mig_state(slot.board, found), profile, slot.driver_major)
        if got is not None:
            found.append(Instance(profile.name, got[1], in_use=True))
    return tuple(sorted(found, key=lambda i: i.start)), guessed


def _holds(instance: Instance, profile: Profile, start: int | None) -> bool:
    same = instance.profile_name == profile.name and not instance.in_use
    return same and start in (None, instance.start)


def _added(state: TimeSlicedState, name: str) -> TimeSlicedState:
    try:
        parsed = parse(name)
    except VgpuNameError:
        return state
    counts = dict(state.counts)
    counts[parsed.fb_gb, parsed.series] = counts.get((parsed.fb_gb, parsed.series), 0) + 1
    return TimeSlicedState(tuple(sorted(counts.items())))


@lru_cache(maxsize=1 << 16)
def step(kind: GpuKind, state: State, name: str) -> tuple[State, int | None] | None:
    """Return the GPU's state once a vGPU has been given to a VM, and its memory slice under MIG; None if it cannot."""
    takes = kind.takes(name)
    if isinstance(takes, Profile) and isinstance(state, MigState):
        if kind.fixed and all(p.profile != takes for p in state.idle):
            return None
        return claim(kind.board, state, takes, kind.driver_major)
    if not isinstance(takes, VgpuProfile) or not isinstance(state, TimeSlicedState):
        return None
    fits = _mixed_fits if kind.mixed else _equal_fits
    return (_added(state, name), None) if fits(kind, state, takes) else None


def max_equal(board: Board, fb_gb: int) -> int:
    """Return how many vGPUs of one size share a GPU; computed from the framebuffer where NVIDIA publishes no count."""
    listed = next((t.max_equal for t in board.time_sliced if t.fb_gb == fb_gb), None)
    return listed or min(MAX_VGPUS, board.memory_gb // fb_gb)


def max_mixed(board: Board, fb_gb: int) -> int:
    """Return how many vGPUs of a size a GPU holds in mixed-size mode: a power of two where none is published."""
    listed = next((t.max_mixed for t in board.time_sliced if t.fb_gb == fb_gb), None)
    return listed or 1 << (min(MAX_VGPUS, board.memory_gb // fb_gb).bit_length() - 1)


def _equal_fits(kind: GpuKind, state: TimeSlicedState, wanted: VgpuProfile) -> bool:
    """The first VM fixes the size (before vSphere 8.0 U2 the series as well) until the GPU is empty again."""
    same = all(fb == wanted.fb_gb and (kind.any_series or s == wanted.series) for (fb, s), _ in state.counts)
    return same and state.total < max_equal(kind.board, wanted.fb_gb)


def _mixed_fits(kind: GpuKind, state: TimeSlicedState, wanted: VgpuProfile) -> bool:
    """In mixed-size mode a vGPU takes one of as many equal, aligned parts of the GPU as its size has placements."""
    used = sum((Fraction(n, max_mixed(kind.board, fb)) for (fb, _), n in state.counts), Fraction(0))
    return used + Fraction(1, max_mixed(kind.board, wanted.fb_gb)) <= 1


def _steps(kind: GpuKind, state: State, name: str) -> Sequence[tuple[State, int | None]]:
    takes = kind.takes(name)
    if kind.explicit and not kind.fixed and isinstance(takes, Profile) and isinstance(state, MigState):
        return claims(kind.board, state, takes, kind.driver_major)
    got = step(kind, state, name)
    return () if got is None else (got,)


@lru_cache(maxsize=4096)
def combinations(kind: GpuKind, state: State, names: tuple[str, ...]) -> frozenset[Vector]:
    """Return every count of vGPUs per name (aligned with `names`) that can power on in some order, none included.

    With a combination every smaller one is in it as well.
    """
    first: tuple[State, Vector] = (state, (0,) * len(names))
    seen, todo = {first}, [first]
    while todo:
        now, counts = todo.pop()
        for at, name in enumerate(names):
            for got in _steps(kind, now, name):
                more = (got[0], (*counts[:at], counts[at] + 1, *counts[at + 1 :]))
                if more not in seen:
                    seen.add(more)
                    todo.append(more)
    return frozenset(counts for _, counts in seen)


@lru_cache(maxsize=4096)
def full_combinations(kind: GpuKind, state: State, names: tuple[str, ...]) -> tuple[Vector, ...]:
    """Return the combinations nothing can be added to, in a stable order."""
    every = combinations(kind, state, names)
    steps = [tuple(int(i == at) for i in range(len(names))) for at in range(len(names))]
    full = [v for v in every if not any(plus(v, one) in every for one in steps)]
    return tuple(sorted(full, reverse=True))


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
