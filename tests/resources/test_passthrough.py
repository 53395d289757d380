"""The passthrough kind: what is sent, what waits for a restart, and what is never taken away from somebody."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from support.estates import ESX1, PCI, estate, gpu_info, guest, made, vgpu_device, vm, wants
from support.judging import judge, plan_one, rules
from support.machines import GPU_0, GPU_1, NIC_0, NIC_1, fixed, machine
from support.plays import THROUGH

from vsphere_ai.model.steps import Invoke
from vsphere_ai.model.view import View
from vsphere_ai.planning.observing import observe
from vsphere_ai.resources import kinds
from vsphere_ai.resources.device_groups import DeviceGroups
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import GpuMig, Mig
from vsphere_ai.resources.passthrough import HBAS, REBIND, Passthrough
from vsphere_ai.resources.pci_devices import PassthroughDevice, PciDevices
from vsphere_ai.resources.vgpu import Vgpu

ALONE = THROUGH

VM = vm(1)


def want(**devices):
    return Passthrough(devices=devices)


def asked(devices, **host):
    return judge(Passthrough(devices=devices), ESX1, estate(machine(ESX1, **host)))


# -- what changes


def test_as_wanted():
    judged = asked({GPU_0: True, GPU_1: False}, passed={GPU_0: ""})
    assert (judged.fields, judged.steps, judged.problems) == ({}, (), {})


def test_only_the_difference_is_sent_with_a_restart():
    judged = asked({GPU_0: True, GPU_1: True}, passed={GPU_1: ""})
    assert judged.fields == {GPU_0: (False, True)}
    step = judged.step
    assert isinstance(step, Invoke)
    assert (step.path, step.method) == ("configManager.pciPassthruSystem", "UpdatePassthruConfig")
    assert step.args == {"config": ({"_typeName": "HostPciPassthruConfig", "id": GPU_0, "passthruEnabled": True},)}
    assert step.needs_reboot
    assert step.needs_maintenance


def test_where_the_host_rebinds_devices_no_restart_is_needed():
    step = asked({GPU_0: True}, **{REBIND.replace(".", "__"): True}).step
    assert step.args["config"][0]["applyNow"] is True
    assert (step.needs_reboot, step.needs_maintenance) == (False, False)


def test_what_is_configured_and_waits_takes_the_restart_only():
    judged = asked({GPU_0: True}, waiting={GPU_0: True})
    assert judged.fields == {GPU_0: ("on after a restart", True)}
    assert type(judged.step).__name__ == "Step"
    assert judged.step.needs_reboot


def test_a_configured_change_is_taken_back():
    judged = asked({GPU_0: False}, waiting={GPU_0: True})
    assert judged.step.args["config"][0]["passthruEnabled"] is False


def test_two_spellings_of_one_device_are_refused():
    with pytest.raises(ValidationError, match="the same device"):
        Passthrough(devices={"0000:3B:00.0": True, "3b:00.0": False})


# -- what blocks it


def test_problems_name_what_there_is():
    found = asked({"0000:99:00.0": True}).problems
    assert list(found) == ["passthrough.device"]
    assert GPU_0 in found["passthrough.device"].remedy
    assert list(asked({"0000:3a:00.0": True}).problems) == ["passthrough.not-capable"]
    assert list(asked({GPU_0: True}, config__pciPassthruInfo=None).problems) == ["passthrough.unreadable"]


def test_what_the_host_uses_itself_is_refused():
    nic = {"_typeName": "PhysicalNic", "key": "key-vmnic4", "device": "vmnic4", "pci": NIC_0}
    uplink = asked({NIC_0: True, NIC_1: True}, config__network__pnic=(nic,))
    assert "vmnic4, an uplink of dvs-rdma" in uplink.problems["passthrough.in-use"].message
    disk = asked({NIC_1: True}, **{HBAS.replace(".", "__"): ({"device": "vmhba0", "pci": NIC_1},)})
    assert "vmhba0" in disk.problems["passthrough.in-use"].message
    assert not asked({NIC_0: False}, config__network__pnic=(nic,)).problems


def test_virtual_functions_exclude_it():
    info = {"_typeName": "HostSriovInfo", "id": NIC_1, "passthruCapable": True, "passthruEnabled": False,
            "passthruActive": False, "sriovEnabled": True, "numVirtualFunctionRequested": 8}  # fmt: skip
    found = asked({NIC_1: True}, config__pciPassthruInfo=(info,)).problems
    assert "8 SR-IOV" in found["passthrough.sriov"].message


def test_a_gpu_that_carries_vgpus_stays_with_them():
    busy = machine(
        ESX1, config__graphicsInfo=(gpu_info(GPU_0, "sharedDirect", [VM.ref]), gpu_info(GPU_1, "sharedDirect"))
    )
    of = estate(busy, guest(VM, ESX1))
    found = judge(Passthrough(devices={GPU_0: True}), ESX1, of).problems
    assert "train-01" in found["passthrough.vgpu"].message
    assert not judge(Passthrough(devices={GPU_1: True}), ESX1, of).problems
    given_up = {(VM.ref, "vgpu"): Vgpu(profiles=())}
    assert not judge(Passthrough(devices={GPU_0: True}), ESX1, of, stated=given_up).problems


def test_a_gpu_with_mig_is_refused():
    of = estate(machine(ESX1))
    states = observe(of, kinds())
    on = {(ESX1.ref, "mig"): Mig.model_construct(gpus={GPU_0: GpuMig.model_construct(mode="enabled", layout=())})}
    view = View(of, {**states, **on})
    assert [p.rule for p in Passthrough(devices={GPU_0: True}).problems(ESX1, view)] == ["passthrough.mig"]
    assert not list(Passthrough(devices={GPU_1: True}).problems(ESX1, view))


def test_a_device_is_not_taken_from_a_vm_that_keeps_it():
    of = estate(machine(ESX1, passed={GPU_0: ""}), guest(VM, ESX1, config__hardware__device=(fixed(13000, GPU_0),)))
    off = Passthrough(devices={GPU_0: False})
    assert "train-01" in judge(off, ESX1, of).problems["passthrough.vm"].message
    assert not judge(off, ESX1, of, stated={(VM.ref, "pci_devices"): PciDevices(devices=())}).problems


def test_graphics_and_passthrough_of_one_gpu_exclude_each_other():
    of = estate(machine(ESX1))
    both = plan_one(of, ESX1, Passthrough(devices={GPU_0: True}), HostGraphics(default_type="shared_direct"))
    assert (ESX1.name, "graphics.passthrough") in rules(both)
    back = estate(machine(ESX1, passed={GPU_0: ""}, config__graphicsInfo=(gpu_info(GPU_0, "direct"), gpu_info(GPU_1))))
    assert not plan_one(
        back, ESX1, Passthrough(devices={GPU_0: False}), HostGraphics(default_type="shared_direct")
    ).problems


# -- one plan with the VM that gets it


def test_a_vm_may_have_what_this_plan_passes_through():
    of = estate(machine(ESX1), guest(VM, ESX1))
    plan = made(of, {ESX1: wants(Passthrough(devices={GPU_0: True})),
                     VM: wants(PciDevices(devices=(PassthroughDevice(host_device=GPU_0),)))})  # fmt: skip
    assert not [p for p in plan.problems if p.rule.startswith(("pci", "pass"))]


# -- back into a playbook


def test_a_playbook_states_what_is_passed_through():
    of = estate(machine(ESX1, passed={GPU_0: ""}, waiting={NIC_1: True}))
    view = View(of, observe(of, kinds()))
    state = view.state(ESX1.ref, "passthrough")
    assert state.export(ESX1, view, "playbook").state.devices == {GPU_0: True}
    assert state.export(ESX1, view, "playbook").left_out == f"passthrough left out: {NIC_1} is on after a restart"
    nothing = estate(machine(ESX1))
    view = View(nothing, observe(nothing, kinds()))
    assert view.state(ESX1.ref, "passthrough").export(ESX1, view, "playbook").state is None


def test_functions_that_are_reset_as_one_are_told():
    common = {"_typeName": "HostPciPassthruInfo", "dependentDevice": "0000:5d:00.0", "passthruCapable": True}
    off = {**common, "passthruEnabled": False, "passthruActive": False}
    ports = tuple({**off, "id": f"0000:5e:00.{n}"} for n in (0, 1))
    (note,) = asked({NIC_0: True}, config__pciPassthruInfo=ports).notes
    assert "0000:5e:00.1 may move together" in note


def test_the_gpus_of_these_tests_are_those_of_the_estate():
    assert PCI == (GPU_0, GPU_1)


def test_members_of_a_device_group_stay_where_they_are():
    grouped = {"deviceGroupInfo": {"groupInstanceKey": 1, "sequenceId": 1}}
    entry = {"_typeName": "VirtualMachineVirtualDeviceGroupsVendorDeviceGroup", "groupInstanceKey": 1,
             "deviceGroupName": "pair"}  # fmt: skip
    own, gone = {(VM.ref, "pci_devices"): PciDevices(devices=())}, {(VM.ref, "device_groups"): DeviceGroups(groups=())}

    def having(device):
        return guest(VM, ESX1, config__hardware__device=(device,), config__deviceGroups={"deviceGroup": (entry,)})

    of = estate(machine(ESX1, passed={GPU_0: ""}), having({**fixed(13000, GPU_0), **grouped}))
    off = Passthrough(devices={GPU_0: False})
    assert "device group of VM train-01" in judge(off, ESX1, of, stated=own).problems["passthrough.vm"].message
    assert not judge(off, ESX1, of, stated=gone).problems
    users = (gpu_info(GPU_0, "sharedDirect", (VM.ref,)),)
    member = having({**vgpu_device(13000, "grid_a100-40c"), **grouped})
    of = estate(machine(ESX1, config__graphicsInfo=users), member)
    given_up = {(VM.ref, "vgpu"): Vgpu(profiles=())}
    on = Passthrough(devices={GPU_0: True})
    assert "passthrough.vgpu" in judge(on, ESX1, of, stated=given_up).problems
    assert "passthrough.vgpu" not in judge(on, ESX1, of, stated={**given_up, **gone}).problems
