"""The search against an oracle that shares nothing with it but the catalogue: plain sets of slices, brute force."""

import itertools
import random
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from vsphere_ai.gpu.catalog import UnknownProfile, board, boards
from vsphere_ai.gpu.mig.advice import nearest, pool
from vsphere_ai.gpu.mig.layout import LayoutItem, parse
from vsphere_ai.gpu.mig.placement import Impossible, transition
from vsphere_ai.gpu.mig.search import Instance, Transition, full_layouts, placed_layouts, plain_profiles

A100 = board("a100-40gb")
A30 = board("a30-24gb")


def place(of, wanted, kept=(), driver_major=None):
    """Places for all of `wanted` beside instances that stay; None when there are none."""
    stay = [replace(i, in_use=True) for i in kept]
    items = [*(LayoutItem(i.profile_name, i.start) for i in stay), *wanted]
    found = transition(of, stay, items, driver_major=driver_major)
    return found.create if isinstance(found, Transition) else None


def shape(b):
    return tuple((p.id, p.compute_slices, p.memory_slices, p.starts, p.max_instances, p.media) for p in b.profiles)


# Boards with the same table need no second proof.
SHAPES = list({shape(b): b for b in reversed(boards()) if b.profiles}.values())


@cache
def oracle(key, names=None, driver=None):
    """Every legal set of (name, start) on a board."""
    b = board(key)
    profiles = [p for p in b.profiles if names is None or p.name in names]
    spots = [(p, s) for p in profiles for s in p.starts]
    found = set()

    def add(at, chosen, slices):
        found.add(frozenset((p.name, s) for p, s in chosen))
        for i in range(at, len(spots)):
            p, s = spots[i]
            own = set(range(s, s + p.memory_slices))
            if own & slices:
                continue
            if p.media and any(q.media for q, _ in chosen):
                continue
            others = [q.name for q, _ in chosen] + [p.name]
            if any(n.endswith("+me.all") for n in others) and sum(not n.endswith("-me") for n in others) > 1:
                continue  # +me.all takes every media engine
            together = {q.compute_slices for q, _ in chosen} | {p.compute_slices}
            if driver and driver < 510 and {3, 4} <= together:
                continue
            add(i + 1, [*chosen, spots[i]], slices | own)

    add(0, [], set())
    return found


def names_of(layout):
    return tuple(sorted(name for name, _ in layout))


def plain_names(b):
    return tuple(p.name for p in plain_profiles(b))


def as_set(instances):
    return frozenset((i.profile_name, i.start) for i in instances)


def items(names):
    return [LayoutItem(n) for n in names]


def test_there_are_three_families_of_boards():
    assert len(SHAPES) == 5  # three families, and two halves of a GPU with and without graphics variants


@pytest.mark.parametrize(
    ("key", "driver", "placed", "full"),
    [
        ("a100-40gb", None, 298, 19),
        ("a100-40gb", 470, 297, 18),
        ("a100-40gb", 510, 298, 19),
        ("h100-80gb-sxm", 470, 298, 19),
        ("a30-24gb", None, 26, 5),
        ("rtx-pro-6000-blackwell", None, 26, 5),
    ],
)
def test_known_numbers_of_layouts(key, driver, placed, full):
    b = board(key)
    plain = plain_profiles(b)
    if key.startswith("h100"):
        driver = None if driver is None else 530
    assert len(list(placed_layouts(b, plain, driver))) == placed
    assert len(full_layouts(b, plain, driver)) == full


def test_double_memory_layouts():
    some = [p for p in A100.profiles if not p.media]
    assert len(list(placed_layouts(A100, some))) == 723
    assert len(full_layouts(A100, some)) == 78


NINETEEN = """
    7 4-1-1-1 4-2-1 4-3 3-3 3-2-1 3-1-1-1 2-2-3 2-1-1-3 1-1-2-3 1-1-1-1-3 2-2-2-1 2-2-1-1-1 2-1-1-2-1
    2-1-1-1-1-1 1-1-2-2-1 1-1-2-1-1-1 1-1-1-1-2-1 1-1-1-1-1-1-1
"""


def test_the_nineteen_of_the_guide():
    found = {"-".join(str(s.profile.compute_slices) for s in one) for one in full_layouts(A100, plain_profiles(A100))}
    assert found == set(NINETEEN.split())


@pytest.mark.parametrize("b", SHAPES, ids=lambda b: b.key)
def test_layouts_of_all_profiles_are_those_of_the_oracle(b):
    found = [frozenset((s.profile.name, s.start) for s in one) for one in placed_layouts(b, b.profiles)]
    assert len(found) == len(set(found))
    assert set(found) == oracle(b.key)


@pytest.mark.parametrize("b", SHAPES, ids=lambda b: b.key)
def test_max_instances_is_what_fits(b):
    for p in b.profiles:
        best = max(names_of(one).count(p.name) for one in oracle(b.key))
        assert best == p.max_instances


@pytest.mark.parametrize("b", SHAPES, ids=lambda b: b.key)
def test_every_multiset_fits_exactly_when_brute_force_says_so(b):
    legal = {names_of(one): one for one in oracle(b.key)}
    size = {p.name: p.memory_slices for p in b.profiles}
    most = b.memory_slices // min(size.values()) + 1
    tried = 0
    for count in range(1, most + 1):
        for names in itertools.combinations_with_replacement(sorted(size), count):
            if sum(size[n] for n in names) > b.memory_slices + 2:
                continue
            tried += 1
            found = place(b, items(names))
            if names in legal:
                assert as_set(found) in oracle(b.key)
                assert names_of(as_set(found)) == names
            else:
                assert found is None
                answer = transition(b, (), items(names))
                assert isinstance(answer, Impossible)
                assert answer.reasons
    assert tried > len(legal)


@pytest.mark.parametrize("b", [A100, A30], ids=lambda b: b.key)
def test_every_transition_between_plain_layouts_destroys_the_minimum(b):
    layouts = oracle(b.key, plain_names(b))
    by_names = {}
    for one in layouts:
        by_names.setdefault(names_of(one), []).append(one)
    for before in layouts:
        present = [Instance(n, s, gi_id=i) for i, (n, s) in enumerate(sorted(before))]
        for names, ways in by_names.items():
            found = transition(b, present, items(names))
            assert isinstance(found, Transition)
            assert len(found.destroy) == min(len(before - way) for way in ways)
            after = as_set(found.keep) | as_set(found.create)
            assert after in layouts
            assert names_of(after) == names
            assert as_set(found.keep) | as_set(found.destroy) == before
            assert found.is_noop == (before == after)


def test_random_transitions_never_touch_what_is_in_use():
    dice = random.Random(20240703)
    layouts = sorted(oracle("a100-40gb"), key=sorted)
    by_names = {}
    for one in layouts:
        by_names.setdefault(names_of(one), []).append(one)
    verdicts = Counter()
    for _ in range(1500):
        before = dice.choice(layouts)
        busy = frozenset(s for s in before if dice.random() < 0.3)
        present = [Instance(n, s, gi_id=i + 1, in_use=(n, s) in busy) for i, (n, s) in enumerate(sorted(before))]
        names = names_of(dice.choice(layouts))
        ways = [len(before - way) for way in by_names[names] if busy <= way]
        found = transition(A100, present, items(names))
        verdicts[type(found)] += 1
        if not ways:
            assert isinstance(found, Impossible)
            assert found.reasons
            assert all("in use" in r for r in found.reasons)
            assert all(busy <= as_set(n.instances) and as_set(n.instances) in layouts for n in found.nearest)
        else:
            assert len(found.destroy) == min(ways)
            assert not any(i.in_use for i in found.destroy)
            assert as_set(found.keep) | as_set(found.create) in by_names[names]
    assert min(verdicts.values()) > 200


def test_every_reasonless_request_is_possible_and_the_other_way_round():
    dice = random.Random(7)
    for _ in range(400):
        b = dice.choice(SHAPES)
        names = [dice.choice(b.profiles).name for _ in range(dice.randint(1, 7))]
        starts = [dice.choice([None, None, None, *range(b.memory_slices)]) for _ in names]
        wanted = [LayoutItem(n, s) for n, s in zip(names, starts, strict=True)]
        possible = any(
            names_of(one) == tuple(sorted(names))
            and not Counter((n, s) for n, s in zip(names, starts, strict=True) if s is not None) - Counter(one)
            for one in oracle(b.key)
        )
        assert isinstance(transition(b, (), wanted), Transition) == possible


def refused(text, b=A100, present=(), **options):
    answer = transition(b, present, parse(text), **options)
    assert isinstance(answer, Impossible)
    return answer


def test_the_well_known_list_that_does_not_fit():
    answer = refused("nvidia-smi mig -cgi 19,14,9,5,5,2 -C")
    assert answer.reasons == (
        "14 of 7 compute slices",
        "15 of 8 memory slices",
        "no profile 2 on this GPU",
        "4g.20gb fits once, 2 wanted",
    )
    assert [(n.short, n.cgi) for n in answer.nearest] == [
        ("4-2-1", "5:0,14:4,19:6"),
        ("3-2-1", "9:4,14:0,19:2"),
        ("3-2-1-1", "9:4,14:0,19:2,19:3"),
        ("4-3", "5:0,9:4"),
        ("3-2-2", "9:4,14:0,14:2"),
    ]
    assert [(n.short, n.cgi) for n in pool(A100, parse("19,14,9,5,5,2"))] == [
        ("4-3", "5:0,9:4"),
        ("4-2-1", "5:0,14:4,19:6"),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("9,9,19", "9 of 8 memory slices"),
        ("9,9,9", "3g.20gb fits twice, 3 wanted"),
        ("14,14,14,14", "2g.10gb fits 3 times, 4 wanted"),
        ("20,20", "2 instances with media extensions (1g.5gb+me, 1g.5gb+me), a GPU has one set"),
        ("9:2", "3g.20gb cannot start at memory slice 2, only at 0, 4"),
        ("9:4,14:4", "the sums fit, but no legal starts are free for all of them: 3g.20gb:4, 2g.10gb:4"),
        ("3g.40gb", "no profile 3g.40gb on this GPU; its 3g is 3g.20gb"),
        ("6g.30gb", "no profile 6g.30gb on this GPU"),
    ],
)
def test_reasons_have_numbers(text, reason):
    assert reason in refused(text).reasons


def test_old_drivers():
    assert refused("5,9", driver_major=470).reasons == (
        "4g and 3g on one GPU need driver R510 or newer, the host has R470",
    )
    assert refused("15", driver_major=470).reasons == ("1g.10gb needs driver R510 or newer, the host has R470",)
    assert isinstance(transition(A100, (), parse("5,9"), driver_major=535), Transition)
    assert isinstance(transition(board("h100-80gb-sxm"), (), parse("5,9"), driver_major=470), Transition)
    assert place(A100, parse("5"), [Instance("3g.20gb", 4)], driver_major=470) is None
    assert all(n.short != "4-3" for n in nearest(A100, parse("5,9"), driver_major=470))
    assert [n.short for n in pool(A100, parse("5,9"), driver_major=470)] == ["4", "3"]


def test_what_is_in_use_blocks_by_name():
    busy = Instance("2g.10gb", 4, gi_id=5, in_use=True)
    answer = refused("9:4,14", present=[busy])
    assert answer.reasons == (
        "6 free memory slices, but the only place for 3g.20gb:4 (memory slices 4-7) is not free: "
        "GPU instance 5: 2g.10gb at 4 is in use",
    )
    answer = refused("9,19", present=[busy])
    assert answer.reasons == ("GPU instance 5: 2g.10gb at 4 is in use and not part of the layout",)
    assert answer.nearest[0].short == "3-2-1"
    assert str(Instance("2g.10gb", 4)) == "2g.10gb at 4"


@pytest.mark.parametrize(
    ("busy", "wanted", "reason"),
    [
        ([(5, "train-03")], "9,9,19", None),
        ([(5, "train-03"), (1, "train-03")], "9,19,19",
         "6 free memory slices, but no free half for 3g.20gb (memory slices 0-3 or 4-7): "
         "1g.5gb at 1, 1g.5gb at 5 are in use by train-03"),
        ([(5, "train-03"), (1, "")], "9,19,19",
         "6 free memory slices, but no free half for 3g.20gb (memory slices 0-3 or 4-7): "
         "1g.5gb at 1, 1g.5gb at 5 (train-03) are in use"),
        ([(1, "")], "5,19",
         "7 free memory slices, but the only place for 4g.20gb (memory slices 0-3) is not free: 1g.5gb at 1 is in use"),
        ([(5, "a"), (1, "a")], "19,19,19,9",
         "6 free memory slices, but no free half for 3g.20gb (memory slices 0-3 or 4-7): "
         "1g.5gb at 1, 1g.5gb at 5 are in use by a"),
        ([(0, "a")], "19:0,0",  None),
        ([(1, "a"), (3, "a"), (5, "a")], "14,19,19,19",
         "5 free memory slices, but no free place for 2g.10gb (memory slices 0-1 or 2-3 or 4-5): "
         "1g.5gb at 1, 1g.5gb at 3, 1g.5gb at 5 are in use by a"),
        ([(1, "a")], "14,14,14,19",
         "7 free memory slices, but not for 2g.10gb, 2g.10gb, 2g.10gb together: 1g.5gb at 1 is in use by a"),
        ([(4, "b")], "9,19,19:4,19:4", None),
        ([(2, "b")], "9:4,14:0,14:2,19", None),
    ],
)  # fmt: skip
def test_fragmentation_is_told_with_who_holds_what(busy, wanted, reason):
    present = [Instance("1g.5gb", start, in_use=True, used_by=user) for start, user in busy]
    answer = transition(A100, present, parse(wanted))
    if reason is None:
        assert not isinstance(answer, Impossible) or not any("free memory slices" in r for r in answer.reasons)
    else:
        assert answer.reasons == (reason,)


def test_one_memory_slice_is_named_by_its_number():
    busy = [Instance("2g.10gb", 4, in_use=True, used_by="a")]
    assert refused("14:4,19:5", present=busy).reasons[0].startswith("the sums fit, but no legal starts are free")
    full = [Instance("1g.5gb", s, in_use=True) for s in (0, 1)]
    assert refused("19:0,19:1,1g.5gb+me:0", present=full).reasons[0].startswith("the sums fit")
    assert refused("14,20:5", present=[Instance("2g.10gb", 4, in_use=True)]).reasons == (
        "6 free memory slices, but the only place for 1g.5gb+me:5 (memory slices 5) is not free: "
        "2g.10gb at 4 is in use",
    )


def test_who_is_no_part_of_the_layout_is_the_only_reason_told():
    busy = [Instance("1g.5gb", 1, in_use=True), Instance("2g.10gb", 4, in_use=True)]
    assert refused("19,9,9:4", present=busy).reasons[-1] == "2g.10gb at 4 is in use and not part of the layout"
    assert refused("19,9:4", present=busy).reasons == ("2g.10gb at 4 is in use and not part of the layout",)


def test_a_profile_of_another_board_is_answered_with_the_smallest_of_as_many_slices():
    assert refused("1g.7gb").reasons == ("no profile 1g.7gb on this GPU; its 1g is 1g.5gb",)
    assert refused("6g.7gb").reasons == ("no profile 6g.7gb on this GPU",)
    assert [n.short for n in nearest(A100, parse("1g.7gb"), limit=1)] == ["1"]


@pytest.mark.parametrize(
    ("wanted", "shorts"),
    [
        ("9,9,9", ["3-3"]),
        ("14,14,14,14", ["2-2-2"]),
        ("9,9,19", ["3-3", "3-1", "3-1-1", "3-1-1-1", "3-1-1-1-1"]),
        ("5,9,19", ["4-3", "4-1", "3-1", "4-1-1", "3-1-1"]),
        ("0,19", ["7", "1", "1-1", "1-1-1", "1-1-1-1"]),
    ],
)
def test_the_nearest_drop_fewest_then_add_fewest_then_use_most(wanted, shorts):
    assert [n.short for n in nearest(A100, parse(wanted))] == shorts


def test_two_in_use_instances_against_one_wanted():
    two = [Instance("1g.5gb", 0, 7, in_use=True), Instance("1g.5gb", 1, 8, in_use=True)]
    assert refused("19", present=two).reasons == ("GPU instance 8: 1g.5gb at 1 is in use and not part of the layout",)
    kept = transition(A100, two, parse("19:1,19"))
    assert kept.is_noop
    assert kept.keep == tuple(two)


def test_place_beside_kept_instances():
    assert place(A100, parse("9"), [Instance("2g.10gb", 0)]) == (Instance("3g.20gb", 4),)
    assert place(A100, parse("9"), [Instance("2g.10gb", 2), Instance("2g.10gb", 4)]) is None
    assert place(A100, parse("2")) is None
    assert place(A100, ()) == ()
    with pytest.raises(UnknownProfile):
        place(A100, parse("9"), [Instance("3g.71gb", 0)])


def test_room_is_left_for_large_instances():
    assert place(A100, parse("19")) == (Instance("1g.5gb", 6),)
    assert place(A100, parse("14")) == (Instance("2g.10gb", 4),)


def test_a_board_without_mig():
    answer = refused("9", board("t4-16gb"))
    assert answer == Impossible(("NVIDIA T4 16GB has no MIG",), ())
    assert pool(board("t4-16gb"), parse("9")) is None


def test_names_of_another_board_find_their_like():
    answer = refused("3g.40gb,4g.40gb")
    assert answer.nearest[0].short == "4-3"


def test_short_spelling_shows_what_is_not_plain():
    (only, *_) = nearest(A100, parse("1g.5gb+me,1g.10gb,3g.20gb"))
    assert (only.short, only.cgi) == ("3-1g.10gb-1+me", "9:0,15:6,20:4")


def test_nothing_valid_has_no_neighbours():
    assert nearest(A100, parse("2,3")) == ()
    assert refused("2").nearest == ()


@pytest.mark.parametrize("seed", range(6))
def test_nearest_are_legal_and_drop_as_little_as_possible(seed):
    dice = random.Random(seed)
    b = dice.choice(SHAPES)
    names = [dice.choice(b.profiles).name for _ in range(dice.randint(2, 9))]
    own = [one for one in oracle(b.key) if set(names_of(one)) <= set(names)]
    found = nearest(b, items(names))
    assert len({n.short for n in found}) == len(found) <= 5
    drops = [sum((Counter(names) - Counter(names_of(one))).values()) for one in own]
    for n in found:
        assert as_set(n.instances) in own
    mine = [sum((Counter(names) - Counter(i.profile_name for i in n.instances)).values()) for n in found]
    assert mine == sorted(mine)
    assert mine[0] == min(drops)


@pytest.mark.parametrize("seed", range(6))
def test_pool_holds_everything_on_the_fewest_gpus(seed):
    dice = random.Random(seed)
    plain = plain_names(A100)
    names = [dice.choice(plain) for _ in range(dice.randint(2, 6))]
    found = pool(A100, items(names), most_gpus=6)
    assert Counter(i.profile_name for n in found for i in n.instances) == Counter(names)
    assert all(as_set(n.instances) in oracle("a100-40gb") for n in found)
    legal = {names_of(one) for one in oracle("a100-40gb", plain)}

    def fewest(left):
        if not left:
            return 0
        parts = {c for n in range(1, len(left) + 1) for c in itertools.combinations(left, n) if c in legal}
        return 1 + min(fewest(tuple(sorted((Counter(left) - Counter(p)).elements()))) for p in parts if left[0] in p)

    assert len(found) == fewest(tuple(sorted(names)))


def test_pool_fills_every_slice_of_every_gpu():
    assert [n.short for n in pool(A100, parse("0,0,0,0"))] == ["7"] * 4
    assert [n.short for n in pool(A30, parse("5,5,5,14,14"))] == ["2-2", "2-1-1"]


def test_pool_gives_up_on_too_many():
    assert pool(A100, parse(["0"] * 5)) is None
    assert pool(A100, parse(["19"] * 29)) is None


def test_a_board_without_published_placements_is_no_no():
    names_only = board("rtx-pro-5000-blackwell")
    told = transition(names_only, (), parse("1g.12gb,14"))
    assert isinstance(told, Impossible)
    (reason,) = told.reasons
    assert reason.startswith("placements of this board are not published; they are read from the host")
    assert told.nearest == ()
    assert pool(names_only, parse("1g.12gb")) is None
    assert place(names_only, parse("1g.12gb")) is None
    told = transition(names_only, (), parse("3g.20gb,3g.20gb"))
    assert told.reasons[1].startswith("no profile 3g.20gb on this GPU; its profiles are 1g.12gb, 1g.12gb+me")
    assert len(told.reasons) == 2
