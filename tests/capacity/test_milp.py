"""The integer programme by itself: what it asks, what it rules out, and when it does not know."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.capacity_estates import estate
from support.capacity_judges import pci

from vsphere_ai.capacity import milp
from vsphere_ai.capacity.host import HostGpus
from vsphere_ai.capacity.items import VmClass
from vsphere_ai.capacity.milp import NO_LOSS, Load, Programme, divided, left_over, vms_of
from vsphere_ai.capacity.power_on_order import Budget, every_end
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.verdict import Undecided
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot, Sharing, StayingVgpu

A100 = board("a100-40gb")
TWO = frozenset({"esx1", "esx2"})


def gpu(host="esx1", number=0, mode="mig", **more):
    return GpuSlot(host, pci(number), A100, mode, **more)


def vms(*sizes, hosts=TWO, count=1, stem="vm"):
    return VmClass(tuple(f"grid_a100-{s}c" for s in sizes), hosts, tuple(f"{stem}{n}" for n in range(count)))


def test_a_solution_adds_up():
    classes = [vms("3-20", count=3), vms("4-20", "4-20", stem="pair")]
    slots = [gpu(h, n) for h in ("esx1", "esx2") for n in range(2)]
    solved = Programme(classes, slots).solve()
    where = {vm: host for host, own in vms_of(classes, solved).items() for vm in own}
    assert sorted(where) == ["pair0", "vm0", "vm1", "vm2"]
    given = [vm for own in divided(classes, solved).values() for vm, _ in own]
    assert sorted(given) == ["pair0", "pair0", "vm0", "vm1", "vm2"]
    assert {host for (host, _), own in divided(classes, solved).items() for vm, _ in own if vm == "pair0"} == {
        where["pair0"]
    }


def test_vms_of_a_lost_host_need_room_elsewhere():
    busy = gpu("esx1", running=(StayingVgpu("old", "grid_a100-7-40c", 0),))
    old = [("esx1", vms("7-40", stem="old"))]
    programme = Programme([vms("4-20")], [busy, gpu("esx2"), gpu("esx2", 1)])
    programme.survive(frozenset({"esx1"}), old)
    assert programme.solve() is not None
    programme.survive(frozenset({"esx2"}), old)  # the only host with room for the new VM
    assert programme.solve() is None
    assert programme.certain
    # a VM that restarts takes the room a new one wanted
    programme = Programme([vms("4-20")], [busy, gpu("esx2")])
    programme.survive(frozenset({"esx1"}), old)
    assert programme.solve() is None


def test_what_is_ruled_out_does_not_come_back():
    programme = Programme([vms("7-40", count=2), vms("1-5", hosts=frozenset({"esx2"}))], [gpu("esx1"), gpu("esx2", 1)])
    assert programme.solve() is None  # three GPUs would do
    slots = [gpu("esx1"), gpu("esx2"), gpu("esx2", 1)]
    programme = Programme([vms("7-40", count=2)], slots)
    seen = []
    while (solved := programme.solve()) is not None:
        seen.append({host: dict(counts) for host, counts in solved.counts.items()})
        programme.forbid("esx1", {frozenset({NO_LOSS}): solved.loads["esx1"][NO_LOSS]})
    assert len(seen) == 2
    assert {"esx2": {0: 2}} in seen
    assert {"esx1": {0: 1}, "esx2": {0: 1}} in seen
    assert programme.certain


def sliced(count):
    return [gpu(number=n, mode="time_sliced") for n in range(count)]


def claimed(classes, slots, hosts=("esx1",)):
    programme = Programme(classes, slots)
    programme.claim(hosts)
    return programme.solve() is not None


def test_vms_that_give_empty_gpus_their_size():
    one = frozenset({"esx1"})
    mixed = vms("10", "10", "40", hosts=one, count=2)
    pair, whole, instance = vms("10", "10", hosts=one), vms("40", hosts=one), vms("1-5", hosts=one)
    # there is room for both, but the first of them takes all three GPUs
    assert Programme([mixed], sliced(3)).solve() is not None
    assert not claimed([mixed], sliced(3))
    assert claimed([mixed], sliced(3), hosts=())
    assert claimed([mixed], sliced(4))
    # the pair comes last, with one GPU left
    assert claimed([pair, whole, instance], [*sliced(2), gpu(number=2)])
    # GPUs nobody wants are not asked for a size, nor are those that run something
    assert claimed([instance], [*sliced(2), gpu(number=2)])
    busy = gpu(mode="time_sliced", running=(StayingVgpu("old", "grid_a100-10c"),))
    assert not claimed([whole], [busy])
    assert claimed([pair], [busy])


@pytest.mark.parametrize("seed", range(60))
def test_whatever_powers_on_in_some_order_is_a_solution_of_the_programme(seed):
    rng = random.Random(seed)
    any_series = rng.random() < 0.5
    slots = [gpu(number=n, mode="time_sliced", sharing=Sharing(False, any_series)) for n in range(rng.randint(2, 4))]
    if rng.random() < 0.3:
        slots[0] = replace(slots[0], running=(StayingVgpu("old", "grid_a100-20c"),))
    sizes = rng.choice((("10", "20", "40"), ("8", "10", "40"), ("20", "40")))
    classes = []
    while sum(len(c.profiles) for c in classes) < rng.randint(4, 7):
        own = tuple(sorted(rng.choice(sizes) for _ in range(rng.randint(1, 4))))
        classes.append(vms(*own, hosts=frozenset({"esx1"}), stem=f"vm{len(classes)}-"))
    named = {c.vms[0]: c.profiles for c in classes}
    budget = Budget(100_000)
    found = any(True for _ in every_end(HostGpus(slots, "performance"), named, budget))
    assert budget.steps >= 0
    assert claimed(classes, slots) == found


def test_as_many_as_have_room():
    programme = Programme([vms("7-40", count=2), vms("4-20", count=3, stem="four")], [gpu("esx1"), gpu("esx2")])
    assert sum(left_over(programme.classes, programme.most())) == 3


@pytest.mark.parametrize("limit", ["branches", "seconds", "sums"])
def test_what_the_solver_does_not_prove_is_not_called_certain(monkeypatch, limit):
    if limit == "branches":
        monkeypatch.setattr(milp, "MAX_NODES", 0)
    elif limit == "seconds":
        monkeypatch.setattr(milp, "MAX_SECONDS", 0.0)
    else:
        monkeypatch.setattr(milp, "_given", lambda *_: ({}, 1))
    answer = solve(*estate(13, gpus=16))
    assert isinstance(answer, Undecided)
    assert "there may be one" in answer.explanation


def test_the_solver_prints_nothing(capfd):
    """HiGHS 1.16 prints a banner when a model is made, before its output can be switched off."""
    milp._silent.cache_clear()
    assert Programme([vms("7-40")], [gpu("esx1")]).solve() is not None
    assert capfd.readouterr() == ("", "")


def test_vms_that_never_come_together_on_a_host_are_not_ruled_out_there_one_by_one():
    whole, half = vms("7-40", hosts=frozenset({"esx1"})), vms("4-20", stem="half")
    programme = Programme([whole, half], [gpu("esx1"), gpu("esx2")])
    programme.forbid("esx2", {frozenset({NO_LOSS}): Load({whole.profiles: 1, half.profiles: 1})})
    assert programme.solve().counts == {"esx1": {0: 1}, "esx2": {1: 1}}
