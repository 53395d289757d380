"""A quick restart is a proof: what it finds, the exact search finds as well; and it saves that search."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from support.capacity_estates import estate
from support.capacity_judges import pci

from vsphere_ai.capacity import spare_hosts
from vsphere_ai.capacity.place import place
from vsphere_ai.capacity.restart import Restarts
from vsphere_ai.capacity.solve import solve
from vsphere_ai.capacity.spare_hosts import every_failure, first_failure
from vsphere_ai.capacity.verdict import Fit, GpuHosts, VmDemand, occupied
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot, StayingVgpu

A100 = board("a100-40gb")


@pytest.mark.parametrize("seed", range(60))
def test_what_restarts_quickly_has_room(seed):
    farm, demands = estate(seed, gpus=12, lost=seed % 3)
    fit = solve(farm, demands)
    if not isinstance(fit, Fit):
        return
    used = occupied(farm, fit)
    restarts = Restarts(used, demands, fit)
    for number in (1, 2):
        for chosen in combinations(sorted(farm.hosts), min(number, len(farm.hosts))):
            lost = frozenset(chosen)
            homeless = restarts.homeless(lost)
            at = {vm: host for vm, (host, _) in fit.assignment.items()}
            expected = {d.name for d in demands if (d.running_on or at.get(d.name)) in lost}
            assert {d.name for d in homeless} == expected
            assert not any(d.hosts & lost or d.running_on for d in homeless)
            if restarts.survives(lost):
                answer = place(used.without(lost), homeless)
                assert isinstance(answer, Fit)
                assert isinstance(answer, Fit)


def unlike(hosts, rng):
    """Hosts no two of which are alike, and VMs for a third of their room."""
    names = [f"esx{n:03}" for n in range(hosts)]
    every = frozenset(names)
    slots, demands = [], []
    for at, host in enumerate(names):
        for gpu in range(4):
            starts = [s for s in range(7) if at >> (gpu + s) & 1][:3]
            running = tuple(StayingVgpu(f"old-{host}-{gpu}-{s}", "grid_a100-1-5c", s) for s in starts)
            slots.append(GpuSlot(host, pci(gpu), A100, "mig", running))
            demands += [VmDemand(r.vm, (r.profile,), every, host) for r in running]
    sizes = ("1-5", "2-10", "3-20")
    demands += [VmDemand(f"vm{n}", (f"grid_a100-{rng.choice(sizes)}c",), every) for n in range(hosts)]
    return GpuHosts(tuple(slots)), demands


def test_a_loss_does_not_pack_the_whole_estate_again(monkeypatch):
    farm, demands = unlike(60, random.Random(1))
    asked = []
    monkeypatch.setattr(spare_hosts, "place", lambda *given: asked.append(given) or place(*given))
    answer = solve(farm, demands, spare_hosts=1)
    assert isinstance(answer, Fit)
    assert answer.exact
    assert len(asked) < 3


def test_every_failure_names_each_host_alike_or_not():
    """Three full hosts that are alike: no one's VMs restart, and all three are named."""
    names = ["esx0", "esx1", "esx2"]
    slots = tuple(GpuSlot(h, pci(0), A100, "mig") for h in names)
    demands = [VmDemand(f"vm{n}", ("grid_a100-7-40c",), frozenset(names)) for n in range(3)]
    farm = GpuHosts(slots)
    fit = solve(farm, demands)
    losses = [frozenset({h}) for h in names]
    assert [sorted(lost) for lost, _ in every_failure(farm, demands, fit, losses)] == [[h] for h in names]
    assert first_failure(farm, demands, fit, losses)[0] == losses[0]
    spare = GpuHosts((*slots, GpuSlot("esx3", pci(0), A100, "mig")))
    free = [VmDemand(d.name, d.profiles, d.hosts | {"esx3"}) for d in demands]
    assert list(every_failure(spare, free, solve(spare, free), losses)) == []
