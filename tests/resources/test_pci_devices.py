"""The pci_devices kind: fixed and dynamic devices, what they imply, who has them, and that vGPUs stay apart."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, ESX2, estate, made, vgpu_device, view, vm, wants
from support.judging import judge, plan_one
from support.machines import GPU_0, GPU_1, NIC_1, dynamic, fixed, keys, machine, tuned
from support.plays import THROUGH

from vsphere_ai.execution.actions import conflicts
from vsphere_ai.fabric.pci import Claim, has_room
from vsphere_ai.model.deferred import property_path
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.steps import Reconfigure
from vsphere_ai.resources.pci_devices import PassthroughDevice, PciDevices
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

ALONE = f'{THROUGH}- vms: train-04\n  pci_devices: [{{host_device: "0000:86:00.0"}}]\n'

VM, OTHER = vm(1), vm(2)
READY = {
    "config__memoryReservationLockedToMax": True,
    "config__extraConfig": keys(pciPassthru__use64bitMMIO="TRUE", pciPassthru__64bitMMIOSizeGB="128"),
}
F0, F1 = PassthroughDevice(host_device=GPU_0), PassthroughDevice(host_device=GPU_1)
ANY = PassthroughDevice(vendor="10de", device="20f1")


def around(*devices, passed=None, more=(), **of_vm):
    passed = {GPU_0: ""} if passed is None else passed
    return estate(machine(ESX1, passed=passed), machine(ESX2, passed=passed), tuned(VM, ESX1, *devices, **of_vm), *more)


def grouped(key):
    """A device that carries the mark of a group."""
    return {**dynamic(key), "deviceGroupInfo": {"groupInstanceKey": 1, "sequenceId": 0}}


def want(*devices):
    return PciDevices(devices=devices)


def operations(step):
    return [
        (c["operation"], c["device"].get("key"), str(c["device"]["backing"].get("id"))) for c in step.device_changes
    ]


# -- the language


def test_ids_may_look_like_numbers():
    assert PassthroughDevice(vendor="0x10DE", device=2331).device == "2331"
    assert PassthroughDevice(vendor="10DE", device="20f1") == ANY


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"vendor": "10de"},
        {"host_device": GPU_0, "vendor": "10de", "device": "20f1"},
        {"host_device": GPU_0, "label": "x"},
        {"vendor": "10de", "device": 2.0e3},
        {"vendor": "10de", "device": True},
        {"host_device": "3b:00"},
    ],
)
def test_a_device_is_fixed_or_dynamic(wrong):
    with pytest.raises(ValidationError):
        PassthroughDevice(**wrong)


# -- what changes


def test_as_wanted():
    judged = judge(want(F0), VM, around(fixed(13000, GPU_0), **READY))
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_a_first_gpu_implies_what_it_needs():
    assert set(judge(want(F0), VM, around(config__firmware="bios")).problems) == {"pci_devices.firmware"}
    efi = {(VM.ref, "hardware"): VmHardware(firmware="efi")}
    judged = judge(want(F0), VM, around(config__firmware="bios"), stated=efi)
    assert judged.fields["host"] == (None, ESX1.name)
    assert judged.fields["mmio_size_gb"] == (None, 128)
    step = judged.step
    assert step.needs_power_off
    assert step.spec == {"memoryReservationLockedToMax": True, "firmware": "efi"}
    assert dict(step.extra_config) == {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "128"}
    (change,) = step.device_changes
    backing = change["device"]["backing"]
    assert (backing["id"], backing["deviceId"], backing["vendorId"]) == (GPU_0, "20f1", 0x10DE)
    deferred = backing["systemId"]
    assert (deferred.managed, deferred.name) == ("HostSystem", ESX1.name)
    assert property_path(deferred.path).startswith("configTarget.pciPassthrough")
    assert any("BIOS" in note for note in judged.notes)
    assert any(f"on {ESX1.name} only" in note for note in judged.notes)


def test_a_nic_needs_no_window():
    judged = judge(want(PassthroughDevice(host_device=NIC_1)), VM, around(passed={NIC_1: ""}, config__firmware="bios"))
    assert set(judged.fields) == {"devices", "host", "memory_locked"}
    assert judged.step.extra_config == ()


def test_vgpus_and_passthrough_share_one_window():
    of = around(vgpu_device(13001, "grid_a100-40c"), **READY)
    assert judge(want(F0), VM, of).settled.mmio_size_gb == 256


def test_a_window_is_never_lowered():
    big = keys(pciPassthru__use64bitMMIO="TRUE", pciPassthru__64bitMMIOSizeGB="512")
    assert "mmio_size_gb" not in judge(want(F0), VM, around(config__extraConfig=big)).fields


def test_a_dynamic_device():
    labelled = PassthroughDevice(vendor="10de", device="20f1", label="big")
    judged = judge(want(labelled), VM, around(passed={GPU_1: "big"}))
    assert "host" not in judged.fields
    (change,) = judged.step.device_changes
    assert change["device"]["backing"] == {
        "_typeName": "VirtualPCIPassthroughDynamicBackingInfo",
        "deviceName": "",
        "allowedDevice": ({"_typeName": "VirtualPCIPassthroughAllowedDevice", "vendorId": 0x10DE, "deviceId": 0x20F1},),
        "customLabel": "big",
    }


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        ([fixed(13000, GPU_0)], [F0, F1], [("add", None, GPU_1)]),
        ([fixed(13000, GPU_0), fixed(13001, GPU_1)], [F1], [("remove", 13000, GPU_0)]),
        ([fixed(13000, GPU_0)], [], [("remove", 13000, GPU_0)]),
        ([fixed(13000, GPU_0), fixed(13001, GPU_1)], [F1, F0], []),
        ([dynamic(13000)], [ANY, ANY], [("add", None, "None")]),
        ([dynamic(13000), dynamic(13001)], [ANY], [("remove", 13001, "None")]),
        ([vgpu_device(13000, "grid_a100-40c"), fixed(13001, GPU_1)], [], [("remove", 13001, GPU_1)]),
    ],
)
def test_only_the_difference(present, wanted, expected):
    judged = judge(want(*wanted), VM, around(*present, passed={GPU_0: "", GPU_1: ""}, **READY))
    assert not judged.problems
    assert (operations(judged.step) if judged.steps else []) == expected


def test_members_of_a_device_group_are_never_touched():
    member = {**fixed(13000, GPU_0), "deviceGroupInfo": {"groupInstanceKey": 1, "sequenceId": 0}}
    of = around(member, **READY)
    assert judge(want(), VM, of).fields == {}
    state = view(of).state(VM.ref, "pci_devices")
    assert state.export(VM, view(of), "playbook").state is None
    assert state.export(VM, view(of), "playbook").left_out == ""
    assert "no group" in view(of).state(VM.ref, "device_groups").export(VM, view(of), "playbook").left_out


def test_the_vgpu_kind_takes_no_passthrough_device_for_its_own():
    of = around(fixed(13000, GPU_0), **READY)
    assert judge(Vgpu(profiles=()), VM, of).steps == ()
    assert view(of).state(VM.ref, "vgpu").profiles == ()


# -- what blocks it


def test_a_device_that_is_not_there_or_not_passed_through():
    assert (
        "devices it passes through: " + GPU_0
        in judge(want(PassthroughDevice(host_device="0000:99:00.0")), VM, around())
        .problems["pci_devices.no-device"]
        .remedy
    )
    found = judge(want(F1), VM, around()).problems["pci_devices.not-passed"]
    assert found.remedy == f"add passthrough: {{{GPU_1}: true}} to a play for {ESX1.name}"
    short = judge(want(ANY, ANY), VM, around()).problems["pci_devices.not-passed"]
    assert "passes 1 of 10de:20f1 through, 2 are wanted" in short.message
    assert f"{GPU_0}, {GPU_1}" in short.remedy


@pytest.mark.parametrize(
    ("wanted", "theirs"),
    [
        (F0, fixed(1, GPU_0)),
        (ANY, fixed(1, GPU_0)),
        (ANY, dynamic(1)),
        (F0, dynamic(1)),
        (F0, grouped(1)),
        (ANY, grouped(1)),
    ],
)
def test_a_device_that_another_running_vm_has(wanted, theirs):
    other = tuned(OTHER, ESX1, theirs)
    found = judge(want(wanted), VM, around(more=[other])).problems
    assert OTHER.name in found["pci_devices.taken"].message
    off = tuned(OTHER, ESX1, theirs, runtime__powerState="poweredOff")
    assert not judge(want(wanted), VM, around(more=[off])).problems
    if theirs.get("deviceGroupInfo"):
        return  # no playbook can take that one away
    gives_up = {(OTHER.ref, "pci_devices"): PciDevices(devices=())}
    assert not judge(want(wanted), VM, around(more=[other]), stated=gives_up).problems


def test_a_fixed_device_that_a_running_vm_got_as_any_of_its_model():
    theirs = dynamic(1)
    theirs["backing"] |= {"assignedId": GPU_0}
    of = around(passed={GPU_0: "", GPU_1: ""}, more=[tuned(OTHER, ESX1, theirs)])
    assert OTHER.name in judge(want(F0), VM, of).problems["pci_devices.taken"].message
    assert not judge(want(F1), VM, of).problems
    assert not judge(want(ANY), VM, of).problems
    assert "2 of 10de:20f1, 1 belong" in judge(want(ANY, ANY), VM, of).problems["pci_devices.taken"].message


def test_fixed_and_dynamic_devices_of_one_vm_are_counted_together():
    assert "same list" in judge(want(F0, ANY), VM, around()).problems["pci_devices.taken"].message
    assert not judge(want(F0, ANY), VM, around(passed={GPU_0: "", GPU_1: ""})).problems


def test_devices_are_given_out_so_that_all_find_one():
    """A VM that may have one of several models moves aside for one that may not."""
    facts = machine(ESX1, passed={GPU_0: "", GPU_1: "", NIC_1: ""})
    model, nic = (0x10DE, 0x20F1), (0x15B3, 0x101B)
    either, gpu = Claim(models=frozenset({model, nic})), Claim(models=frozenset({model}))
    assert has_room(facts, [gpu, gpu], [either])
    assert has_room(facts, [either, gpu], [Claim(GPU_0)])
    assert not has_room(facts, [gpu, gpu, either], [Claim(NIC_1)])
    assert has_room(facts, [either], [gpu, gpu, gpu])  # what others lack is not this VM's matter
    assert not has_room(facts, [Claim("0000:99:00.0")], [])


def test_two_vms_of_one_playbook_cannot_have_one_device():
    of = around(more=[tuned(OTHER, ESX1, runtime__powerState="poweredOff")])
    plan = made(of, {VM: wants(want(F0)), OTHER: wants(want(F0))})
    assert {(p.target, p.rule) for p in plan.problems} >= {(VM, "pci_devices.taken"), (OTHER, "pci_devices.taken")}


def test_versions_memory_firmware_and_counts():
    old = judge(want(ANY), VM, around(config__version="vmx-15")).problems
    assert "needs 17" in old["pci_devices.hardware-version"].message
    assert not judge(want(F0), VM, around(config__version="vmx-11")).problems
    many = judge(want(*[ANY] * 17), VM, around()).problems
    assert "at most 16" in many["pci_devices.count"].remedy
    for version, most in (("vmx-20", 32), ("vmx-21", 128), ("vmx-99", None)):
        on = around(config__version=version)
        assert "pci_devices.count" not in judge(want(*[ANY] * (most or 200)), VM, on).problems
        assert most is None or "pci_devices.count" in judge(want(*[ANY] * (most + 1)), VM, on).problems
    assert "2 times" in judge(want(F0, F0), VM, around()).problems["pci_devices.twice"].message
    partly = plan_one(around(), VM, want(F0), VmHardware(memory_reservation=1024, firmware="bios"))
    assert {p.rule for p in partly.problems} >= {"pci_devices.memory", "pci_devices.firmware"}
    lost = estate(tuned(VM, ESX1))
    assert list(judge(want(F0), VM, lost).problems) == ["pci_devices.host-unknown"]


# -- where it can run


def test_a_fixed_device_ties_the_vm_to_its_host():
    of = around(fixed(13000, GPU_0), **READY)
    assert [h.name for h in view(of).candidates(VM.ref)] == [ESX1.name]


def test_dynamic_devices_need_hosts_with_enough_of_them():
    of = estate(machine(ESX1, passed={GPU_0: ""}), machine(ESX2), tuned(VM, ESX1, dynamic(13000)))
    assert [h.name for h in view(of).candidates(VM.ref)] == [ESX1.name]
    both = estate(machine(ESX1, passed={GPU_0: ""}), machine(ESX2, passed={GPU_1: ""}), tuned(VM, ESX1, dynamic(13000)))
    assert len(view(both).candidates(VM.ref)) == 2


# -- somebody else in between


def test_another_device_in_its_place_is_a_change_of_somebody_else():
    device = {"_typeName": "VirtualPCIPassthrough"}
    step = Reconfigure(target=VM, summary="", device_changes=({"operation": "add", "device": device},))
    before = Facts(VM.ref, {conflicts.DEVICES: (fixed(13000, GPU_0),)})
    now = Facts(VM.ref, {conflicts.DEVICES: (fixed(13000, GPU_1),)})
    assert conflicts.differences(step, before, now)
    assert not conflicts.differences(step, before, before)


def test_back_into_a_playbook():
    of = around(dynamic(13000, label="big"), fixed(13001, GPU_0))
    state = view(of).state(VM.ref, "pci_devices").export(VM, view(of), "playbook").state
    assert state.devices == (PassthroughDevice(vendor="10de", device="20f1", label="big"), F0)
    assert view(around()).state(VM.ref, "pci_devices").export(VM, view(around()), "playbook").state is None
