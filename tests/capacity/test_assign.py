"""VMs with several vGPUs, whose host decides whether all of them have room."""

from __future__ import annotations

import pytest
from support.capacity_judges import pci

from vsphere_ai.capacity import assign, milp, place
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Fit, GpuHosts, NoFit, Undecided, VmDemand
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot

TWO = frozenset({"esx1", "esx2"})


def gpu(host, number=0):
    return GpuSlot(host, pci(number), board("a100-40gb"), "mig")


def vms(*profiles):
    return [VmDemand(f"vm{n}", (p,) if isinstance(p, str) else p, TWO) for n, p in enumerate(profiles)]


def test_a_large_estate_says_when_it_only_guesses(monkeypatch):
    monkeypatch.setattr(assign, "EXACT_GPUS", 1)
    slots = tuple(gpu(h, n) for h in ("esx1", "esx2") for n in range(2))
    pair = ("grid_a100-7-40c",) * 2
    assert isinstance(solve(GpuHosts(slots), vms(pair, pair)), Fit)
    mixed = [
        *vms(("grid_a100-3-20c",) * 2),
        *[VmDemand(f"s{n}", ("grid_a100-7-40c",), TWO) for n in range(3)],
    ]
    assert isinstance(solve(GpuHosts(slots), mixed), Fit)
    answer = solve(GpuHosts((slots[0], slots[2])), vms(pair))
    assert isinstance(answer, Undecided)
    assert answer.explanation.endswith("there may be one")
    blocked = [*vms(pair), VmDemand("l", ("grid_a100-4-20c",), frozenset({"esx1"})),
               VmDemand("r", ("grid_a100-4-20c",), frozenset({"esx2"}))]  # fmt: skip
    # where each VM has hosts of its own, hosts are not pooled, and the refusal is a proof
    assert isinstance(solve(GpuHosts(slots), blocked), NoFit)
    # what a count proves is certain at any size
    assert solve(GpuHosts(slots), vms(*["grid_a100-4-20c"] * 5)).exact


PAIR = ("grid_a100-7-40c",) * 2
# every host has room for the pair, but then not for the VM that may run there only
BLOCKED = [
    *vms(PAIR),
    VmDemand("l", ("grid_a100-4-20c",), frozenset({"esx1"})),
    VmDemand("r", ("grid_a100-4-20c",), frozenset({"esx2"})),
]
FOUR = GpuHosts(tuple(gpu(h, n) for h in ("esx1", "esx2") for n in range(2)))


def test_the_programme_says_how_many_have_room():
    answer = solve(FOUR, BLOCKED)
    assert isinstance(answer, NoFit)
    assert (answer.exact, len(answer.vms)) == (True, 1)
    assert "do not fit together on the 4 GPUs of esx1, esx2, however they are divided" in answer.explanation


def test_without_time_to_count_them_all_are_left_over(monkeypatch):
    monkeypatch.setattr(milp, "MAX_SECONDS", 0.0)
    answer = solve(FOUR, BLOCKED)
    assert isinstance(answer, NoFit)
    assert sorted(answer.vms) == ["l", "r", "vm0"]


def test_a_refusal_that_another_programme_contradicts_decides_nothing(monkeypatch):
    """The solver calls the programme infeasible; the one that places as many VMs as it can places all of them."""
    two = vms("grid_a100-3-20c", "grid_a100-2-10c", "grid_a100-2-10c")
    monkeypatch.setattr(milp.Programme, "solve", lambda _: None)
    monkeypatch.setattr(place.FirstFit, "place", lambda *_: None)
    answer = solve(FOUR, two)
    assert isinstance(answer, Undecided)
    assert len(answer.vms) == 3


def test_a_refusal_names_who_is_left_over():
    for refusal in (NoFit, Undecided):
        with pytest.raises(ValueError, match="without a VM"):
            refusal("nothing is wrong", ())
