"""The graphics kind: what the host has, what a playbook wants, and the one complete call between them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.estates import ABOUT, ESX1, PCI, estate, gpu_info, host, state_of, view
from support.judging import judge, plan_one, steps_of, words
from support.plays import SHARED

from vsphere_ai.model.facts import Facts
from vsphere_ai.model.steps import Invoke
from vsphere_ai.resources.host_graphics import HostGraphics

ALONE = SHARED

FIRST, SECOND = PCI


def config(default="shared", policy="performance", **devices):
    types = {FIRST: default, SECOND: default, **devices}
    return {
        "_typeName": "HostGraphicsConfig",
        "hostDefaultGraphicsType": default,
        "sharedPassthruAssignmentPolicy": policy,
        "deviceType": tuple(
            {"_typeName": "HostGraphicsConfigDeviceType", "deviceId": p, "graphicsType": t} for p, t in types.items()
        ),
    }


def sent(judged):
    (call,) = (s for s in judged.steps if isinstance(s, Invoke) and s.method == "UpdateGraphicsConfig")
    return call


def test_what_is_wanted_already_needs_nothing():
    judged = judge(HostGraphics(default_type="shared", assignment_policy="performance"), ESX1, estate(host(ESX1)))
    assert (judged.fields, judged.problems, judged.steps) == ({}, {}, ())


def test_shared_direct_changes_the_default_and_every_gpu_and_restarts():
    judged = judge(HostGraphics(default_type="shared_direct"), ESX1, estate(host(ESX1)))
    assert judged.fields == {
        "default_type": ("shared", "shared_direct"),
        FIRST: ("shared", "shared_direct"),
        SECOND: ("shared", "shared_direct"),
    }
    update, restart, refresh = judged.steps
    assert update.path == refresh.path == "configManager.graphicsManager"
    assert update.args == {"config": config("sharedDirect")}
    assert update.needs_maintenance
    assert not update.needs_reboot
    assert restart.needs_reboot
    assert restart.needs_maintenance
    assert (refresh.method, refresh.after_reboot) == ("RefreshGraphicsManager", True)


def test_the_call_carries_everything_that_was_configured_not_only_the_difference():
    bmc = {"_typeName": "HostGraphicsConfigDeviceType", "deviceId": "0000:03:00.0", "graphicsType": "basic"}
    now = {**config(), "deviceType": (*config()["deviceType"], bmc), "futureField": 7}
    judged = judge(HostGraphics(default_type="shared_direct"), ESX1, estate(host(ESX1, config__graphicsConfig=now)))
    wanted = sent(judged).args["config"]
    assert bmc in wanted["deviceType"]
    assert wanted["futureField"] == 7


def test_a_gpu_without_its_own_entry_gets_one():
    now = {**config(), "deviceType": ()}
    judged = judge(HostGraphics(default_type="shared_direct"), ESX1, estate(host(ESX1, config__graphicsConfig=now)))
    assert sent(judged).args["config"] == config("sharedDirect")


def test_the_policy_alone_changes_without_maintenance_or_restart():
    judged = judge(HostGraphics(assignment_policy="consolidation"), ESX1, estate(host(ESX1)))
    assert judged.fields == {"assignment_policy": ("performance", "consolidation")}
    assert judged.step.args == {"config": config(policy="consolidation")}
    assert not judged.step.needs_maintenance


def test_the_policy_alone_leaves_gpus_that_differ_from_the_default_as_they_are():
    mixed = {"config__graphicsConfig": config("shared", **{SECOND: "sharedDirect"}),
             "config__graphicsInfo": (gpu_info(FIRST), gpu_info(SECOND, "sharedDirect"))}  # fmt: skip
    judged = judge(HostGraphics(assignment_policy="consolidation"), ESX1, estate(host(ESX1, **mixed)))
    assert list(judged.fields) == ["assignment_policy"]
    assert judged.step.args == {"config": config("shared", "consolidation", **{SECOND: "sharedDirect"})}
    assert not judged.step.needs_maintenance


def test_configured_but_not_active_is_not_converged_and_needs_the_restart_only():
    waiting = estate(host(ESX1, active="shared", configured="sharedDirect"))
    judged = judge(HostGraphics(default_type="shared_direct"), ESX1, waiting)
    assert judged.fields == {
        FIRST: ("shared (configured: shared_direct)", "shared_direct"),
        SECOND: ("shared (configured: shared_direct)", "shared_direct"),
    }
    assert [s.needs_reboot for s in judged.steps] == [True, False]
    assert (
        words(steps_of(plan_one(waiting, ESX1, HostGraphics(default_type="shared_direct")), ESX1)).count("reboot") == 1
    )


def test_a_pending_change_back_is_undone_without_a_restart():
    pending_back = estate(host(ESX1, active="sharedDirect", configured="shared"))
    judged = judge(HostGraphics(default_type="shared_direct"), ESX1, pending_back)
    assert judged.step.args == {"config": config("sharedDirect")}
    assert not judged.step.needs_maintenance


def test_the_bmc_is_not_a_gpu():
    bmc = {**gpu_info("0000:03:00.0", "basic"), "vendorName": "Matrox"}
    seen = estate(host(ESX1, active="sharedDirect", config__graphicsInfo=(bmc, gpu_info(FIRST, "sharedDirect"))))
    judged = judge(HostGraphics(default_type="shared_direct"), ESX1, seen)
    assert judged.fields == {}
    assert judged.settled.gpus == {FIRST: "shared_direct"}


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"config__graphicsConfig": None}, "graphics.unreadable"),
        ({"config__graphicsInfo": ()}, "graphics.no-gpu"),
        ({"config__graphicsInfo": (gpu_info(FIRST, "direct"),)}, "graphics.passthrough"),
        ({"config__pciPassthruInfo": ({"id": SECOND, "passthruEnabled": True},)}, "graphics.passthrough"),
    ],
)
def test_problems(more, rule):
    judged = judge(HostGraphics(default_type="shared_direct"), ESX1, estate(host(ESX1, **more)))
    assert set(judged.problems) == {rule}
    assert judged.problems[rule].remedy


def test_a_passthrough_gpu_is_named():
    seen = estate(host(ESX1, config__pciPassthruInfo=({"id": SECOND, "passthruEnabled": True},)))
    (problem,) = judge(HostGraphics(default_type="shared_direct"), ESX1, seen).problems.values()
    assert SECOND in problem.message


def test_an_unread_host_has_no_state():
    assert state_of(HostGraphics, Facts("HostSystem:host-9")) is None


def test_show_states_the_types_but_not_a_host_without_gpu_or_with_a_pending_restart():
    def shown(**more):
        seen = view(estate(host(ESX1, **more)))
        return seen.state(ESX1.ref, "graphics").export(ESX1, seen, "playbook").state

    settled = shown(active="sharedDirect")
    assert (settled.default_type, settled.assignment_policy) == ("shared_direct", "performance")
    assert shown(active="shared", configured="sharedDirect") is None
    assert shown(config__graphicsInfo=()) is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"active": "sharedDirect"}, ""),
        ({"config__graphicsInfo": ()}, ""),
        (
            {"active": "shared", "configured": "sharedDirect"},
            f"graphics left out: GPU {FIRST} is shared (configured: shared_direct), "
            f"GPU {SECOND} is shared (configured: shared_direct), the host's default is shared_direct",
        ),
        (
            {"config__graphicsInfo": (gpu_info(FIRST), gpu_info(SECOND, "direct"))},
            f"graphics left out: GPU {SECOND} is direct (configured: shared), the host's default is shared",
        ),
    ],
)
def test_show_says_which_graphics_it_cannot_state(more, said):
    seen = view(estate(host(ESX1, **more)))
    state = seen.state(ESX1.ref, "graphics")
    assert state.export(ESX1, seen, "playbook").left_out == said
    assert (state.export(ESX1, seen, "playbook").state is None) == bool(said or not state.gpus)


def test_a_gpu_of_another_type_than_the_default_is_not_stated():
    config = {"_typeName": "HostGraphicsConfig", "hostDefaultGraphicsType": "shared",
              "sharedPassthruAssignmentPolicy": "performance",
              "deviceType": ({"_typeName": "HostGraphicsConfigDeviceType", "deviceId": FIRST,
                              "graphicsType": "sharedDirect"},)}  # fmt: skip
    info = (gpu_info(FIRST, "sharedDirect"), gpu_info(SECOND))
    seen = view(estate(host(ESX1, config__graphicsConfig=config, config__graphicsInfo=info)))
    state = seen.state(ESX1.ref, "graphics")
    said = f"graphics left out: GPU {FIRST} is shared_direct, the host's default is shared"
    assert state.export(ESX1, seen, "playbook") == (None, said)


T4 = 0x1EB8


def moded(configured_mode="sameSize", active_mode="sameSize", *, vms=(), **more):
    """A host with ESXi 8.0 U3 whose GPUs show vGPU modes."""
    types = tuple({**d, "vgpuMode": configured_mode} for d in config("sharedDirect")["deviceType"])
    infos = tuple({**gpu_info(p, "sharedDirect", vms), "vgpuMode": active_mode} for p in PCI)
    facts = {
        "config__graphicsConfig": {**config("sharedDirect"), "deviceType": types},
        "config__graphicsInfo": infos,
        "config__product": {"version": "8.0.3", "build": "24022510"},
        **more,
    }
    return estate(host(ESX1, active="sharedDirect", **facts), about=EIGHT)


EIGHT = replace(ABOUT, version="8.0.3", api="8.0.3.0")


def test_the_vgpu_mode_of_an_idle_gpu_changes_without_a_window():
    judged = judge(HostGraphics(vgpu_mode="mixed_size"), ESX1, moded())
    assert judged.fields == {
        "vgpu_mode": ("same_size", "mixed_size"),
        FIRST: ("same_size", "mixed_size"),
        SECOND: ("same_size", "mixed_size"),
    }
    update, refresh = judged.steps
    assert {d["deviceId"]: d["vgpuMode"] for d in update.args["config"]["deviceType"]} == dict.fromkeys(
        PCI, "mixedSize"
    )
    assert {d["graphicsType"] for d in update.args["config"]["deviceType"]} == {"sharedDirect"}
    assert [update.needs_maintenance, update.needs_reboot, refresh.after_reboot] == [False] * 3
    assert refresh.method == "RefreshGraphicsManager"


def test_the_vgpu_mode_of_a_gpu_in_use_changes_in_maintenance_mode():
    update, _ = judge(HostGraphics(vgpu_mode="mixed_size"), ESX1, moded(vms=["VirtualMachine:vm-1"])).steps
    assert (update.needs_maintenance, update.needs_reboot) == (True, False)


def test_a_vgpu_mode_that_is_configured_and_not_active_takes_a_restart_and_nothing_is_sent_again():
    judged = judge(HostGraphics(vgpu_mode="mixed_size"), ESX1, moded("mixedSize", "sameSize"))
    assert judged.fields[FIRST] == ("same_size (configured: mixed_size)", "mixed_size")
    restart, refresh = judged.steps
    assert (restart.needs_reboot, refresh.after_reboot) == (True, True)


def test_a_gpu_in_mig_mode_is_measured_by_its_configured_vgpu_mode_and_named():
    assert judge(HostGraphics(vgpu_mode="mixed_size"), ESX1, moded("mixedSize", "multiInstanceGpu")).fields == {}
    (note,) = judge(HostGraphics(vgpu_mode="mixed_size"), ESX1, moded("sameSize", "multiInstanceGpu")).notes
    assert FIRST in note


def test_a_gpu_in_mig_mode_beside_another_one_keeps_its_vgpu_mode():
    infos = (
        {**gpu_info(FIRST, "sharedDirect", ["VirtualMachine:vm-1"]), "vgpuMode": "multiInstanceGpu"},
        {**gpu_info(SECOND, "sharedDirect"), "vgpuMode": "sameSize"},
    )
    judged = judge(HostGraphics(vgpu_mode="mixed_size"), ESX1, moded(config__graphicsInfo=infos))
    assert judged.fields == {"vgpu_mode": ("same_size", "mixed_size"), SECOND: ("same_size", "mixed_size")}
    update, _ = judged.steps
    modes = {d["deviceId"]: d["vgpuMode"] for d in update.args["config"]["deviceType"]}
    assert modes == {FIRST: "sameSize", SECOND: "mixedSize"}
    assert not update.needs_maintenance  # the VM on the first one is not switched off for nothing
    (note,) = judged.notes
    assert note == f"{FIRST} in MIG mode: the vGPU mode stays as it is there, it counts only once MIG is off"
    types = tuple(
        {**d, "vgpuMode": m}
        for d, m in zip(config("sharedDirect")["deviceType"], ("sameSize", "mixedSize"), strict=True)
    )
    done = (infos[0], {**infos[1], "vgpuMode": "mixedSize"})
    now = {**config("sharedDirect"), "deviceType": types}
    after = moded(config__graphicsInfo=done, config__graphicsConfig=now)
    assert judge(HostGraphics(vgpu_mode="mixed_size"), ESX1, after).fields == {}


def test_a_play_without_vgpu_mode_leaves_unlike_modes_alone():
    types = tuple(
        {**d, "vgpuMode": m}
        for d, m in zip(config("sharedDirect")["deviceType"], ("sameSize", "mixedSize"), strict=True)
    )
    now = {**config("sharedDirect"), "deviceType": types}
    judged = judge(HostGraphics(assignment_policy="consolidation"), ESX1, moded(config__graphicsConfig=now))
    assert list(judged.fields) == ["assignment_policy"]
    assert judged.step.args["config"]["deviceType"] == types


def test_capacity_counts_by_the_mode_there_will_be():
    seen = view(moded())
    (facts,) = HostGraphics(vgpu_mode="mixed_size").settle(ESX1, seen).project(ESX1, seen, "plan").facts
    assert {g["vgpuMode"] for g in facts.get("config.graphicsInfo")} == {"mixedSize"}


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"config__product": {"version": "8.0.2", "build": "1"}}, "graphics.vgpu-mode-version"),
        ({"device": T4}, "graphics.vgpu-mode-board"),
    ],
)
def test_a_vgpu_mode_that_cannot_be(more, rule):
    judged = judge(HostGraphics(vgpu_mode="mixed_size"), ESX1, moded(**more))
    assert set(judged.problems) == {rule}
    assert judged.problems[rule].remedy


def test_an_older_pyvmomi_is_named_where_the_vcenter_could():
    seen = estate(host(ESX1, active="sharedDirect", config__product={"version": "8.0.3", "build": "1"}))
    seen = replace(seen, about=replace(seen.about, offered_api="8.0.3.0"))
    problem = judge(HostGraphics(vgpu_mode="same_size"), ESX1, seen).problems["graphics.vgpu-mode-version"]
    assert "vCenter offers API 8.0.3.0, the installed pyVmomi knows the API up to 7.0.2.0" in problem.message
    assert problem.remedy == "update pyVmomi (pip install --upgrade pyvmomi)"


def test_an_older_vcenter_cannot_set_a_vgpu_mode():
    seen = estate(host(ESX1, active="sharedDirect", config__product={"version": "8.0.3", "build": "1"}))
    assert set(judge(HostGraphics(vgpu_mode="same_size"), ESX1, seen).problems) == {"graphics.vgpu-mode-version"}
