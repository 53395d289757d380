import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from vsphere_ai.capacity.backtrack import _splits
from vsphere_ai.capacity.groups import Budget, Group, Packed, Unpacked
from vsphere_ai.capacity.pack import pack


def below(vector):
    return itertools.product(*(range(n + 1) for n in vector))


def fits(groups, counts):
    """Whether all can be packed, by trying every combination on every GPU."""
    gpus = [g for g in groups for _ in range(g.count)]
    reached = {tuple(counts)}
    for group in gpus:
        now = set()
        for left in reached:
            for full in group.full:
                for vector in below(full):
                    options = [
                        [s for s in below([n] * len(chain)) if sum(s) == n]
                        for n, chain in zip(vector, group.chains, strict=True)
                    ]
                    for split in itertools.product(*options):
                        rest = list(left)
                        for taken, chain in zip(split, group.chains, strict=True):
                            for n, item in zip(taken, chain, strict=True):
                                rest[item] -= n
                        if min(rest, default=0) >= 0:
                            now.add(tuple(rest))
        reached = now
    return (0,) * len(counts) in reached


@st.composite
def problems(draw):
    """Up to three items, item 1 with the hosts of item 0 and more: it comes after it wherever both may go."""
    kinds = st.sampled_from([((0,),), ((1,),), ((2,),), ((0, 1),), ((1,), (2,)), ((0, 1), (2,))])
    groups = []
    for _ in range(draw(st.integers(1, 3))):
        chains = draw(kinds)
        vectors = st.tuples(*[st.integers(0, 3)] * len(chains))
        full = draw(st.lists(vectors, min_size=1, max_size=3, unique=True))
        groups.append(Group(draw(st.integers(1, 2)), chains, tuple(full)))
    # item 0 may go nowhere where item 1 may not, that is what makes it the more restricted one
    groups = [g if g.chains[0] != (0,) else Group(g.count, ((0, 1), *g.chains[1:]), g.full) for g in groups]
    return groups, draw(st.lists(st.integers(0, 5), min_size=3, max_size=3))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(problems())
def test_against_trying_everything(problem):
    groups, counts = problem
    told = pack(groups, counts, Budget(10_000))
    assert isinstance(told, Packed) == fits(groups, counts)
    if isinstance(told, Unpacked):
        assert told.exact
        assert any(told.left)
        if told.proof:
            assert told.wanted == sum(counts[i] for i in told.proof) > told.room
        return
    given_out = [0] * len(counts)
    for group, parts in zip(groups, told.given, strict=True):
        assert sum(times for _, times in parts) <= group.count
        for part, times in parts:
            used = [sum(dict(part).get(i, 0) for i in chain) for chain in group.chains]
            assert any(all(u <= n for u, n in zip(used, full, strict=True)) for full in group.full)
            for item, n in part:
                given_out[item] += n * times
    assert given_out == counts


# a GPU takes {a, a}, {b, b, b} or {a, b}; the sums say that two GPUs hold one more than they do
ODD = Group(2, ((0,), (1,)), ((2, 0), (0, 3), (1, 1)))


def test_what_sums_do_not_tell_is_searched():
    assert pack([ODD], [2, 3], Budget(1000)).given == (((((0, 2),), 1), (((1, 3),), 1)),)
    told = pack([ODD], [3, 2], Budget(1000))
    assert isinstance(told, Unpacked)
    assert told.exact


def test_without_steps_a_search_is_not_certain():
    # five kinds, each GPU takes two different ones: pairs have to be found, which prices do not do
    pairs = tuple(tuple(int(i in pair) for i in range(5)) for pair in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    ring = [Group(2, tuple((i,) for i in range(5)), pairs)]
    told = pack(ring, [1, 1, 1, 1, 1], Budget(0))
    assert isinstance(told, Unpacked)
    assert sum(told.left) == 1
    three = [Group(3, tuple((i,) for i in range(5)), pairs)]
    assert isinstance(pack(three, [2, 1, 1, 1, 1], Budget(1000)), Packed)


def test_a_search_cut_short_does_not_call_its_answer_proved():
    # two GPUs for item 1 and one for item 0 hold five of item 0; every sum allows six
    three = Group(3, ((0,), (1,)), ((1, 4), (3, 0)))
    for steps in (0, 1000):
        told = pack([three], [6, 6], Budget(steps))
        assert isinstance(told, Unpacked)
        assert not told.proof
        assert told.exact == bool(steps)


def test_a_first_gpu_that_leaves_too_much_for_the_second_ends_the_search_there():
    two = Group(2, ((0,), (1,)), ((4, 0), (1, 3)))
    assert pack([two], [6, 1], Budget(1000)) == Unpacked(True, (1, 0))
    assert isinstance(pack([two], [5, 1], Budget(1000)), Packed)


def test_what_several_groups_take_is_searched_on_each_of_them():
    chains = ((0,), (1,))
    found = pack([Group(1, chains, ((3, 1), (1, 3))), Group(1, chains, ((4, 0), (2, 0)))], [5, 2], Budget(1000))
    assert found == Packed((((((0, 1), (1, 2)), 1),), ((((0, 4),), 1),)))
    # the first GPU decides which of the two items is one short
    told = pack([Group(1, chains, ((1, 2), (4, 0))), Group(1, chains, ((2, 1),))], [4, 2], Budget(1000))
    assert told == Unpacked(True, (1, 0))


def test_nothing_to_pack_and_nowhere_to_put_it():
    assert pack([], [], Budget(1)) == Packed(())
    assert pack([], [1], Budget(1)) == Unpacked(True, (1,), (0,), 1, 0)


def test_places_are_divided_in_every_way_where_neither_item_has_fewer_other_gpus():
    assert list(_splits(2, (0, 1), (2, 2), {0: 0b01, 1: 0b11})) == [((0, 2),)]
    ways = {tuple(sorted(way)) for way in _splits(2, (0, 1), (2, 2), {0: 0b01, 1: 0b10})}
    assert ways == {((0, 2),), ((0, 1), (1, 1)), ((1, 2),)}
