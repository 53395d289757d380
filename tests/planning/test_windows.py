"""The window of one host and of one VM: what is entered is left, what was found is left as found."""

from __future__ import annotations

import pytest
from support.estates import ESX1, OFF, ON, PCI, estate, gpu_info, guest, host, made, smi, vm, wants
from support.judging import plan_one, steps_of, words

from vsphere_ai.gpu.smi.live import GPUS
from vsphere_ai.language.playbooks.play import Power, Rolling
from vsphere_ai.model.facts import CommandOutput
from vsphere_ai.model.steps import PowerOff, Reboot, Reconfigure, Shell, Step
from vsphere_ai.planning.planner import reading_back
from vsphere_ai.planning.scheduling.rebooted_gpus import hosts_to_probe
from vsphere_ai.planning.scheduling.windows import HostNow, WindowFlags, host_now, host_window
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.nics import HostNics
from vsphere_ai.resources.pvrdma_host import PvrdmaHost
from vsphere_ai.resources.roce import Roce
from vsphere_ai.resources.vm_hardware import VmHardware

DIRECT, MIG = HostGraphics(default_type="shared_direct"), Mig(mode="enabled")
NO_SSH = ({"_typeName": "HostService", "key": "TSM-SSH", "running": False, "policy": "off"},)
VM = vm(1)


def host_words(*states, rolling=None, **more):
    plan = plan_one(estate(host(ESX1, **more)), ESX1, *states, rolling=rolling)
    assert plan.problems == ()
    return words(steps_of(plan, ESX1))


def test_any_number_of_settings_is_one_window_and_one_reboot():
    done = host_words(DIRECT, MIG, PvrdmaHost(vmknic="vmk2", firewall=True))
    assert done[0] == "enter-maintenance"
    assert sorted(done[1:6]) == [
        "EnableRuleset",
        "UpdateGraphicsConfig",
        "UpdateOptions",
        "nvidia-smi -i 00000000:3B:00.0 -mig 1",
        "nvidia-smi -i 00000000:86:00.0 -mig 1",
    ]
    assert done[6:] == [
        "reboot",
        "host-back",
        "start-ssh",
        "gpus-answer",
        "RefreshGraphicsManager",
        "as-planned",
        "exit-maintenance",
        "healthy",
    ]


def test_ssh_found_stopped_is_started_and_stopped_again():
    done = host_words(DIRECT, MIG, config__service__service=NO_SSH)
    assert [w for w in done if "ssh" in w] == ["start-ssh", "start-ssh", "stop-ssh"]
    assert done.index("enter-maintenance") < done.index("start-ssh")
    assert done.index("as-planned") < done.index("stop-ssh") < done.index("exit-maintenance")


def test_ssh_found_running_is_running_again_after_the_boot():
    done = host_words(DIRECT, MIG)
    assert [w for w in done if "ssh" in w] == ["start-ssh"]
    assert done.index("host-back") < done.index("start-ssh") < done.index("gpus-answer")


def test_ssh_is_left_alone_without_need():
    done = host_words(PvrdmaHost(vmknic="vmk2"), config__service__service=NO_SSH)
    assert done == ["UpdateOptions", "as-planned"]


def test_ssh_is_needed_to_reboot_over_it_and_to_ask_for_gpus_after_it():
    over_api = host_words(DIRECT, rolling=Rolling(reboot="api"), config__service__service=NO_SSH)
    assert over_api.count("start-ssh") == 2  # nvidia-smi is asked after the boot
    assert over_api.count("stop-ssh") == 1


@pytest.mark.parametrize(("via", "word"), [("ssh", "over SSH"), ("api", "through vCenter")])
def test_the_reboot_goes_the_way_it_was_asked_for(via, word):
    plan = plan_one(estate(host(ESX1)), ESX1, DIRECT, rolling=Rolling(reboot=via))
    (reboot,) = (s for s in steps_of(plan, ESX1) if isinstance(s, Reboot))
    assert reboot.via == via
    assert word in reboot.summary


def test_a_host_found_in_maintenance_stays_in_it():
    done = host_words(DIRECT, MIG, runtime__inMaintenanceMode=True)
    assert "reboot" in done
    assert not [w for w in done if "maintenance" in w]


def test_the_timeout_of_the_play_reaches_every_wait():
    plan = plan_one(estate(host(ESX1)), ESX1, DIRECT, rolling=Rolling(timeout="45m", evacuate="vmotion"))
    limits = {words([s])[0]: s.timeout for s in steps_of(plan, ESX1) if hasattr(s, "timeout")}
    assert limits["enter-maintenance"] == limits["exit-maintenance"] == limits["host-back"] == 2700
    assert limits["gpus-answer"] > 0


def test_a_layout_alone_is_no_window():
    seen = estate(host(ESX1, probes=smi(dict.fromkeys(PCI, ON))))
    plan = plan_one(seen, ESX1, Mig(gpus={PCI[0]: {"layout": ("7g.40gb",)}}))
    assert plan.problems == ()
    assert words(steps_of(plan, ESX1)) == ["nvidia-smi mig -i 00000000:3B:00.0 -cgi 0:0 -C", "as-planned"]


def test_steps_of_the_boot_are_on_their_side_of_it():
    plan = plan_one(estate(host(ESX1, probes=smi(dict.fromkeys(PCI, OFF)))), ESX1, Mig(layout=("7g.40gb",)))
    steps = steps_of(plan, ESX1)
    at = words(steps).index("reboot")
    assert all(not s.after_reboot for s in steps[:at])
    assert all(not s.needs_reboot for s in steps[at + 1 :])
    assert any(isinstance(s, Shell) for s in steps[at + 1 :])


# -- VMs

FULL = VmHardware(memory_reservation="full")


def vm_steps(power=None, state=FULL, **more):
    plan = made(estate(host(ESX1), guest(VM, ESX1, **more)), {VM: wants(state, power=power)})
    return plan, steps_of(plan, VM)


def test_a_running_vm_goes_off_and_on_once():
    plan, steps = vm_steps()
    assert words(steps) == ["power-off", "reconfigure", "as-planned", "power-on"]
    assert plan.impact.power_cycles == (VM,)


def test_a_vm_found_off_stays_off():
    plan, steps = vm_steps(runtime__powerState="poweredOff")
    assert plan.problems == ()
    assert words(steps) == ["reconfigure", "as-planned"]
    assert plan.impact.power_cycles == ()


def test_the_guest_is_shut_down_with_the_timeout_of_the_play():
    _, steps = vm_steps(Power(shutdown_timeout="2m", force=True))
    assert (steps[0].shutdown_timeout, steps[0].force) == (120, True)
    assert "hard" in steps[0].summary
    _, steps = vm_steps()
    assert steps[0].force is False
    assert "only" in steps[0].summary


def test_a_vm_goes_off_for_its_host_only_where_it_is_not_changed_itself():
    seen = estate(host(ESX1), guest(vm(1), ESX1), guest(vm(2), ESX1))
    plan = made(seen, {ESX1: wants(HostGraphics(default_type="shared_direct")), vm(1): wants(FULL)})
    offs = {p.step.target: p.step.only_on or None for p in plan.steps
            if isinstance(p.step, PowerOff)}  # fmt: skip
    assert offs == {vm(1): None, vm(2): ESX1.ref}


@pytest.mark.parametrize(
    ("more", "power", "rule"),
    [
        ({"guest__toolsRunningStatus": "guestToolsNotRunning"}, None, "power.tools"),
        ({"guest__toolsRunningStatus": None}, None, "power.tools"),
        ({"runtime__question": {"text": "moved or copied?"}}, None, "power.question"),
        ({"guest__toolsRunningStatus": "guestToolsNotRunning"}, Power(force=True), None),
        ({"disabledMethod": ("ShutdownGuest",)}, None, "power.disabled"),
        ({"disabledMethod": ("PowerOnVM_Task",)}, None, None),  # vCenter lists it for every VM that runs
    ],
)
def test_a_vm_that_cannot_be_shut_down_is_refused_before_anything_is_touched(more, power, rule):
    plan, _ = vm_steps(power, **more)
    found = {p.rule for p in plan.problems if p.rule.startswith("power.")}
    assert found == ({rule} if rule else set())


def test_a_vm_that_is_off_needs_no_tools_to_be_changed():
    plan, _ = vm_steps(runtime__powerState="poweredOff", guest__toolsRunningStatus="guestToolsNotRunning")
    assert plan.problems == ()


def test_all_fragments_of_a_vm_are_one_reconfigure():
    both = VmHardware(memory_reservation="full", cpu_reservation_mhz=100, firmware="efi")
    _, steps = vm_steps(state=both, config__firmware="bios")
    (reconfigure,) = (s for s in steps if isinstance(s, Reconfigure))
    assert set(reconfigure.spec) == {"memoryReservationLockedToMax", "cpuAllocation", "firmware"}
    assert reconfigure.needs_power_off


def test_a_host_without_gpus_rebooted_through_vcenter_needs_no_ssh():
    now = HostNow(ESX1, in_maintenance=False, ssh_running=False, has_gpus=False)
    restart = Step(target=ESX1, summary="restart", needs_reboot=True)
    done = words(host_window(now, [restart], Rolling(reboot="api"), WindowFlags()))
    assert done == ["enter-maintenance", "reboot", "host-back", "as-planned", "exit-maintenance"]
    over_ssh = words(host_window(now, [restart], Rolling(reboot="ssh"), WindowFlags()))
    assert [w for w in over_ssh if "ssh" in w] == ["start-ssh", "start-ssh", "stop-ssh"]


def test_ssh_found_running_is_started_again_even_when_nobody_needs_it():
    now = HostNow(ESX1, in_maintenance=False, ssh_running=True, has_gpus=False)
    restart = Step(target=ESX1, summary="restart", needs_reboot=True)
    done = words(host_window(now, [restart], Rolling(reboot="api"), WindowFlags()))
    assert [w for w in done if "ssh" in w] == ["start-ssh"]
    assert done.index("host-back") < done.index("start-ssh")


def test_ssh_that_starts_with_the_host_is_stopped_again_where_it_was_stopped():
    now = HostNow(ESX1, in_maintenance=False, ssh_running=False, has_gpus=False, ssh_with_host=True)
    restart = Step(target=ESX1, summary="restart", needs_reboot=True)
    done = words(host_window(now, [restart], Rolling(reboot="api"), WindowFlags()))
    assert done == ["enter-maintenance", "reboot", "host-back", "as-planned", "stop-ssh", "exit-maintenance"]


def test_speed_and_roce_options_take_no_command_and_rings_do():
    both = (HostNics(nics={"vmnic4": {"speed": 10000}}), Roce(pfc_priority=3))
    rings = HostNics(nics={"vmnic4": {"rings": {"rx": 4096}}})
    assert [s.needs_commands for s in (*both, rings, Mig(mode="enabled"))] == [False, False, True, True]
    assert reading_back({ESX1: wants(*both)}) == frozenset()
    assert reading_back({ESX1: wants(*both, rings)}) == {ESX1}


def gpus(kind):
    return {"config__graphicsInfo": tuple(gpu_info(p, kind) for p in PCI)}


def test_gpus_that_no_driver_serves_are_not_waited_for():
    waited = {k: host_now(estate(host(ESX1, **gpus(k))), ESX1).has_gpus for k in ("basic", "shared", "direct")}
    assert waited == {"basic": False, "shared": True, "direct": True}


@pytest.mark.parametrize(("answer", "refused"), [(CommandOutput(9, "NVIDIA-SMI has failed"), True), (None, False)])
def test_gpus_that_do_not_answer_before_a_reboot_refuse_it(answer, refused):
    seen = smi(dict.fromkeys(PCI, OFF)) | ({GPUS.name: answer} if answer else {})
    plan = plan_one(estate(host(ESX1, probes=seen)), ESX1, DIRECT)
    assert ("gpu.no-answer" in {p.rule for p in plan.problems}) is refused


def test_gpus_that_were_not_asked_are_to_be_asked():
    unread = estate(host(ESX1, probes={}))
    plan = plan_one(unread, ESX1, DIRECT)
    assert hosts_to_probe(plan.impact, unread) == (ESX1.ref,)
    read = estate(host(ESX1))
    assert hosts_to_probe(plan.impact, read) == ()


def test_ssh_that_must_not_be_started_is_not():
    restart = Step(target=ESX1, summary="restart", needs_reboot=True)
    for running in (True, False):
        now = HostNow(ESX1, in_maintenance=False, ssh_running=running, has_gpus=True, start_ssh=False)
        for via in ("ssh", "api"):
            done = words(host_window(now, [restart], Rolling(reboot=via), WindowFlags(probes=True)))
            assert [w for w in done if "ssh" in w] == []
            assert "gpus-answer" in done
