"""Places of time-sliced vGPUs on a GPU in mixed-size mode. Pure.

A type of vGPU begins at a few fixed places only, counted in GB of the frame buffer from 0 on: the `Placement ID` of
nvidia-smi. Free memory between two vGPUs is of use only to types with a place in it (NVIDIA Virtual GPU Software User
Guide, "vGPU placements for GPUs in mixed-size mode").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations, groupby

from vsphere_ai.gpu.catalog import Board

MAX_VGPUS = 32
"""More vGPUs than this share no GPU out of MIG mode (NVIDIA vGPU User Guide)."""
MOST = 4096
"""Ways in which vGPUs may come to be on a GPU that are looked at."""
Sizes = tuple[int, ...]
"""Frame buffers of vGPUs in GB, the largest first."""


@dataclass(frozen=True)
class MixedState:
    """What shares a GPU in mixed-size mode: `taken` has one bit per GB of the frame buffer that is in use.

    `unplaced` are the sizes of vGPUs that are there as well, of which the place is not known.
    """

    taken: int = 0
    unplaced: Sizes = ()


def max_mixed(board: Board, fb_gb: int) -> int:
    """Return how many places vGPUs of a size have in mixed-size mode: a power of two where none is published."""
    listed = next((t.max_mixed for t in board.time_sliced if t.fb_gb == fb_gb), None)
    if fb_gb < 1:
        return 0
    if listed:
        return listed
    if board.memory_gb is None:  # then nothing is known to fit
        return 0
    return 1 << max(min(MAX_VGPUS, board.memory_gb // fb_gb).bit_length() - 1, 0)


@cache
def places(board: Board, fb_gb: int) -> tuple[int, ...]:
    """Return where vGPUs of a size may begin, in GB.

    The frame buffer is divided into as many equal parts as there are places. In every other part the vGPU ends where
    the part ends, in the others it begins where the part begins, in whole GB. This gives the places of every type of
    every board in the guide.
    """
    count, memory = max_mixed(board, fb_gb), board.memory_gb
    if memory is None:
        return ()
    begins = (part * memory // count for part in range(0, count, 2))
    ends = ((part + 1) * memory // count for part in range(1, count, 2))
    return tuple(sorted((*begins, *(end - fb_gb for end in ends))))


def free_places(board: Board, taken: int, fb_gb: int) -> tuple[int, ...]:
    """Return the places of a size at which nothing is."""
    return tuple(start for start in places(board, fb_gb) if not taken & _bits(start, fb_gb))


def mixed_state(board: Board, running: Iterable[tuple[int, int | None]]) -> MixedState:
    """Return the state of a GPU with vGPUs of these sizes, each with its place as nvidia-smi shows it, if known.

    A place that its size does not have, or where another vGPU is, is not believed.
    """
    taken, unplaced = 0, list[int]()
    for fb_gb, start in sorted(running, key=lambda one: one[1] is None):
        if start is not None and start in free_places(board, taken, fb_gb):
            taken |= _bits(start, fb_gb)
        elif places(board, fb_gb):
            unplaced.append(fb_gb)
    return _settled(board, taken, _ordered(unplaced))


@lru_cache(maxsize=1 << 14)
def added(board: Board, state: MixedState, fb_gb: int) -> tuple[MixedState, int | None] | None:
    """Return the state with one more vGPU, and its place; None where there is no room.

    vSphere takes the place that keeps most of the others open; of equal ones the first is assumed (Frank Denneman,
    "Mixed Size vGPU Mode in Practice", 2026). Beside vGPUs of unknown place it is in the way of none of them.
    """
    if state.unplaced:
        every = _ordered((*state.unplaced, fb_gb))
        return (MixedState(state.taken, every), None) if _find_room(board, state.taken, every) else None
    free = free_places(board, state.taken, fb_gb)
    if not free:
        return None
    start = max(free, key=lambda at: (_left(board, state.taken | _bits(at, fb_gb)), -at))
    return MixedState(state.taken | _bits(start, fb_gb)), start


def surely_fits(board: Board, state: MixedState, sizes: Iterable[int]) -> bool:
    """Return whether vGPUs that come in this order have room whichever of its free places each of them is given."""
    groups = [(size, len(list(same))) for size, same in groupby(sizes)]
    every = frozenset({state.taken})
    for at, (size, count) in enumerate(groups if not state.unplaced else ()):
        free = [(taken, free_places(board, taken, size)) for taken in every]
        if any(len(own) < count for _, own in free):
            return False
        if at < len(groups) - 1:
            every = frozenset(more for taken, own in free for more in _with(taken, own, size, count))
        if len(every) > MOST:
            return False
    return not state.unplaced


def _left(board: Board, taken: int) -> tuple[int, ...]:
    """Return how many places are left for each size of C-series types, the largest first."""
    sizes = sorted({t.fb_gb for t in board.time_sliced}, reverse=True)
    return tuple(len(free_places(board, taken, size)) for size in sizes)


def _settled(board: Board, taken: int, unplaced: Sizes) -> MixedState:
    """Return a state in which vGPUs that fill every free place of their size are known to be there."""
    for size, count in Counter(unplaced).items():
        free = free_places(board, taken, size)
        if len(free) == count:
            for start in free:
                taken |= _bits(start, size)
            return _settled(board, taken, tuple(other for other in unplaced if other != size))
    return MixedState(taken, unplaced)


@lru_cache(maxsize=1 << 14)
def _find_room(board: Board, taken: int, sizes: Sizes) -> bool:
    """Return whether vGPUs have room together somewhere: places of one size never overlap, those of several do."""
    if not sizes:
        return True
    if board.memory_gb is None or sum(sizes[1:]) > board.memory_gb - taken.bit_count():
        return False
    free, count = free_places(board, taken, sizes[0]), sizes.count(sizes[0])
    if len(free) < count or count == len(sizes):
        return len(free) >= count
    return any(_find_room(board, more, sizes[count:]) for more in _with(taken, free, sizes[0], count))


def _with(taken: int, free: tuple[int, ...], size: int, count: int) -> Iterator[int]:
    for chosen in combinations(free, count):
        yield taken | sum(_bits(start, size) for start in chosen)


def _bits(start: int, fb_gb: int) -> int:
    return ((1 << fb_gb) - 1) << start


def _ordered(sizes: Iterable[int]) -> Sizes:
    return tuple(sorted(sizes, reverse=True))
