import itertools
from collections import Counter

import pytest

from vsphere_ai.gpu.catalog import UnknownProfile, board, boards
from vsphere_ai.gpu.mig.search import Instance, WantedInstance, allowed, arrangements
from vsphere_ai.gpu.vgpus import ondemand
from vsphere_ai.gpu.vgpus.ondemand import MigState, best_order, claim, default_starts, mig_state, unreachable
from vsphere_ai.lab.hardware import boards as lab_boards
from vsphere_ai.lab.hardware.gpu import LabGpu, NvmlError

A100 = board("a100-40gb")
DIVISIBLE = [b for b in boards() if b.profiles]


def predict(of, present, order):
    """The instance each VM gets in power-on order, one MIG profile each, until one finds no place, and which."""
    state, placed = mig_state(of, present), []
    for index, name in enumerate(order):
        got = claim(of, state, of.profile(name))
        if got is None:
            return tuple(placed), index
        state = got[0]
        placed.append(Instance(of.profile(name).name, got[1], in_use=True))
    return tuple(placed), None


def every_multiset(of):
    """Every multiset of the board's profiles whose slices add up, by brute force."""
    ranges = [range(p.max_instances + 1) for p in of.profiles]
    for counts in itertools.product(*ranges):
        used = sum(n * p.memory_slices for n, p in zip(counts, of.profiles, strict=True))
        if used <= of.memory_slices:
            yield [p.name for n, p in zip(counts, of.profiles, strict=True) for _ in range(n)]


def some_order(driver, key, names, dead=None):
    """Whether the lab's driver creates all of these in some order."""
    dead = {} if dead is None else dead
    gpu = LabGpu.of(0, "0000:3b:00.0", key)
    gpu.driver, gpu.mig_current = driver, True

    def search(left):
        if not left:
            return True
        at = (tuple(sorted((i.profile.id, i.start) for i in gpu.instances)), tuple(sorted(left.items())))
        if at not in dead:
            dead[at] = False
            for name in left:
                try:
                    made = gpu.create(gpu.profile(name))
                except NvmlError:
                    continue
                dead[at] = search(left - Counter([name]))
                gpu.destroy(made)
                if dead[at]:
                    break
        return dead[at]

    return search(Counter(names))


@pytest.mark.parametrize(
    ("profile", "starts"),
    [("1g.5gb", (6, 4, 5, 0, 1, 2, 3)), ("2g.10gb", (4, 0, 2)), ("1g.10gb", (4, 0, 2, 6)), ("3g.20gb", (4, 0)),
     ("4g.20gb", (0,)), ("7g.40gb", (0,))],
)  # fmt: skip
def test_the_drivers_own_starts(profile, starts):
    assert default_starts(A100, A100.profile(profile)) == starts


@pytest.mark.parametrize("each", DIVISIBLE, ids=lambda b: b.key)
def test_default_starts_are_the_legal_starts_and_those_of_the_labs_driver(each):
    lab = lab_boards.board(each.key)
    for profile in each.profiles:
        found = default_starts(each, profile)
        assert sorted(found) == sorted(profile.starts)
        theirs = next(p for p in lab.profiles if p.id == profile.id)
        assert found == tuple(s for s in lab.default_starts(theirs) if s in profile.starts)


def test_a_profile_of_unknown_size_keeps_its_own_starts():
    from dataclasses import replace

    odd = replace(A100.profile("2g.10gb"), name="3g.15gb", id=99, memory_slices=3, starts=(0, 3))
    assert default_starts(A100, odd) == (0, 3)


def test_vms_get_instances_in_power_on_order():
    placed, stuck = predict(A100, (), ["1g.5gb", "1g.5gb", "3g.20gb"])
    assert [(i.profile_name, i.start, i.in_use) for i in placed] == [
        ("1g.5gb", 6, True), ("1g.5gb", 4, True), ("3g.20gb", 0, True),
    ]  # fmt: skip
    assert stuck is None


def test_an_idle_instance_is_taken_before_one_is_made():
    present = (Instance("3g.20gb", 0, 1), Instance("1g.5gb", 4, 9, in_use=True))
    got = predict(A100, present, ["3g.20gb", "1g.5gb"])
    assert got == ((Instance("3g.20gb", 0, in_use=True), Instance("1g.5gb", 6, in_use=True)), None)


def test_the_first_vm_that_finds_no_place_is_named():
    before = (Instance("3g.20gb", 4, in_use=True), Instance("1g.5gb", 0, in_use=True))
    assert predict(A100, (), ["3g.20gb", "1g.5gb", "3g.20gb", "1g.5gb"]) == (before, 2)
    with pytest.raises(UnknownProfile):
        predict(A100, (), ["5g.25gb"])


def test_an_order_that_fails_and_one_that_works():
    assert predict(A100, (), ["2g.10gb", "2g.10gb", "3g.20gb"])[1] == 2
    order = best_order(A100, (), ["2g.10gb", "2g.10gb", "3g.20gb"])
    assert order == ("3g.20gb", "2g.10gb", "2g.10gb")
    assert len(predict(A100, (), order)[0]) == 3
    assert best_order(A100, (), []) == ()


def test_rules_beyond_the_slices():
    assert best_order(A100, (), ["1g.5gb+me", "1g.5gb+me"]) is None
    assert best_order(A100, (), ["4g.20gb", "3g.20gb"]) == ("4g.20gb", "3g.20gb")
    assert best_order(A100, (), ["4g.20gb", "3g.20gb"], driver_major=470) is None
    assert best_order(A100, (), ["1g.10gb"], driver_major=470) is None
    # an instance made under other rules stays usable
    assert best_order(A100, [Instance("1g.5gb+me", 6)], ["1g.5gb+me"]) == ("1g.5gb+me",)
    assert best_order(A100, [Instance("1g.5gb+me", 6, in_use=True)], ["1g.5gb+me"]) is None


@pytest.mark.parametrize("key", ["a100-40gb", "h100-80gb-pcie", "a30-24gb"])
def test_every_multiset_against_the_labs_driver(key):
    each, dead = board(key), {}
    reached = 0
    for names in every_multiset(each):
        order = best_order(each, (), names)
        assert (order is not None) == some_order("580.65.06", key, names, dead), names
        if order is not None:
            reached += 1
            assert sorted(order) == sorted(names)
            placed, _ = predict(each, (), order)
            assert [i.profile_name for i in placed] == list(order)
    assert reached > 15


def test_three_base_multisets_need_the_right_order_and_seven_with_double_memory_have_none():
    base = [p for p in A100.profiles if not p.media and p.name != "1g.10gb"]
    doubles = [p for p in A100.profiles if not p.media]
    no_media = [n for n in every_multiset(A100) if not any("+me" in name for name in n)]
    fits = [n for n in no_media if next(arrangements([WantedInstance(A100.profile(x)) for x in n]), None) is not None]
    some_fail = [
        n for n in fits
        if all(A100.profile(x) in base for x in n)
        and any(predict(A100, (), o)[1] is not None for o in set(itertools.permutations(n)))
    ]  # fmt: skip
    assert sorted(sorted(n) for n in some_fail) == [
        ["1g.5gb", "1g.5gb", "1g.5gb", "1g.5gb", "3g.20gb"],
        ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"],
        ["2g.10gb", "2g.10gb", "3g.20gb"],
    ]
    none = [n for n in fits if best_order(A100, (), n) is None]
    assert len(none) == 7
    assert all("1g.10gb" in n for n in none)
    assert len(doubles) == 6
    for names in fits:
        assert (unreachable(A100, (), names) is None) == (names not in none)


def test_the_warning_says_what_to_do():
    words = unreachable(A100, (), ["4g.20gb", "1g.10gb", "1g.5gb", "1g.5gb"])
    assert "in no power-on order" in words
    assert "explicit starts" in words
    assert unreachable(A100, (), ["4g.20gb", "4g.20gb"]) is None  # fits nowhere: not this warning's business
    assert unreachable(A100, (), ["3g.20gb", "4g.20gb"], driver_major=470) is None
    # made beforehand, the double stands where the driver would not have put it
    assert unreachable(A100, [Instance("1g.10gb", 6)], ["4g.20gb", "1g.10gb", "1g.5gb", "1g.5gb"]) is None
    # an idle instance that serves one of them is not wanted a second time
    assert unreachable(A100, [Instance("4g.20gb", 0)], ["4g.20gb", "1g.10gb", "1g.5gb", "1g.5gb"]) is not None


@pytest.mark.parametrize("each", [b for b in DIVISIBLE if b.memory_slices <= 8], ids=lambda b: b.key)
def test_what_can_be_reached_stays_reachable_with_a_vm_less(each):
    def reachable(state):
        seen, todo = {(state, ())}, [(state, ())]
        while todo:
            now, got = todo.pop()
            for profile in each.profiles:
                step = claim(each, now, profile)
                if step is not None:
                    more = (step[0], tuple(sorted((*got, profile.id))))
                    if more not in seen:
                        seen.add(more)
                        todo.append(more)
        return {got for _, got in seen}

    for mask in range(0, 1 << each.memory_slices, 3):
        found = reachable(MigState(mask))
        assert all(got[:at] + got[at + 1 :] in found for got in found for at in range(len(got)))


def test_state_of_present_instances():
    state = mig_state(A100, [Instance("3g.20gb", 4, in_use=True), Instance("1g.5gb+me", 0), Instance("1g.5gb", 1)])
    assert state.mask == 0b11110011
    assert [p.profile.name for p in state.idle] == ["1g.5gb+me", "1g.5gb"]
    assert {p.name for p in state.tags} == {"3g.20gb", "1g.5gb+me"}
    assert allowed(A100, state.tags)
    assert ondemand.claim(A100, state, A100.profile("4g.20gb")) is None
