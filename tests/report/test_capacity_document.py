"""One GPU of the capacity report as plain values."""

from __future__ import annotations

import pytest
from support.capacity_judges import pci

from vsphere_ai.capacity.verdict import NoFit, Undecided
from vsphere_ai.gpu.catalog import board_of_device
from vsphere_ai.gpu.search import Instance
from vsphere_ai.gpu.slot import GpuSlot, Running
from vsphere_ai.model.state import Target
from vsphere_ai.planning.capacity_report import GpuUse, UsedVgpu, Verdict
from vsphere_ai.report.capacity_document import gpu_document, verdict_document
from vsphere_ai.report.capacity_text import _verdict_lines

A100 = board_of_device(0x20F1)


def used(slot, names):
    return GpuUse(slot, tuple(UsedVgpu(names.get(r.vm, r.vm), r.profile) for r in slot.running))


def test_a_time_sliced_gpu_has_sizes_and_no_slices():
    running = (Running("vm-1", "grid_a100-20c"), Running("vm-2", "grid_a100-20c"))
    found = gpu_document(used(GpuSlot("esx1", pci(0), A100, "time_sliced", running[:1]), {"vm-1": "train-01"}))
    assert (found["mode"], found["sizes"]) == ("time_sliced", "equal")
    nothing = {"gpu_instance": None, "guest_driver": None, "licence": None}
    assert found["running"] == [{"vm": "train-01", "profile": "grid_a100-20c", **nothing}]
    assert "slices" not in found
    # the largest first; beside 20 GB only 20 GB
    assert list(found["room"].items())[:3] == [("grid_a100-40c", 0), ("grid_a100-20c", 1), ("grid_a100-10c", 0)]
    full = gpu_document(used(GpuSlot("esx1", pci(0), A100, "time_sliced", running), {}))
    assert set(full["room"].values()) == {0}
    assert [r["vm"] for r in full["running"]] == ["vm-1", "vm-2"]


def test_an_instance_in_the_wrong_place_is_told_with_what_its_move_makes_room_for():
    idle = Instance("1g.5gb", 1)
    found = gpu_document(GpuUse(GpuSlot("esx1", pci(0), A100, "mig", instances=(idle,))))
    assert (found["slices"], found["free_slices"]) == (8, [0, 2, 3, 4, 5, 6, 7])
    assert found["instances"] == [{"profile": "1g.5gb", "start": 1, "in_use": False}]
    gained = {g["profile"]: g for g in found["defragment"]}
    assert gained["4g.20gb"] == {
        "profile": "4g.20gb",
        "now": 0,
        "after": 1,
        "move_for_one_more": [{"profile": "1g.5gb", "start": 1, "in_use": False}],
    }
    assert next(iter(found["room"])) == "grid_a100-7-40c"


def test_the_names_a_host_lists_are_the_ones_with_room():
    slot = GpuSlot("esx1", pci(0), A100, "mig", offered=frozenset({"grid_a100-1-5c", "grid_a100-3-20c", "odd"}))
    assert gpu_document(GpuUse(slot))["room"] == {"grid_a100-3-20c": 2, "grid_a100-1-5c": 7}


@pytest.mark.parametrize(
    ("answer", "decided", "exact", "headline"),
    [
        (NoFit("too many", ("vm-1",)), True, True, "DOES NOT FIT (exact)"),
        (NoFit("too many", ("vm-1",), assumed=True), True, False, "DOES NOT FIT (not certain)"),
        (Undecided("no place was found", ("vm-1",)), False, False, "NOT DECIDED"),
    ],
)
def test_a_refusal_names_who_is_left_over_and_whether_it_is_decided(answer, decided, exact, headline):
    verdict = Verdict(answer, False, {"vm-1": Target("vm", "train-01", "vm-1")}, {"vm-1": "esx1"})
    found = verdict_document(verdict)
    assert (found["fits"], found["decided"], found["exact"]) == (False, decided, exact)
    assert found["left_over"] == ["train-01"]
    assert verdict.refused
    assert next(_verdict_lines(verdict)) == headline
