"""Choice of hosts: spread where that has room, a placement wherever there is one, and the loss of hosts survived."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.capacity_judges import pci
from support.choice_rooms import room

from vsphere_ai.capacity.verdict import GpuHosts, VmDemand
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot, StayingVgpu
from vsphere_ai.model.facts import Facts
from vsphere_ai.sets.choice import Chooser, HostRoom, MemberNeed

A100 = board("a100-40gb")
SIZES = ("10c", "20c", "40c", "1-5c", "2-10c", "3-20c")
HOSTS = ("esx0", "esx1", "esx2")


def chooser(gpus, *, memory=None, sets=None, spare=0, there=()):
    """Hosts with GPUs (modes by host), memory in GB, and VMs there as (name, host, profile), which power on."""
    slots = []
    for host, modes in gpus.items():
        slots += [GpuSlot(host, pci(n), A100, "mig" if m else "time_sliced") for n, m in enumerate(modes)]
    farm = GpuHosts(tuple(slots), dict.fromkeys(gpus, "performance"))
    rooms = {h: room(h, (memory or {}).get(h), (sets or {}).get(h, {})) for h in gpus}
    demands = tuple(VmDemand(n, (p,), frozenset(gpus)) for n, _, p in there)
    return Chooser(farm, farm, demands, {n: h for n, h, _ in there}, rooms, spare)


def needs(profiles, hosts=HOSTS, **more):
    """VMs with vGPUs of these sizes, one or several each."""
    return [
        MemberNeed(f"vm{n}", "train", frozenset(hosts), tuple(f"grid_a100-{s}" for s in sorted(own)), **more)
        for n, own in enumerate(profiles)
    ]


def judged(asked, chosen, wanted):
    """Whether a placement holds on each host, and survives the loss of hosts."""
    held = all(asked.takes(h, [n for n in wanted if chosen[n.name] == h]) for h in asked.rooms)
    return held and (not asked.spare or asked.survives(chosen, wanted))


def exists(asked, wanted):
    """Every placement is tried."""
    places = product(*(sorted(n.hosts) for n in wanted))
    return any(judged(asked, dict(zip((n.name for n in wanted), own, strict=True)), wanted) for own in places)


@st.composite
def farms(draw):
    """Up to three hosts, and up to five VMs of up to two vGPUs, with memory or a limit to some hosts."""
    names = HOSTS[: draw(st.integers(1, 3))]
    gpus = {h: draw(st.lists(st.booleans(), min_size=1, max_size=2)) for h in names}
    memory = {h: draw(st.sampled_from((None, 1, 2, 3))) for h in names}
    there = [("old", names[0], "grid_a100-10c")] if draw(st.booleans()) else []
    spare = draw(st.sampled_from((0, 0, 1))) if len(names) > 1 else 0
    size = st.lists(st.sampled_from(SIZES), max_size=2)
    hosts = st.sets(st.sampled_from(names), min_size=1)
    vms = draw(st.lists(st.tuples(size, hosts, st.integers(0, 2), st.booleans()), min_size=1, max_size=5))
    wanted = [
        replace(needs([own], where)[0], name=f"vm{n}", memory_mb=mb, apart=apart)
        for n, (own, where, mb, apart) in enumerate(vms)
    ]
    return chooser(gpus, memory=memory, spare=spare, there=there), wanted


@settings(deadline=None, max_examples=150)
@given(farms())
def test_a_placement_is_found_wherever_there_is_one(case):
    asked, wanted = case
    found = asked.choose(wanted)
    if exists(asked, wanted):
        assert not found.refused
        assert judged(asked, found.hosts, wanted)
    elif not found.refused:  # only the loss of hosts is not survived, which the plan refuses
        assert asked.spare
        assert judged(replace(asked, spare=0), found.hosts, wanted)


def test_equal_vms_are_spread_evenly():
    gpus = {h: (False, False) for h in HOSTS}
    found = chooser(gpus).choose(needs([["10c"]] * 6))
    assert sorted(found.hosts.values()) == sorted(HOSTS * 2)
    assert found.spread


def test_members_that_are_there_count():
    asked = chooser({h: () for h in HOSTS}, sets={"esx0": {"train": 2}, "esx1": {"train": 1}})
    assert sorted(asked.choose(needs([[]] * 3)).hosts.values()) == ["esx1", "esx2", "esx2"]


def test_the_planner_decides_where_an_even_spread_has_no_room():
    """Four small VMs, spread over both hosts, leave no whole GPU for a large one."""
    asked = chooser({"esx0": (False,), "esx1": (False,)})
    wanted = [*needs([["10c"]] * 4, ("esx0", "esx1")), replace(needs([["40c"]])[0], name="large")]
    wanted = [replace(n, hosts=frozenset(("esx0", "esx1")), memory_mb=int(n.name != "large")) for n in wanted]
    found = asked.choose(wanted)
    assert not found.refused
    assert len({found.hosts[n.name] for n in wanted if n.name != "large"}) == 1


def test_one_too_many_is_refused_and_the_others_are_placed():
    asked = chooser({"esx0": (False,), "esx1": (False,)})
    found = asked.choose(needs([["20c"]] * 5, ("esx0", "esx1")))
    assert len(found.hosts) == 4
    assert len(found.refused) == 1


@pytest.mark.parametrize(("memory", "refused"), [(64, 0), (31, 2)])
def test_reserved_memory_counts(memory, refused):
    asked = chooser({"esx0": (), "esx1": ()}, memory={"esx0": memory, "esx1": memory})
    assert len(asked.choose(needs([[]] * 4, ("esx0", "esx1"), memory_mb=31)).refused) == refused


def test_vms_that_must_be_apart_are_on_hosts_of_their_own():
    asked = chooser({h: () for h in HOSTS}, sets={"esx1": {"train": 1}})
    found = asked.choose(needs([[]] * 3, apart=True))
    assert sorted(found.hosts.values()) == ["esx0", "esx2"]
    assert len(found.refused) == 1


def test_a_spare_host_is_left_where_a_placement_leaves_one():
    """A GPU gives vGPUs of one size: one VM on each host leaves no GPU for that of the other size."""
    wanted = needs([["10c"], ["10c"], ["20c"]])
    asked = chooser({h: (False,) for h in HOSTS}, spare=1)
    even = dict(zip((n.name for n in wanted), HOSTS, strict=True))
    assert not asked.survives(even, wanted)
    assert judged(asked, asked.choose(wanted).hosts, wanted)


def test_what_is_left_on_a_host_is_counted_with_the_new_vms():
    asked = chooser({"esx0": (False, False)})
    assert asked.left("esx0", needs([["10c"]] * 3, ("esx0",)), ["grid_a100-10c"]) == {"grid_a100-10c": 5}


def test_vgpus_that_run_keep_their_places():
    slots = (GpuSlot("esx0", pci(0), A100, "time_sliced", (StayingVgpu("old", "grid_a100-20c"),)),)
    farm = GpuHosts(slots)
    asked = Chooser(farm, farm, (), {}, {"esx0": HostRoom(Facts("HostSystem:esx0", {}))})
    assert asked.choose(needs([["10c"]], ("esx0",))).refused == ("vm0",)
    assert not asked.choose(needs([["20c"]], ("esx0",))).refused


def test_hosts_that_are_equal_are_tried_both_where_another_vm_may_be_on_one_of_them_only():
    asked = chooser({"esx0": (), "esx1": ()}, memory={"esx0": 2, "esx1": 2})
    large = replace(needs([[]], ("esx0", "esx1"))[0], name="large", memory_mb=2)
    small = replace(needs([[]], ("esx0",))[0], name="small", memory_mb=1)
    assert asked.choose([large, small]).hosts == {"large": "esx1", "small": "esx0"}
