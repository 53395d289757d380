"""`+me.all` takes every media engine of a GPU: beside it stand only profiles without any (NVIDIA's nvml.h)."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import pytest

from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.mig.layout import parse
from vsphere_ai.gpu.mig.placement import Impossible, transition
from vsphere_ai.gpu.mig.search import Instance, placed_layouts
from vsphere_ai.gpu.vgpus.ondemand import claim, mig_state
from vsphere_ai.lab.hardware.gpu import LabGpu, Nvml, NvmlError

PRO = board("rtx-pro-6000-blackwell")


def breaks(names):
    """Judge by the names alone."""
    engines = [n for n in names if not n.endswith("-me")]
    return any(n.endswith("+me.all") for n in names) and len(engines) > 1


def brute_force():
    """Every set of places without overlap, at most one +me or +me.all, and no other engine beside +me.all."""
    places = [(p.name, s, p.memory_slices) for p in PRO.profiles for s in p.starts]
    found = set()
    for size in range(5):
        for chosen in combinations(places, size):
            slices = Counter(at for _, start, length in chosen for at in range(start, start + length))
            names = [name for name, _, _ in chosen]
            if max(slices.values(), default=0) < 2 and sum("+me" in n for n in names) < 2 and not breaks(names):
                found.add(frozenset((name, start) for name, start, _ in chosen))
    return found


def lab_gpu():
    gpu = LabGpu.of(0, "0000:3b:00.0", PRO.key)
    gpu.driver, gpu.mig_current = "580.65.05", True
    return gpu


def test_every_layout_is_one_that_the_driver_makes():
    layouts = {frozenset((s.profile.name, s.start) for s in places) for places in placed_layouts(PRO, PRO.profiles)}
    assert layouts == brute_force()
    assert not any(breaks([n for n, _ in layout]) for layout in layouts)


def test_the_lab_makes_the_same_layouts():
    legal = brute_force()
    reached, todo = {frozenset()}, [()]
    while todo:
        made = todo.pop()
        for profile in PRO.profiles:
            for start in profile.starts:
                gpu = lab_gpu()
                for name, at in made:
                    gpu.create(gpu.profile(name), at)
                after = frozenset((*made, (profile.name, start)))
                if after in legal and len(after) > len(made):
                    gpu.create(gpu.profile(profile.name), start)
                    if after not in reached:
                        reached.add(after)
                        todo.append((*made, (profile.name, start)))
                else:
                    with pytest.raises(NvmlError) as refused:
                        gpu.create(gpu.profile(profile.name), start)
                    assert refused.value.code == Nvml.INSUFFICIENT_RESOURCES
    assert reached == legal


@pytest.mark.parametrize("seed", range(30))
def test_vms_power_on_as_in_the_lab(seed):
    rng = random.Random(seed)
    gpu, state = lab_gpu(), mig_state(PRO, ())
    for _ in range(12):
        profile = rng.choice(PRO.profiles)
        got = claim(PRO, state, profile)
        try:
            made = gpu.create(gpu.profile(profile.name))
        except NvmlError:
            assert got is None
        else:
            assert got is not None
            assert got[1] == made.start
            state = got[0]


def test_the_reason_names_the_profile_that_takes_them_all():
    answer = transition(PRO, (), parse("1g.24gb+me.all,1g.24gb,2g.48gb-me"))
    assert isinstance(answer, Impossible)
    assert answer.reasons == (
        "1g.24gb+me.all takes every media engine of the GPU; beside it only -me profiles fit, not 1g.24gb",
    )
    assert not any(breaks([i.profile_name for i in layout.instances]) for layout in answer.nearest)
    assert not isinstance(transition(PRO, (), parse("1g.24gb+me.all,1g.24gb-me,2g.48gb-me")), Impossible)
    busy = (Instance("1g.24gb", 0, in_use=True),)
    assert isinstance(transition(PRO, busy, parse("1g.24gb,2g.48gb+me.all")), Impossible)
