"""States are observed when they are asked for: what a plan does not look at costs nothing, however large the estate."""

from __future__ import annotations

import pytest
from support.estates import made, vm
from support.growing import Counted, of_vms, upgraded

from vsphere_ai.model.observed import Observed, Overlay, kinds_of, laid_over
from vsphere_ai.planning import planner as plan_module
from vsphere_ai.planning.planner import again, remaining
from vsphere_ai.resources import kinds

KEYS = {("vm-1", "vgpu"), ("vm-2", "vgpu"), ("host-1", "mig")}


@pytest.fixture
def seen():
    return []


@pytest.fixture
def observed(seen):
    return Observed(
        {"vgpu": ("vm-1", "vm-2"), "mig": ("host-1",), "clock": ()}, lambda *key: seen.append(key) or f"{key}"
    )


def test_a_state_is_observed_once_and_when_it_is_asked_for(observed, seen):
    assert (set(observed), len(observed), seen) == (KEYS, 3, [])
    assert observed["vm-1", "vgpu"] == observed.get(("vm-1", "vgpu")) == "('vm-1', 'vgpu')"
    assert seen == [("vm-1", "vgpu")]
    assert observed.get(("vm-1", "mig")) is None
    with pytest.raises(KeyError):
        observed["vm-3", "vgpu"]
    assert seen == [("vm-1", "vgpu")]


def test_a_state_that_cannot_be_known_is_not_asked_for_again():
    seen = []
    observed = Observed({"vgpu": ("vm-1",)}, lambda *key: seen.append(key))
    assert observed["vm-1", "vgpu"] is observed["vm-1", "vgpu"] is None
    assert len(seen) == 1


def test_what_is_laid_over_counts_and_leaves_the_others(observed, seen):
    one = laid_over(observed, {("vm-1", "vgpu"): "planned"})
    two = laid_over(one, {("vm-9", "numa"): None})
    assert seen == []
    assert one["vm-1", "vgpu"] == two["vm-1", "vgpu"] == "planned"
    assert (set(one), set(two), len(two)) == (KEYS, {*KEYS, ("vm-9", "numa")}, 4)
    assert two["vm-9", "numa"] is None
    assert ("vm-9", "numa") not in one
    assert two["vm-2", "vgpu"] == "('vm-2', 'vgpu')"
    assert seen == [("vm-2", "vgpu")]


def test_kinds_are_known_without_observing(observed, seen):
    assert kinds_of(observed) == {"vgpu", "mig"}, "no object has a clock"
    assert kinds_of(laid_over(observed, {("vm-9", "numa"): None})) == {"vgpu", "mig", "numa"}
    assert kinds_of(Overlay({("vm-1", "clock"): None}, {})) == {"clock"}
    assert seen == []


@pytest.mark.parametrize("of", [remaining, again])
def test_reading_back_one_target_observes_as_much_in_a_large_estate_as_in_a_small_one(monkeypatch, of):
    small, large, wanted = of_vms(400), of_vms(10_000), upgraded(1)
    counted = Counted(monkeypatch)
    assert of(wanted, small, kinds(), vm(1))
    few, counted.times = counted.times, 0
    assert of(wanted, large, kinds(), vm(1))
    assert 0 < counted.times == few < 400


class Walked(dict):
    """States that count how many of them somebody walks over."""

    count = 0

    def __iter__(self):
        for key in super().__iter__():
            Walked.count += 1
            yield key

    def keys(self):
        return iter(self)

    def items(self):
        return ((key, self[key]) for key in self)


def test_a_power_cycle_does_not_walk_over_the_states_of_all_others(monkeypatch):
    """Once for all kinds there are, and not for each VM."""
    observe = plan_module.observe_all
    monkeypatch.setattr(plan_module, "observe_all", lambda *given: Walked(observe(*given)))
    estate, walked = of_vms(400), []
    for cycled in (10, 40):
        Walked.count = 0
        plan = made(estate, upgraded(cycled))
        assert len(plan.impact.power_cycles) == cycled
        walked.append(Walked.count)
    assert walked[0] == walked[1] > 0
