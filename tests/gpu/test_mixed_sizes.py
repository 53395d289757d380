"""Places in mixed-size mode against NVIDIA's published lists, and against a search that knows no rule."""

import itertools
import random

import pytest

from vsphere_ai.gpu.catalog import board, boards
from vsphere_ai.gpu.vgpus.combinations import combinations
from vsphere_ai.gpu.vgpus.mixed_sizes import MixedState, added, free_places, mixed_state, places, surely_fits
from vsphere_ai.gpu.vgpus.slot import GpuSlot, Sharing

# "Supported Placement IDs" of the NVIDIA Virtual GPU Software User Guide, vGPU placements for GPUs in mixed-size mode
FOURS = (0, 6, 10, 16, 20, 26, 30, 36, 40, 46, 50, 56, 60, 66, 70, 76)
PUBLISHED = {
    "a100-40gb": {4: FOURS[:8], 5: range(0, 40, 5), 8: (0, 12, 20, 32), 10: range(0, 40, 10), 20: (0, 20), 40: (0,)},
    "a100-80gb": {4: FOURS, 8: (0, 12, 20, 32, 40, 52, 60, 72), 16: (0, 24, 40, 64), 20: (0, 20, 40, 60), 80: (0,)},
    "h100-80gb-pcie": {5: range(0, 80, 5), 8: (0, 12, 20, 32, 40, 52, 60, 72), 10: range(0, 80, 10), 40: (0, 40)},
    "h100-94gb": {
        4: (0, 7, 11, 19, 23, 31, 35, 43, 47, 54, 58, 66, 70, 78, 82, 90),
        6: (0, 17, 23, 41, 47, 64, 70, 88),
        11: (0, 12, 23, 36, 47, 59, 70, 83),
        15: (0, 32, 47, 79),
        23: (0, 24, 47, 71),
        47: (0, 47),
        94: (0,),
    },
    "l40-48gb": {4: (0, 8, 12, 20, 24, 32, 36, 44), 6: range(0, 48, 6), 8: (0, 16, 24, 40), 16: (0, 32), 24: (0, 24)},
    "l4-24gb": {4: (0, 8, 12, 20), 6: (0, 6, 12, 18), 8: (0, 16), 12: (0, 12), 24: (0,)},
    "rtx-pro-6000-blackwell": {8: range(0, 96, 8), 12: range(0, 96, 12), 16: range(0, 96, 16), 32: (0, 32, 64)},
}
A100, L40 = board("a100-40gb"), board("l40-48gb")


@pytest.mark.parametrize(
    ("key", "size"), [(key, size) for key, sizes in PUBLISHED.items() for size in sizes], ids=lambda value: str(value)
)
def test_the_places_that_nvidia_publishes(key, size):
    assert places(board(key), size) == tuple(PUBLISHED[key][size])


def test_places_of_one_size_never_overlap_and_are_on_the_gpu():
    for each in boards():
        for size in range(1, each.memory_gb + 1):
            found = places(each, size)
            assert found[0] == 0
            assert all(a + size <= b for a, b in itertools.pairwise((*found, each.memory_gb))), (each.key, size)
    assert places(A100, 0) == ()


def test_memory_between_two_vgpus_is_of_use_to_sizes_with_a_place_there():
    halves = mixed_state(A100, [(10, 10), (10, 30)])
    assert halves == MixedState(((1 << 10) - 1) << 10 | ((1 << 10) - 1) << 30)
    assert added(A100, halves, 20) is None, "20 GB are free, in two halves"
    assert added(A100, halves, 10) == (mixed_state(A100, [(10, 0), (10, 10), (10, 30)]), 0)
    # a 16C and an 8C share half of an L40: the 16C begins where the half begins, one 8C ends where it ends
    assert added(L40, mixed_state(L40, [(16, 0)]), 8) == (mixed_state(L40, [(16, 0), (8, 16)]), 16)
    assert free_places(L40, mixed_state(L40, [(8, 0)]).taken, 16) == (32,)


def test_the_place_that_keeps_most_of_the_others_open_is_taken():
    assert added(A100, mixed_state(A100, [(10, 30)]), 10) == (mixed_state(A100, [(10, 20), (10, 30)]), 20)
    assert added(L40, MixedState(), 8) == (mixed_state(L40, [(8, 16)]), 16)


def test_places_that_are_not_known():
    somewhere = mixed_state(A100, [(10, None), (10, 0)])
    assert somewhere.unplaced == (10,)
    assert added(A100, somewhere, 20) == (MixedState(somewhere.taken, (20, 10)), None), "if the other 10C is at 10"
    assert added(A100, added(A100, somewhere, 20)[0], 5) is None, "40 GB are in use wherever they are"
    assert added(A100, mixed_state(A100, [(10, None)] * 2), 40) is None
    # what is not where its size can be, or where something is, is not believed
    assert mixed_state(A100, [(10, 5)]).unplaced == (10,)
    assert mixed_state(A100, [(10, 0), (10, 0)]).unplaced == (10,)
    # and no place is left open that its vGPUs fill in any case
    assert mixed_state(A100, [(20, None), (10, 0), (10, 10)]) == mixed_state(A100, [(20, 20), (10, 0), (10, 10)])
    assert mixed_state(A100, [(40, None)]) == mixed_state(A100, [(40, 0)])


def test_an_order_that_depends_on_the_places_that_come_first():
    assert surely_fits(A100, MixedState(), (20, 10, 10))
    assert surely_fits(A100, MixedState(), (10, 20))
    assert not surely_fits(A100, MixedState(), (10, 10, 20)), "two 10C may be in two halves"
    assert not surely_fits(A100, mixed_state(A100, [(10, None)]), ())


def every_count(of, taken, sizes):
    """How many of each size fit together, by trying every place of every vGPU."""
    first = (frozenset(taken), (0,) * len(sizes))
    seen, todo = {first}, [first]
    while todo:
        now, counts = todo.pop()
        for at, size in enumerate(sizes):
            for start in places(of, size):
                part = frozenset(range(start, start + size))
                more = (now | part, (*counts[:at], counts[at] + 1, *counts[at + 1 :]))
                if not now & part and more not in seen:
                    seen.add(more)
                    todo.append(more)
    return {counts for _, counts in seen}


@pytest.mark.parametrize(
    "key", [b.key for b in boards() if b.time_sliced and b.architecture not in ("volta", "turing")]
)
def test_what_fits_is_what_any_choice_of_places_makes_fit(key):
    """On empty and part-filled GPUs, and where places are not known: then whatever some places of them leave."""
    of, dice = board(key), random.Random(key)
    known = sorted(t.fb_gb for t in of.time_sliced)
    stem = of.vgpu_names[0]
    for _ in range(4):
        few = [size for size in known if len(places(of, size)) <= 8]
        sizes = sorted(dice.sample(few, min(3, len(few))))
        there: list[tuple[int, int]] = []
        for size in dice.choices(known, k=dice.randint(0, 3)):
            free = free_places(of, mixed_state(of, there).taken, size)
            there += [(size, dice.choice(free))] if free else []
        running = tuple({gb for size, start in there for gb in range(start, start + size)})
        slot = GpuSlot("esx1", "0000:3b:00.0", of, "time_sliced", sharing=Sharing(mixed=True))
        names = tuple(f"{stem}-{size}c" for size in sizes)
        expected = every_count(of, running, sizes)
        assert combinations(slot.kind, mixed_state(of, there), names) == expected, (there, sizes)
        anywhere = mixed_state(of, [(size, None) for size, _ in there])
        assert expected <= combinations(slot.kind, anywhere, names), (there, sizes)
