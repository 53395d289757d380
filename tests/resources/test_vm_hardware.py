"""The virtual hardware kind: an upgrade by number, and the rest in the VM's one reconfigure."""

from __future__ import annotations

import pytest
from support.estates import ESX1, estate, guest, host, state_of, view, vm
from support.judging import judge, plan_one, steps_of, words

from vsphere_ai.model.estate.host_version import hardware_number
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.vm_hardware import VmHardware

ALONE = "- vms: train-04\n  hardware: {version: 19, memory_reservation: full}\n"

VM = vm(1)


def around(**more):
    return estate(host(ESX1), guest(VM, ESX1, **more))


def test_as_it_is_needs_nothing():
    wanted = VmHardware(version=19, firmware="efi", memory_reservation=0, cpu_reservation_mhz=0)
    judged = judge(wanted, VM, around())
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_upgrade():
    judged = judge(VmHardware(version=19), VM, around(config__version="vmx-13"))
    assert judged.fields == {"version": (13, 19)}
    assert (judged.step.method, judged.step.args) == ("UpgradeVM_Task", {"version": "vmx-19"})
    assert judged.step.needs_power_off
    assert judged.step.path == ""


@pytest.mark.parametrize(
    ("more", "wanted", "spec"),
    [
        ({"config__firmware": "bios"}, {"firmware": "efi"}, {"firmware": "efi"}),
        ({}, {"memory_reservation": "full"}, {"memoryReservationLockedToMax": True}),
        (
            {},
            {"memory_reservation": 1024},
            {
                "memoryReservationLockedToMax": False,
                "memoryAllocation": {"_typeName": "ResourceAllocationInfo", "reservation": 1024},
            },
        ),
        (
            {"config__memoryReservationLockedToMax": True},
            {"memory_reservation": 0},
            {
                "memoryReservationLockedToMax": False,
                "memoryAllocation": {"_typeName": "ResourceAllocationInfo", "reservation": 0},
            },
        ),
        (
            {},
            {"cpu_reservation_mhz": 4000},
            {"cpuAllocation": {"_typeName": "ResourceAllocationInfo", "reservation": 4000}},
        ),
    ],
)
def test_one_reconfigure_with_only_the_difference(more, wanted, spec):
    judged = judge(VmHardware(**wanted), VM, around(**more))
    assert judged.step.spec == spec
    assert judged.step.needs_power_off
    assert judged.step.device_changes == ()


def test_upgrade_comes_before_the_reconfigure_in_one_power_cycle():
    wanted = VmHardware(version=19, memory_reservation="full", cpu_reservation_mhz=100)
    plan = plan_one(around(config__version="vmx-17"), VM, wanted)
    assert not plan.problems
    assert words(steps_of(plan, VM)) == ["power-off", "UpgradeVM_Task", "reconfigure", "as-planned", "power-on"]


def test_versions_are_compared_as_numbers():
    assert hardware_number("vmx-9") < hardware_number("vmx-19")
    assert judge(VmHardware(version=19), VM, around(config__version="vmx-9")).problems == {}
    assert hardware_number("vmx-next") is hardware_number("") is hardware_number(None) is None


@pytest.mark.parametrize(
    ("more", "wanted", "rule"),
    [
        ({"config__version": "vmx-20"}, {"version": 19}, "hardware.downgrade"),
        ({}, {"memory_reservation": 65537}, "hardware.reservation"),
    ],
)
def test_problems(more, wanted, rule):
    assert set(judge(VmHardware(**wanted), VM, around(**more)).problems) == {rule}


def test_a_reservation_of_all_memory_is_allowed():
    assert judge(VmHardware(memory_reservation=65536), VM, around()).problems == {}


def test_a_changed_firmware_is_noted_and_an_equal_one_is_not():
    (note,) = judge(VmHardware(firmware="efi"), VM, around(config__firmware="bios")).notes
    assert "bios" in note
    assert judge(VmHardware(firmware="efi"), VM, around()).notes == ()


def test_observed_reservation_full_or_a_number():
    full = view(around(config__memoryReservationLockedToMax=True, config__memoryAllocation__reservation=65536))
    assert full.state(VM.ref, "hardware").memory_reservation == "full"
    part = view(around(config__memoryAllocation__reservation=2048))
    assert part.state(VM.ref, "hardware").memory_reservation == 2048
    assert state_of(VmHardware, Facts("VirtualMachine:vm-9")) is None
