"""The view: which state of an object counts, what it is made of being observed, stated or planned."""

from __future__ import annotations

from support.estates import ABOUT, ESX1, estate, guest, host, vgpu_device, view, vm

from vsphere_ai.model.facts import Estate
from vsphere_ai.model.view import View
from vsphere_ai.resources._helpers.vm_settings import gpu_memory_of
from vsphere_ai.resources.mixins import vgpus_of
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

VM, OTHER = vm(1), vm(2)


def test_planned_counts_before_stated_before_observed():
    seen, said, set_ = (VmHardware(version=n) for n in (17, 18, 19))
    key = (VM.ref, "hardware")
    only = View(Estate(ABOUT, {}), {key: seen, (OTHER.ref, "vgpu"): Vgpu(profiles=())})
    assert only.kinds == ("hardware", "vgpu")
    assert list(only.wanted(VM.ref)) == [seen]
    stated = View(only.estate, only.states, stated={key: said})
    assert list(stated.wanted(VM.ref)) == [said]
    assert list(stated.with_planned(VM.ref, set_).wanted(VM.ref)) == [set_]
    assert list(stated.wanted("VirtualMachine:vm-99")) == []


def test_a_kind_that_is_planned_first_is_known_too():
    empty = View(Estate(ABOUT, {}), {})
    assert empty.kinds == ()
    assert empty.with_planned(VM.ref, Vgpu(profiles=())).kinds == ("vgpu",)


def test_gpus_are_counted_once_whichever_way_they_are_wanted():
    card = "grid_a100-40c"
    seen = view(estate(host(ESX1), guest(VM, ESX1, config__hardware__device=(vgpu_device(13000, card),))))
    assert vgpus_of(VM, seen) == (card,)
    assert gpu_memory_of(VM, seen) == 40
    assert gpu_memory_of(VM, seen, Vgpu(profiles=(card, card)), "vgpu") == 80
    stated = View(seen.estate, seen.states, stated={(VM.ref, "vgpu"): Vgpu(uvm=True)})  # leaves the profiles open
    assert vgpus_of(VM, stated) == (card,)
    given_up = View(seen.estate, seen.states, stated={(VM.ref, "vgpu"): Vgpu(profiles=())})
    assert gpu_memory_of(VM, given_up) == 0


def test_a_state_is_asked_for_by_its_class():
    seen = VmHardware(version=17)
    only = View(Estate(ABOUT, {}), {(VM.ref, "hardware"): seen})
    assert only.get(VmHardware, VM.ref) == seen
    assert only.get(VmHardware, OTHER.ref) is None
    assert only.get(Vgpu, VM.ref) is None
    assert only.with_planned(OTHER.ref, seen).get(VmHardware, OTHER.ref) == seen
