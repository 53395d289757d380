import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.mig.fragmentation import fragmentation
from vsphere_ai.gpu.mig.search import Instance, ProfilePlace, allowed, placed_layouts

A100 = board("a100-40gb")
LAYOUTS = [tuple(s.instance for s in layout) for layout in placed_layouts(A100, A100.profiles)]


def rooms(found):
    return {r.profile: (r.now, r.after, r.move) for r in found.profiles}


def test_an_empty_gpu():
    found = fragmentation(A100, ())
    assert (found.free, found.stranded) == (tuple(range(8)), ())
    assert rooms(found)["1g.5gb"] == (7, 7, ())
    assert [r.profile for r in found.profiles][:3] == ["7g.40gb", "4g.20gb", "3g.20gb"]


def test_one_small_instance_in_the_wrong_place():
    busy, idle = Instance("1g.5gb", 5, 12, in_use=True), Instance("1g.5gb", 0, 7)
    found = fragmentation(A100, (busy, idle))
    assert len(found.free) == 6
    assert rooms(found)["4g.20gb"] == (0, 1, (idle,))
    assert rooms(found)["3g.20gb"] == (0, 1, (idle,))
    assert rooms(found)["7g.40gb"] == (0, 0, ())


def test_the_eighth_slice_is_stranded_beside_seven_small_instances():
    found = fragmentation(A100, [Instance("1g.5gb", s) for s in range(7)])
    assert (found.free, found.stranded) == ((7,), (7,))


def test_a_gpu_in_use_shows_who_has_to_be_switched_off():
    present = (Instance("1g.5gb", 0, in_use=True), Instance("2g.10gb", 4, in_use=True))
    assert rooms(fragmentation(A100, present))["4g.20gb"] == (0, 1, (present[0],))


def test_old_drivers_lack_profiles():
    found = rooms(fragmentation(A100, [Instance("4g.20gb", 0)], driver_major=470))
    assert found["3g.20gb"][:2] == (0, 0)
    assert found["1g.10gb"][:2] == (0, 0)


def most(fixed, loose, profile):
    """The most instances of a profile beside fixed ones, those of `loose` standing anywhere: by enumeration."""
    best = 0
    for layout in LAYOUTS:
        rest = list(layout)
        if any(f not in rest for f in fixed):
            continue
        for one in fixed:
            rest.remove(one)
        names = [i.profile_name for i in rest]
        for name in loose:
            if name not in names:
                break
            names.remove(name)
        else:
            if set(names) <= {profile}:
                best = max(best, len(names))
    return best


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.sampled_from(LAYOUTS), st.data())
def test_against_enumeration(layout, data):
    present = tuple(Instance(i.profile_name, i.start, in_use=data.draw(st.booleans())) for i in layout)
    plain = [Instance(i.profile_name, i.start) for i in present]
    for room in fragmentation(A100, present).profiles:
        assert room.now == most(plain, (), room.profile)
        assert room.after == most((), [i.profile_name for i in present], room.profile)
        assert bool(room.move) == (room.after > room.now)
        if room.move:
            cost = (sum(i.in_use for i in room.move), len(room.move))
            for size in range(1, len(present) + 1):
                for moved in itertools.combinations(present, size):
                    if (sum(i.in_use for i in moved), len(moved)) < cost:
                        stay = [Instance(i.profile_name, i.start) for i in present if i not in moved]
                        assert most(stay, [i.profile_name for i in moved], room.profile) <= room.now


@pytest.mark.parametrize("layout", LAYOUTS[::37], ids=lambda i: "-".join(map(str, i)) or "empty")
def test_stranded_slices_are_those_no_profile_covers(layout):
    found = fragmentation(A100, layout)
    taken = {s for i in layout for s in range(i.start, i.start + A100.profile(i.profile_name).memory_slices)}
    covered = set()
    for profile in A100.profiles:
        if allowed(A100, [A100.profile(i.profile_name) for i in layout] + [profile]):
            for start in profile.starts:
                slices = set(range(start, start + profile.memory_slices))
                covered |= slices if not slices & taken else set()
    assert set(found.stranded) == set(range(8)) - taken - covered
    assert ProfilePlace(A100.profile("7g.40gb"), 0).mask == 0b11111111
