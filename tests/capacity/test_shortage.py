"""Counting and the pooled programme against plain enumeration, for VMs with one vGPU."""

from __future__ import annotations

from collections import Counter

from capacity.test_brute import estates, fits
from hypothesis import given, settings
from hypothesis import strategies as st
from support.capacity_judges import pci

from vsphere_ai.capacity.assign import Remainder, assign
from vsphere_ai.capacity.items import VmClass, items_of
from vsphere_ai.capacity.milp import Programme, divided, left_over
from vsphere_ai.capacity.shortage import Shortage, shortage
from vsphere_ai.gpu.catalog import board
from vsphere_ai.gpu.vgpus.slot import GpuSlot

A100 = board("a100-40gb")


def classes_of(vms):
    return [
        VmClass(profiles, hosts, tuple(f"vm{at}-{n}" for n in range(count)))
        for at, ((profiles, hosts), count) in enumerate(Counter(vms).items())
    ]


def most(vms, slots):
    """How many of these VMs fit at once, by trying every subset."""
    return max(
        (chosen.bit_count() for chosen in range(1 << len(vms))
         if fits([vm for at, vm in enumerate(vms) if chosen >> at & 1], slots)),
    )  # fmt: skip


@settings(max_examples=400, deadline=None, derandomize=True)
@given(estates(), st.data())
def test_pooled_hosts_are_the_same_question_for_vms_with_one_vgpu(estate, data):
    slots, vms = estate
    vms = [(profiles[:1], hosts) for profiles, hosts in vms for _ in range(data.draw(st.integers(1, 2)))]
    classes = classes_of(vms)
    programme = Programme(classes, slots, pooled=True)
    solved = programme.solve()
    assert programme.certain
    assert (solved is not None) == fits(vms, slots)
    if solved is not None:
        owners = [vm for own in divided(classes, solved).values() for vm, _ in own]
        assert sorted(owners) == sorted(vm for c in classes for vm in c.vms)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(estates())
def test_who_is_left_over_is_as_few_as_can_be(estate):
    slots, vms = estate
    classes = classes_of(vms)
    left = left_over(classes, Programme(classes, slots).most())
    assert sum(left) == len(vms) - most(vms, slots)
    found = assign(classes, slots, {})
    assert isinstance(found, Remainder) == (sum(left) > 0)
    if isinstance(found, Remainder):
        assert found.exact
        assert sum(found.left) == sum(left)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(estates())
def test_a_shortage_is_a_proof(estate):
    slots, vms = estate
    vms = [((profile,), hosts) for profiles, hosts in vms for profile in profiles]
    found = shortage(items_of(classes_of(vms)), slots)
    if found is None:
        return
    chosen = [vm for vm in vms if any((vm[0][0], vm[1]) == (i.profile, i.hosts) for i in found.items)]
    assert found.wanted == len(chosen) > found.room >= most(chosen, slots)
    # the fewest items: without any one of them the rest is no shortage
    for item in found.items:
        rest = {i: n for i, n in items_of(classes_of(vms)).items() if i in found.items and i != item}
        assert shortage(rest, slots) is None


def test_what_the_items_count_together():
    one = frozenset({"esx1"})
    slots = [GpuSlot("esx1", pci(n), A100, "mig") for n in range(2)]
    wanted = items_of([VmClass((f"grid_a100-{s}c",), one, ("a", "b")) for s in ("4-20", "7-40")])
    assert shortage(wanted, slots) == Shortage(tuple(wanted), 4, 2)
    assert shortage({}, slots) is None
    assert shortage(wanted, []).wanted == 2
