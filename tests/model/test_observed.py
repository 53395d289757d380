"""States are observed when they are asked for: what a plan does not look at costs nothing, however large the estate."""

from __future__ import annotations

import pytest
from support.estates import vm
from support.growing import Counted, of_vms, upgraded

from vsphere_ai.model.estate.observed import Observed, laid_over
from vsphere_ai.planning.planner import again, remaining
from vsphere_ai.resources import kinds

KEYS = {("vm-1", "vgpu"), ("vm-2", "vgpu"), ("host-1", "mig")}


@pytest.fixture
def seen():
    return []


@pytest.fixture
def observed(seen):
    refs = {"vgpu": ("vm-1", "vm-2"), "mig": ("host-1",), "clock": ()}
    return Observed(
        tuple(refs),
        lambda kind: iter(refs[kind]),
        lambda ref, kind: ref in refs.get(kind, ()),
        lambda *key: seen.append(key) or f"{key}",
    )


def test_a_state_is_observed_once_and_when_it_is_asked_for(observed, seen):
    assert (set(observed), len(observed), seen) == (KEYS, 3, [])
    assert observed["vm-1", "vgpu"] == observed.get(("vm-1", "vgpu")) == "('vm-1', 'vgpu')"
    assert seen == [("vm-1", "vgpu")]
    assert observed.get(("vm-1", "mig")) is None
    with pytest.raises(KeyError):
        observed["vm-3", "vgpu"]
    assert ("vm-2", "vgpu") in observed
    assert seen == [("vm-1", "vgpu")]


def test_a_state_that_cannot_be_known_is_not_asked_for_again():
    seen = []
    observed = Observed(("vgpu",), lambda kind: iter(["vm-1"]), lambda *key: True, lambda *key: seen.append(key))
    assert observed["vm-1", "vgpu"] is observed["vm-1", "vgpu"] is None
    assert len(seen) == 1


def test_what_is_laid_over_counts_and_leaves_the_others(observed, seen):
    one = laid_over(observed, {("vm-1", "vgpu"): "planned"})
    two = laid_over(one, {("vm-9", "numa"): None, ("vm-1", "vgpu"): "planned again"})
    assert seen == []
    assert (one["vm-1", "vgpu"], two["vm-1", "vgpu"]) == ("planned", "planned again")
    assert (set(one), set(two), len(one), len(two)) == (KEYS, {*KEYS, ("vm-9", "numa")}, 3, 4)
    assert two["vm-9", "numa"] is None
    assert ("vm-9", "numa") not in one
    with pytest.raises(KeyError):
        one["vm-9", "numa"]
    assert two["vm-2", "vgpu"] == "('vm-2', 'vgpu')"
    assert seen == [("vm-2", "vgpu")]


def test_two_ways_on_from_the_same_values_do_not_see_each_other():
    below = laid_over({"a": 1}, {"b": 2})
    one, two = below.over({"c": 3}), below.over({"d": 4, "a": 5})
    assert (dict(one), dict(two)) == ({"a": 1, "b": 2, "c": 3}, {"a": 5, "b": 2, "d": 4})
    assert dict(one.over({"e": 6})) == {"a": 1, "b": 2, "c": 3, "e": 6}
    assert dict(below) == {"a": 1, "b": 2}


@pytest.mark.parametrize("of", [remaining, again])
def test_reading_back_one_target_observes_as_much_in_a_large_estate_as_in_a_small_one(monkeypatch, of):
    small, large, wanted = of_vms(400), of_vms(10_000), upgraded(1)
    counted = Counted(monkeypatch)
    assert of(wanted, small, kinds(), vm(1))
    few, counted.times = counted.times, 0
    assert of(wanted, large, kinds(), vm(1))
    assert 0 < counted.times == few < 400


def test_a_value_that_lacks_a_field_is_no_missing_key():
    """`Mapping.get` would take the `KeyError` of a malformed value for a key that is not there, and hide the value."""

    def observe(ref: str, kind: str) -> None:
        raise KeyError("value")

    states = Observed(("vgpu",), lambda _: iter(("VM:1",)), lambda ref, kind: ref == "VM:1", observe)
    for each in (states, laid_over(states, {})):
        assert each.get(("VM:2", "vgpu"), "none") == "none"
        with pytest.raises(KeyError, match="value"):
            each.get(("VM:1", "vgpu"))
