"""One GPU of the capacity report as plain values."""

from __future__ import annotations

import pytest
from support.capacity_judges import pci

from vsphere_ai.capacity.verdict import Fit, NoFit, Undecided
from vsphere_ai.gpu.catalog import board_of_device
from vsphere_ai.gpu.mig.search import Instance
from vsphere_ai.gpu.vgpus.slot import GpuSlot, StayingVgpu
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.state import Target
from vsphere_ai.planning.capacity_report import FitVerdict, GpuUse, UsedVgpu
from vsphere_ai.report.gpus.capacity_document import gpu_document, verdict_document
from vsphere_ai.report.gpus.capacity_text import _verdict_lines, capacity_text

A100 = board_of_device(0x20F1)


def used(slot, names):
    return GpuUse(slot, tuple(UsedVgpu(names.get(r.vm, r.vm), r.profile) for r in slot.running))


def test_a_time_sliced_gpu_has_sizes_and_no_slices():
    running = (StayingVgpu("vm-1", "grid_a100-20c"), StayingVgpu("vm-2", "grid_a100-20c"))
    found = gpu_document(
        used(GpuSlot("esx1", pci(0), A100, "time_sliced", running[:1]), {"vm-1": "train-01"})
    ).as_json()
    assert (found["mode"], found["sizes"]) == ("time_sliced", "equal")
    nothing = {"gpu_instance": None, "placement": None, "guest_driver": None, "licence": None}
    assert found["running"] == [{"vm": "train-01", "profile": "grid_a100-20c", **nothing}]
    assert "slices" not in found
    # the largest first; beside 20 GB only 20 GB
    assert list(found["room"].items())[:3] == [("grid_a100-40c", 0), ("grid_a100-20c", 1), ("grid_a100-10c", 0)]
    full = gpu_document(used(GpuSlot("esx1", pci(0), A100, "time_sliced", running), {})).as_json()
    assert set(full["room"].values()) == {0}
    assert [r["vm"] for r in full["running"]] == ["vm-1", "vm-2"]


def test_an_instance_in_the_wrong_place_is_told_with_what_its_move_makes_room_for():
    idle = Instance("1g.5gb", 1)
    found = gpu_document(GpuUse(GpuSlot("esx1", pci(0), A100, "mig", instances=(idle,)))).as_json()
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
    assert gpu_document(GpuUse(slot)).as_json()["room"] == {"grid_a100-3-20c": 2, "grid_a100-1-5c": 7}


def shown(hosts, first=()):
    """A host with a VM on its first GPU, which may be of another profile; and hosts without GPUs."""

    def one(n):
        running = (StayingVgpu(f"vm-{n}", first[0] if n == 1 and first else "grid_a100-20c"),)
        return (used(GpuSlot(f"esx{n:02}", pci(0), A100, "time_sliced", running), {f"vm-{n}": f"train-{n:03}"}),)

    return {f"esx{n:02}": one(n) for n in range(1, hosts + 1)} | {f"cpu{n}": () for n in range(4)}


def test_many_hosts_that_are_alike_are_shown_once_and_with_full_each():
    text = capacity_text(shown(32), None)
    assert "32 hosts alike: esx[01:32]. The first (--full has all):" in text
    assert (text.count("0000:"), len(text.splitlines())) == (1, 8)
    assert "No GPU that gives vGPUs: cpu[0:3]" in text
    full = capacity_text(shown(32), None, full=True)
    assert full.count("0000:") == 32
    assert all(f"train-{n:03}" in full for n in range(1, 33))
    assert capacity_text(shown(3), None).count("0000:") == 3, "a few are shown each"


def test_a_host_that_is_not_like_the_others_is_shown_by_itself():
    text = capacity_text(shown(32, ("grid_a100-40c",)), None)
    assert "esx01  1 GPU, 1 VM" in text
    assert "train-001" in text
    assert "31 hosts alike: esx[02:32]" in text


def test_places_and_reasons_of_many_vms_are_not_listed_one_by_one():
    targets = {f"vm-{n}": Target("vm", f"train-{n:03}", f"vm-{n}") for n in range(256)}
    problems = tuple(
        Finding.problem(t, "vgpu.capacity", f"{t.name} finds no room", "take less") for t in targets.values()
    )
    fit = Fit({ref: ("esx1", ()) for ref in targets})
    homes = dict.fromkeys(targets, "esx1")
    text = capacity_text({}, FitVerdict(fit, True, targets, homes))
    assert (text.count(" on esx1"), "and 250 more" in text) == (6, True)
    assert capacity_text({}, FitVerdict(fit, True, targets, homes), full=True).count(" on esx1") == 256
    away = capacity_text({}, FitVerdict(fit, False, targets, homes, problems=problems))
    assert "train-[000:255]; for example train-000: train-000 finds no room" in " ".join(away.split())


@pytest.mark.parametrize(
    ("answer", "decided", "exact", "headline"),
    [
        (NoFit("too many", ("vm-1",)), True, True, "DOES NOT FIT (exact)"),
        (NoFit("too many", ("vm-1",), assumed=True), True, False, "DOES NOT FIT (not certain)"),
        (Undecided("no place was found", ("vm-1",)), False, False, "NOT DECIDED"),
    ],
)
def test_a_refusal_names_who_is_left_over_and_whether_it_is_decided(answer, decided, exact, headline):
    verdict = FitVerdict(answer, False, {"vm-1": Target("vm", "train-01", "vm-1")}, {"vm-1": "esx1"})
    found = verdict_document(verdict).as_json()
    assert (found["fits"], found["decided"], found["exact"]) == (False, decided, exact)
    assert found["left_over"] == ["train-01"]
    assert verdict.refused
    assert next(_verdict_lines(verdict, full=False)) == headline
