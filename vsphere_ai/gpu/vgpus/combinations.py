"""Combinations of vGPUs that one GPU has room for, and those that nothing can be added to. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import le
from typing import cast

from vsphere_ai.gpu.catalog import Profile
from vsphere_ai.gpu.vgpus.ondemand import MigState, claims, join, opened
from vsphere_ai.gpu.vgpus.slot import GpuKind, State, Vector, plus, step
from vsphere_ai.gpu.vgpus.vgpu import InstanceShare


def _steps(kind: GpuKind, state: State, name: str) -> Sequence[tuple[State, int | None]]:
    takes = kind.takes(name)
    if kind.explicit and not kind.fixed and isinstance(state, MigState):
        if isinstance(takes, Profile):
            return claims(kind.board, state, takes, kind.driver_major)
        if isinstance(takes, InstanceShare) and join(state, takes) is None:
            made = claims(kind.board, state, takes.profile, kind.driver_major)
            return [(opened(after, takes, start), start) for after, start in made]
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
    if isinstance(state, MigState) and any(isinstance(kind.takes(name), InstanceShare) for name in names):
        filled = _filled(kind, state, names)
        return tuple(v for v in filled if not any(v != o and all(map(le, v, o)) for o in filled))
    every = combinations(kind, state, names)
    steps = [tuple(int(i == at) for i in range(len(names))) for at in range(len(names))]
    full = [v for v in every if not any(plus(v, one) in every for one in steps)]
    return tuple(sorted(full, reverse=True))


def _filled(kind: GpuKind, state: MigState, names: tuple[str, ...]) -> tuple[Vector, ...]:
    """Return the combinations in which every shared instance is full, in a stable order; every full one is among them.

    An instance is opened and filled in one step, so that it does not matter how many vGPUs share it.
    """
    groups: dict[InstanceShare, list[int]] = {}
    for at, name in enumerate(names):
        takes = kind.takes(name)
        if isinstance(takes, InstanceShare):
            groups.setdefault(takes, []).append(at)
    single = [at for at, name in enumerate(names) if isinstance(kind.takes(name), Profile)]
    counts = {(0,) * len(names)}
    for place, fb_gb, left in state.open:
        group = next((g for s, g in groups.items() if (s.profile, s.fb_gb) == (place.profile, fb_gb)), None)
        if group is not None:
            counts = {plus(v, more) for v in counts for more in _splits(left, group, len(names))}
    todo: list[tuple[MigState, Vector]] = [(replace(state, open=()), v) for v in counts]
    seen, full = set(todo), set()
    while todo:
        now, vector = todo.pop()
        ones = {at: tuple(int(i == at) for i in range(len(names))) for at in single}
        after = [(got[0], plus(vector, one)) for at, one in ones.items() for got in _steps(kind, now, names[at])]
        for share, group in groups.items():
            for got in _steps(kind, now, names[group[0]]):
                opened_ = replace(cast("MigState", got[0]), open=())
                after += [(opened_, plus(vector, more)) for more in _splits(share.per_instance, group, len(names))]
        if not after:
            full.add(vector)
        for each in cast("list[tuple[MigState, Vector]]", after):
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return tuple(sorted(full, reverse=True))


def _splits(total: int, among: Sequence[int], length: int) -> Iterator[Vector]:
    """Yield every way to divide a number among some places of a vector."""
    first, *others = among
    if not others:
        yield tuple(total if i == first else 0 for i in range(length))
        return
    for here in range(total + 1):
        for rest in _splits(total - here, others, length):
            yield plus(rest, tuple(here if i == first else 0 for i in range(length)))
