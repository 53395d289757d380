"""What a rollback states, kind by kind, and what it says it leaves."""

from __future__ import annotations

import json

import pytest
from support.estates import ESX1, estate, gpu_info, host, made, view, vm, wants
from support.fabrics import DC, fabric
from support.judging import judge
from support.machines import GPU_0, GPU_1, NIC_0, fixed, kernel_listing, keys, machine, tuned

from vsphere_ai.planning.document import ItemDocument, plain, plan_document
from vsphere_ai.planning.rollback import stated_before, with_not_reverted
from vsphere_ai.report.plans.plan_text import plan_text
from vsphere_ai.resources import kinds
from vsphere_ai.resources.gpudirect import GpuDirect
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.kernel import Kernel
from vsphere_ai.resources.passthrough import Passthrough
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.switches import Switches
from vsphere_ai.resources.tuning import Tuning
from vsphere_ai.resources.vm_hardware import VmHardware

VM = vm(1)


def before(of, target, wanted):
    """Return what a rollback states of a kind, as the journal keeps it and as it is read from there."""
    seen = view(of, stated={(target.ref, wanted.kind): wanted})
    found = stated_before(target, [wanted.kind], seen, kinds())
    return [kinds()[wanted.kind].model_validate_json(json.dumps(s.state.model_dump(mode="json", exclude_unset=True)))
            for s in found]  # fmt: skip


def test_an_option_that_was_not_set_is_cleared_again():
    (state,) = before(estate(host(ESX1)), ESX1, PvrdmaHost(vmknic="vmk2", firewall=True))
    assert (state.vmknic, state.firewall) == ("none", False)
    there = estate(host(ESX1, **{"option:Net.PVRDMAVmknic": "vmk2"}))
    judged = judge(state, ESX1, there)
    assert not judged.problems
    assert judged.step.args["changedValue"][0]["value"] == ""
    assert judged.step.summary == "clear Net.PVRDMAVmknic"


def test_what_was_off_is_switched_off_again():
    (state,) = before(estate(machine(ESX1, ats=kernel_listing("FALSE", "FALSE"))), ESX1, Kernel(ats_support=True))
    assert state.ats_support is False
    waiting = estate(machine(ESX1, ats=kernel_listing("TRUE", "FALSE")))
    assert before(waiting, ESX1, Kernel(ats_support=True)) == []


def test_devices_that_the_run_did_not_name_are_not_its_business():
    of = estate(machine(ESX1, passed={GPU_1: ""}))
    (state,) = before(of, ESX1, Passthrough(devices={GPU_0: True}))
    assert state.devices == {GPU_0: False}


def test_tuning_goes_back_to_what_vms_come_with():
    of = estate(machine(ESX1), tuned(VM, ESX1, config__extraConfig=keys(numa__x="1", other="y")))
    (state,) = before(of, VM, Tuning(latency_sensitivity="high", extra_config={"numa.x": "2", "new": "3"}))
    assert (state.latency_sensitivity, state.cpu_reservation, state.numa_affinity) == ("normal", "none", "off")
    assert state.extra_config == {"numa.x": "1", "new": ""}


@pytest.mark.parametrize(("extra", "stated"), [({}, [False]), ({"pciPassthru__allowP2P": "TRUE"}, [])])
def test_half_a_setting_made_by_hand_is_not_taken_away(extra, stated):
    devices = fixed(13000, GPU_0), fixed(13001, NIC_0)
    of = estate(machine(ESX1), tuned(VM, ESX1, *devices, config__extraConfig=keys(**extra)))
    assert [s.enabled for s in before(of, VM, GpuDirect(enabled=True))] == stated


def test_versions_never_go_back():
    of = estate(machine(ESX1), tuned(VM, ESX1))
    (state,) = before(of, VM, VmHardware(version=19))
    assert state.version is None
    assert state.firmware is not None
    (state,) = before(fabric(), DC, Switches.model_validate({"switches": {"dvs-rdma": {"version": "7.0.2"}}}))
    assert state.switches.keys() == {"dvs-rdma"}
    assert state.switches["dvs-rdma"].version is None
    assert state.switches["dvs-rdma"].mtu == 1500


# -- what stays


def graphics(default, *types):
    named = tuple({"_typeName": "HostGraphicsConfigDeviceType", "deviceId": pci, "graphicsType": t}
                  for pci, t in zip((GPU_0, GPU_1), types, strict=True))  # fmt: skip
    config = {"_typeName": "HostGraphicsConfig", "hostDefaultGraphicsType": default,
              "sharedPassthruAssignmentPolicy": "performance", "deviceType": named}  # fmt: skip
    infos = tuple(gpu_info(pci, t) for pci, t in zip((GPU_0, GPU_1), types, strict=True))
    return estate(host(ESX1, config__graphicsConfig=config, config__graphicsInfo=infos))


def rolled_back(was, now, target, wanted):
    """Return the plan of a rollback: of a run that found one estate and left another."""
    items = plan_document(made(was, {target: wants(wanted)}))["items"]
    items = [ItemDocument.model_validate(item) for item in json.loads(json.dumps(items))]
    plan = made(now, {target: wants(*before(was, target, wanted))})
    return with_not_reverted(plan, items, now, kinds())


def test_graphics_that_no_playbook_states_are_named():
    was, now = graphics("shared", "sharedDirect", "shared"), graphics("sharedDirect", "sharedDirect", "sharedDirect")
    plan = rolled_back(was, now, ESX1, HostGraphics(default_type="shared_direct"))
    assert plan.steps == ()
    (item,) = [i for i in plan.items if i.kind == "graphics"]
    assert item.stays == ("default type shared_direct, it was shared", f"{GPU_1} shared_direct, it was shared")
    text = plan_text(plan, "0" * 64)
    assert "= graphics    stays: default type shared_direct, it was shared" in text
    assert "Nothing to do" in text
    (told,) = [i for i in plan_document(plan)["items"] if i["kind"] == "graphics"]
    assert told["notes"][0] == "stays: default type shared_direct, it was shared"
    assert plain(item.target) == told["target"]


def test_graphics_that_go_back_are_not_named():
    was, now = graphics("shared", "shared", "shared"), graphics("sharedDirect", "sharedDirect", "sharedDirect")
    plan = rolled_back(was, now, ESX1, HostGraphics(default_type="shared_direct"))
    assert plan.steps
    assert [i.stays for i in plan.items] == [()]


def test_what_the_run_never_came_to_is_not_named():
    was = graphics("shared", "sharedDirect", "shared")
    plan = rolled_back(was, was, ESX1, HostGraphics(default_type="shared_direct"))
    assert [i.stays for i in plan.items if i.stays] == []
