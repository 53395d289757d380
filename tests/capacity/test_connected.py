"""Sets that overlap make one whole of their members."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.capacity.connected import leaders

SETS = st.lists(st.lists(st.integers(0, 12), max_size=4), max_size=8)


def together(sets):
    """The same by joining sets until none overlaps another."""
    left = [set(s) for s in sets if s]
    for at in range(len(left)):
        for before in range(at):
            if left[at] & left[before]:
                left[at] |= left[before]
                left[before] = set()
    return {frozenset(s) for s in left if s}


@given(SETS)
def test_members_have_one_leader_when_sets_connect_them(sets):
    found = leaders(sets)
    parts = {frozenset(m for m in found if found[m] == head) for head in found.values()}
    assert parts == together(sets)
    assert all(found[head] == head for head in found.values())


def test_no_sets_and_empty_ones_lead_nobody():
    assert leaders([]) == leaders([[], frozenset()]) == {}
