"""Rules about the states of a VM: what they refuse, what they warn of, and for which VMs they are asked."""

from __future__ import annotations

import pytest
from support.estates import ESX1, ESX2, estate, guest, host, made, vgpu_device, vm, wants

from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.facts import Facts
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vgpu import Vgpu
from vsphere_ai.resources.vm_hardware import VmHardware

DIRECT = HostGraphics(default_type="shared_direct")
UPGRADE = VmHardware(version=19)
TREE = {"rootSnapshotList": ({"name": "before", "childSnapshotList": ({"name": "after"},)},)}
BUSY = Facts("Task:task-9", {"info.descriptionId": "VirtualMachine.createSnapshot", "info.state": "running"})
DONE = Facts("Task:task-8", {"info.descriptionId": "VirtualMachine.createSnapshot", "info.state": "success"})
FT, KEYS = (
    "turn Fault Tolerance off for it first",
    ("check the key provider; the account may need privileges of the group Cryptographic operations"),
)
WAIT = "wait until the product that disabled them, often a backup, has ended; or enable them with it"
TPM = {"_typeName": "VirtualTPM", "key": 11000}
STATES = {
    "suspended": ({"runtime__powerState": "suspended"}, "vm.suspended", "fail", "resume it or power it off first"),
    "inaccessible": ({"runtime__connectionState": "inaccessible"}, "vm.connected", "fail",
                     "restore the access of its host to the datastore of the VM"),
    "orphaned": ({"runtime__connectionState": "orphaned"}, "vm.connected", "fail",
                 "register it again, or remove it from the inventory"),
    "invalid": ({"runtime__connectionState": "invalid"}, "vm.connected", "fail",
                "repair its configuration file, or register it again"),
    "disconnected": ({"runtime__connectionState": "disconnected"}, "vm.connected", "fail", "reconnect its host"),
    "question": ({"runtime__question": {"text": "moved or copied?"}}, "vm.question", "fail",
                 "answer it in the vSphere Client"),
    "snapshots": ({"snapshot": TREE}, "vm.snapshots", "warn", "delete the snapshots that are not needed any more"),
    "ft": ({"runtime__faultToleranceState": "running"}, "vm.fault-tolerance", "fail", FT),
    "ft without its state": ({"config__ftInfo": {"role": 1}}, "vm.fault-tolerance", "fail", FT),
    "tpm": ({"config__hardware__device": (TPM,)}, "vm.encrypted", "warn", KEYS),
    "encrypted": ({"config__keyId": {"keyId": "42"}}, "vm.encrypted", "warn", KEYS),
    "locked": ({"config__keyId": {"keyId": "42"}, "runtime__cryptoState": "locked"}, "vm.encrypted", "fail",
               "make its key provider answer, then unlock the VM in the vSphere Client"),
    "vapp": ({"parentVApp": "VirtualApp:1"}, "vm.vapp", "warn", ""),
    "disabled": ({"disabledMethod": ("PowerOffVM_Task", "RelocateVM_Task")}, "vm.methods", "fail", WAIT),
    "busy": ({"recentTask": (DONE.ref, BUSY.ref)}, "vm.methods", "warn", ""),
}  # fmt: skip
ABOUT_STATE = ("vm.suspended", "vm.connected", "vm.question", "vm.snapshots", "vm.fault-tolerance", "vm.encrypted",
               "vm.vapp", "vm.methods")  # fmt: skip


def farm(*guests):
    vapp = Facts("VirtualApp:1", {"name": "shop", "parentFolder": "Folder:group-v1"})
    return estate(host(ESX1), host(ESX2), BUSY, DONE, vapp, *guests)


def findings(plan, target):
    return {(f.rule, f.verdict, f.remedy) for f in plan.findings
            if f.target == target and f.verdict in ("warn", "fail") and f.rule in ABOUT_STATE}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_change_of_a_vm_in_a_state(state):
    facts, rule, verdict, help_ = STATES[state]
    plan = made(farm(guest(vm(1), ESX1, config__version="vmx-17", **facts)), {vm(1): wants(UPGRADE)})
    assert findings(plan, vm(1)) == {(rule, verdict, help_)}
    refused = {p.rule for p in plan.problems if p.target == vm(1) and p.rule in ABOUT_STATE}
    assert refused == ({rule} if verdict == "fail" else set())


def test_a_healthy_vm_has_nothing_to_tell():
    plan = made(farm(guest(vm(1), ESX1, config__version="vmx-17", recentTask=(DONE.ref,))), {vm(1): wants(UPGRADE)})
    assert (findings(plan, vm(1)), plan.problems) == (set(), ())


@pytest.mark.parametrize("state", STATES)
def test_a_vm_that_is_as_wanted_refuses_nothing(state):
    plan = made(farm(guest(vm(1), ESX1, **STATES[state][0])), {vm(1): wants(UPGRADE)})
    assert (findings(plan, vm(1)), plan.problems, plan.steps) == (set(), (), ())


@pytest.mark.parametrize(
    ("evacuate", "state", "refused", "warned"),
    [
        ("power_off", "inaccessible", {"vm.connected"}, set()),
        ("vmotion", "inaccessible", {"vm.connected"}, set()),
        ("vmotion", "question", {"vm.question"}, set()),
        ("power_off", "question", {"power.question"}, set()),
        ("power_off", "ft", set(), {"vm.fault-tolerance"}),
        ("power_off", "vapp", set(), {"vm.vapp"}),
        ("power_off", "tpm", set(), {"vm.encrypted"}),
        ("power_off", "disabled", {"vm.methods"}, set()),
        ("power_off", "snapshots", set(), set()),
        ("power_off", "suspended", set(), set()),
        ("power_off", "busy", set(), {"vm.methods"}),
    ],
)
def test_a_vm_that_goes_off_or_moves_because_of_its_host(evacuate, state, refused, warned):
    rolling = Rolling(evacuate=evacuate)
    plan = made(farm(guest(vm(1), ESX1, **STATES[state][0])), {ESX1: wants(DIRECT, rolling=rolling)})
    assert {p.rule for p in plan.problems if p.target == vm(1)} == refused
    assert {r for r, verdict, _ in findings(plan, vm(1)) if verdict == "warn"} == warned


@pytest.mark.parametrize(
    ("evacuate", "method", "refused"),
    [
        ("power_off", "PowerOffVM_Task", True),
        ("vmotion", "PowerOffVM_Task", False),
        ("power_off", "MigrateVM_Task", False),
        ("vmotion", "MigrateVM_Task", True),
    ],
)
def test_only_methods_that_will_be_called_matter(evacuate, method, refused):
    seen = farm(guest(vm(1), ESX1, disabledMethod=(method,)))
    plan = made(seen, {ESX1: wants(DIRECT, rolling=Rolling(evacuate=evacuate))})
    assert ("vm.methods" in {p.rule for p in plan.problems}) is refused


@pytest.mark.parametrize(("power", "refused"), [("poweredOn", False), ("poweredOff", True)])
def test_a_method_that_the_power_state_disables_by_itself_is_no_obstacle(power, refused):
    seen = farm(
        guest(vm(1), ESX1, config__version="vmx-17", runtime__powerState=power, disabledMethod=("UpgradeVM_Task",))
    )
    plan = made(seen, {vm(1): wants(UPGRADE)})
    assert ("vm.methods" in {p.rule for p in plan.problems}) is refused


@pytest.mark.parametrize(
    ("change", "refused"), [(UPGRADE, False), (VmHardware(version=19, memory_reservation="full"), True)]
)
def test_a_hardware_upgrade_alone_sends_no_reconfigure(change, refused):
    off = {"config__version": "vmx-17", "runtime__powerState": "poweredOff", "disabledMethod": ("ReconfigVM_Task",)}
    plan = made(farm(guest(vm(1), ESX1, **off)), {vm(1): wants(change)})
    assert ("vm.methods" in {p.rule for p in plan.problems}) is refused


def test_a_vm_of_a_host_that_is_not_connected_has_no_problem_of_its_own():
    seen = estate(host(ESX1, runtime__connectionState="notResponding"),
                  guest(vm(1), ESX1, config__version="vmx-17", runtime__connectionState="disconnected"))  # fmt: skip
    plan = made(seen, {vm(1): wants(UPGRADE)})
    assert "vm.connected" not in {p.rule for p in plan.problems}
    assert "host.connected" in {p.rule for p in plan.problems}


def test_snapshots_are_named_and_only_matter_where_they_keep_what_changes():
    seen = farm(guest(vm(1), ESX1, snapshot=TREE, config__hardware__device=(vgpu_device(13000, "grid_a100-40c"),)))
    plan = made(seen, {vm(1): wants(VmHardware(memory_reservation="full"))})
    assert plan.steps
    assert not [f for f in plan.findings if f.rule == "vm.snapshots" and f.verdict != "pass"]
    plan = made(farm(guest(vm(1), ESX1, config__version="vmx-17", snapshot=TREE)), {vm(1): wants(UPGRADE)})
    (found,) = [f for f in plan.findings if f.rule == "vm.snapshots"]
    assert found.message == (
        "VM has snapshots (before, after); reverting to one undoes the hardware version of this plan"
    )
    plan = made(farm(guest(vm(1), ESX1, snapshot=TREE)), {vm(1): wants(Vgpu(profiles=("grid_a100-40c",)))})
    (found,) = [f for f in plan.findings if f.rule == "vm.snapshots"]
    assert found.message == "VM has snapshots (before, after); reverting to one undoes the devices of this plan"
