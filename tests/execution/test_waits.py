"""Reboots, power and reading back: what has to be seen before it counts as done, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.acting import VM, Clock, Server, Shells, do, executor, lifecycle, on_clock
from support.estates import ESX1, ON, PCI, smi, vm
from support.raising import refused

from vsphere_ai.errors import (
    Conflict,
    Denied,
    GuestStillRuns,
    HostUnhealthy,
    NotVerified,
    OutcomeUnknown,
    StepFailed,
    Unreachable,
)
from vsphere_ai.execution.actions import context, waits
from vsphere_ai.execution.actions.waits import describe_left
from vsphere_ai.gpu.smi.live import GPUS
from vsphere_ai.model.facts import CommandOutput
from vsphere_ai.model.state import FieldChange
from vsphere_ai.model.steps import AsPlanned, GpusAnswer, HostBack
from vsphere_ai.planning.planner import PlanItem
from vsphere_ai.planning.scheduling.health import HostBefore

BOOT = "2026-01-01T00:00:00+00:00"
BOOTED = "2026-01-01T00:10:00+00:00"
LISTED = smi(dict.fromkeys(PCI, ON))[GPUS.name]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    on_clock(monkeypatch, context, clock)
    return clock


# -- reboot and back

READY = {"runtime.bootTime": BOOT, "runtime.inMaintenanceMode": True}


def test_a_reboot_over_ssh_is_one_that_needs_maintenance_mode():
    shell = Shells(CommandOutput(0, ""))
    do(lifecycle("reboot", via="ssh"), Server(READY), shell)
    ((argv, _, changes),) = shell.ran
    assert argv[:4] == ("esxcli", "system", "shutdown", "reboot")
    assert changes


def test_a_reboot_through_vcenter_does_not_force():
    server = Server(READY)
    do(lifecycle("reboot", via="api"), server)
    assert [c[:3] for c in server.calls] == [(ESX1.ref, "RebootHost_Task", {"force": False})]


def test_a_host_that_left_maintenance_is_not_rebooted():
    shell = Shells(CommandOutput(0, ""))
    with refused(Conflict, "object.changed"):
        do(lifecycle("reboot", via="ssh"), Server({**READY, "runtime.inMaintenanceMode": False}), shell)
    assert shell.ran == []


def test_a_lost_answer_to_a_reboot_is_left_to_the_boot_time():
    do(lifecycle("reboot", via="ssh"), Server(READY), Shells(OutcomeUnknown("connection lost")))


def test_a_refused_reboot_says_why():
    with refused(StepFailed, "step.failed", "Host is not in maintenance mode"):
        do(lifecycle("reboot", via="ssh"), Server(READY), Shells(CommandOutput(1, "Host is not in maintenance mode")))


def back(clock, *readings, limit=60):
    """Reboot, then wait with these readings; return what was said."""
    server = Server(READY, READY, *({"runtime.connectionState": s, **({"runtime.bootTime": b} if b else {})}
                             for s, b in readings))  # fmt: skip
    acting, said = executor(server, Shells(CommandOutput(0, ""))), []
    assert acting.before(lifecycle("reboot", via="ssh")) == BOOT
    acting.do(lifecycle("reboot", via="ssh"), said.append)
    acting.do(HostBack(target=ESX1, summary="", timeout=limit), said.append)
    return said


JITTER = "2026-01-01T00:00:30+00:00"


@pytest.mark.parametrize(
    "readings",
    [
        [("connected", BOOT), ("notResponding", None), ("connected", BOOTED)],
        [("connected", BOOTED)],
        [("notResponding", BOOT), ("connected", JITTER)],
        [("connected", None), ("connected", BOOTED)],
    ],
)
def test_a_host_is_back_with_a_newer_boot_time(clock, readings):
    said = back(clock, *readings)
    assert len(said) == len(readings) - 1


@pytest.mark.parametrize(
    "readings",
    [
        [("connected", BOOT)],
        [("connected", JITTER)],
        [("notResponding", None), ("connected", BOOT)],
        [("notResponding", BOOTED)],
        [("disconnected", None)],
    ],
)
def test_a_host_is_not_back_without_one(clock, readings):
    with refused(HostUnhealthy, "host.not-back", "esx01", "60 s"):
        back(clock, *readings)
    assert sum(clock.pauses) == pytest.approx(60)
    assert max(clock.pauses) <= 10


class Up(Server):
    """A host that tells its uptime; None where it cannot be asked."""

    def __init__(self, uptime, *readings):
        super().__init__(*readings)
        self.uptime = uptime

    def call(self, ref, method, args=None):
        assert (ref, method) == (ESX1.ref, "RetrieveHardwareUptime")
        if self.uptime is None:
            raise Denied("no permission")
        return self.uptime


def shown(booted, state="connected"):
    return {"runtime.connectionState": state, "runtime.bootTime": f"2026-01-01T00:00:{booted}+00:00"}


def returned(uptime, *readings, never=120):
    """Wait for a reboot whose command left a minute ago; return whether it is seen and for how long that took."""
    acting, sent = executor(Up(uptime, *readings)), datetime.now(UTC) - timedelta(seconds=60)
    acting.remember_boot(ESX1, BOOT, sent.isoformat())
    acting.do(HostBack(target=ESX1, summary="", timeout=600, unless_never_down=never), lambda _: None)
    return acting.has_rebooted(ESX1)


@pytest.mark.parametrize("booted", ["01", "10", "59"])
def test_a_host_that_is_up_since_after_the_command_left_has_rebooted(clock, booted):
    """Whatever the clocks of the two machines say."""
    assert returned(40, shown(booted))
    assert clock.pauses == []


def test_a_boot_time_that_only_moves_a_little_is_no_reboot(clock):
    assert not returned(70, shown("03"))
    assert sum(clock.pauses) == pytest.approx(120, abs=10)


def test_a_host_that_was_out_of_reach_for_a_moment_has_not_rebooted(clock):
    """It is watched for as long again, and not for as long as a boot takes."""
    assert not returned(70, *[shown("00")] * 5, shown("00", "notResponding"), shown("03"), never=15)
    assert sum(clock.pauses) == pytest.approx(125, abs=10)


def test_a_boot_time_that_vcenter_has_not_read_again_does_not_hide_a_reboot(clock):
    assert returned(40, shown("00", "notResponding"), shown("00"))


def test_where_the_uptime_cannot_be_read_the_host_has_to_be_seen_down(clock):
    assert returned(None, shown("00", "notResponding"), shown("10"))
    assert not returned(None, shown("10"))


def test_the_same_boot_time_is_the_same_boot(clock):
    """Also where the clock of this machine was put forward since."""
    assert not returned(40, shown("00"))


def gpus(clock, shell, count=2):
    return do(GpusAnswer(target=ESX1, summary="", timeout=30), Server({}), shell, gpus=count)


def test_gpus_answer_when_nvidia_smi_lists_every_one(clock):
    assert gpus(clock, Shells(LISTED)) == []


@pytest.mark.parametrize(
    "shell",
    [
        Shells(CommandOutput(9, "NVIDIA-SMI has failed\n"), LISTED),
        Shells(Unreachable("no route"), LISTED),
        Shells(LISTED, refuse=[Unreachable("refused")]),
    ],
)
def test_gpus_are_asked_again_until_they_answer(clock, shell):
    assert len(gpus(clock, shell)) == 1


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_gpus_have_to_answer_in_the_mig_mode_they_were_in(clock, mode):
    step = GpusAnswer(target=ESX1, summary="", timeout=300)
    found = {ESX1.ref: HostBefore(ESX1, 2, mig={PCI[0]: mode, "0000:ff:00.0": "disabled"})}
    if mode == "enabled":
        assert do(step, Server({}), Shells(LISTED), gpus=2, found=found) == []
        return
    with refused(HostUnhealthy, "host.unhealthy", PCI[0], "enabled", "disabled"):
        do(step, Server({}), Shells(LISTED), gpus=2, found=found)
    assert sum(clock.pauses) < 10, "a mode does not change by itself"


def test_a_gpu_that_does_not_come_back_makes_the_host_unhealthy(clock):
    with refused(HostUnhealthy, "host.unhealthy", "2 of 3 GPUs"):
        gpus(clock, Shells(LISTED), count=3)
    assert sum(clock.pauses) == pytest.approx(30)


def test_a_refused_login_is_not_tried_again(clock):
    shell = Shells(LISTED, refuse=[Denied("wrong password")])
    with pytest.raises(Denied):
        gpus(clock, shell)
    assert clock.pauses == []


# -- power


def power(state, tools="guestToolsRunning"):
    return {"runtime.powerState": state, "guest.toolsRunningStatus": tools}


def off(*readings, force=False, timeout=20):
    server = Server(*readings)
    said = do(lifecycle("power-off", VM, shutdown_timeout=timeout, force=force), server)
    return [c[:3] for c in server.calls], said


def test_the_guest_is_asked_to_shut_down_and_waited_for(clock):
    on = power("poweredOn")
    calls, said = off(on, on, on, power("poweredOff"))
    assert calls == [(VM.ref, "ShutdownGuest", {})]
    assert len(said) == 2


def test_a_vm_that_is_off_already_is_left(clock):
    assert off(power("poweredOff"))[0] == []


def test_without_force_a_guest_that_does_not_shut_down_is_a_failure(clock):
    server = Server(power("poweredOn"))
    with refused(GuestStillRuns, "vm.guest-still-runs", "20 s"):
        do(lifecycle("power-off", VM, shutdown_timeout=20, force=False), server)
    assert [c[1] for c in server.calls] == ["ShutdownGuest"]
    assert sum(clock.pauses) == pytest.approx(20)


def test_with_force_it_is_powered_off_after_the_timeout_only(clock):
    calls, _ = off(power("poweredOn"), force=True)
    assert [m for _, m, _ in calls] == ["ShutdownGuest", "PowerOffVM_Task"]
    assert sum(clock.pauses) > 10


def test_without_tools_only_force_powers_it_off(clock):
    calls, _ = off(power("poweredOn", "guestToolsNotRunning"), force=True)
    assert [m for _, m, _ in calls] == ["PowerOffVM_Task"]
    with pytest.raises(StepFailed):
        off(power("poweredOn", "guestToolsNotRunning"))


def test_power_on_goes_to_the_host_the_vm_is_on():
    on = {"runtime.powerState": "poweredOn"}
    server = Server({"runtime.powerState": "poweredOff"}, {"runtime.host": ESX1.ref}, on)
    do(lifecycle("power-on", VM), server)
    assert [c[:3] for c in server.calls] == [(VM.ref, "PowerOnVM_Task", {"host": ESX1.ref})]
    server = Server({"runtime.powerState": "poweredOff"}, {}, on)
    do(lifecycle("power-on", VM), server)
    assert server.calls[0][2] == {}


def test_a_vm_that_runs_already_is_not_powered_on_again():
    server = Server({"runtime.powerState": "poweredOn"})
    do(lifecycle("power-on", VM), server)
    assert server.calls == []


# -- reading back

ITEM = PlanItem(VM, "vgpu", (FieldChange("profiles", ("a",), ("b", "b")), FieldChange("uvm", False, True)))


def as_planned(answers, target=VM):
    """Wait with what is left at each reading (the last answer stays)."""
    given = list(answers)

    def left(asked, but_last):
        assert (asked, but_last) == (target, False)
        return given.pop(0) if len(given) > 1 else given[0]

    return do(AsPlanned(target=target, summary=""), Server({}), left=left)


def test_nothing_left_is_as_planned(clock):
    assert as_planned([()]) == []
    assert len(as_planned([(ITEM,), (ITEM,), ()])) == 2


@pytest.mark.parametrize(("target", "limit"), [(VM, waits.READ_BACK_VM), (ESX1, waits.READ_BACK_HOST)])
def test_what_is_left_after_the_deadline_is_not_verified(clock, target, limit):
    with refused(NotVerified, "step.not-verified", "vgpu profiles is a, wanted b ×2; vgpu uvm is no, wanted yes"):
        as_planned([(ITEM,)], target)
    assert sum(clock.pauses) == pytest.approx(limit)


def test_a_state_that_is_lost_without_a_changed_field_is_described():
    assert describe_left((PlanItem(ESX1, "mig", (), recreate=True),)) == "a state that has to be made again"


def test_the_host_of_a_vm_is_the_planned_one():
    acting = executor(Server({}))
    assert acting.host_of(VM) == ESX1.ref
    assert acting.host_of(vm(9)) is None
