"""What each step sends to vCenter and to hosts, and what has to be seen before it counts as done."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from support.estates import ESX1, ON, PCI, pvrdma_device, smi, vgpu_device, vm

from vsphere_ai import deeds as module
from vsphere_ai.deeds import Deeds, Means, config_spec, describe_left
from vsphere_ai.errors import (
    Conflict,
    Denied,
    HostUnhealthy,
    NotVerified,
    OutcomeUnknown,
    StepFailed,
    Unreachable,
)
from vsphere_ai.facts import Facts, Output
from vsphere_ai.gpu.live import GPUS
from vsphere_ai.plan import Item
from vsphere_ai.state import FieldChange
from vsphere_ai.steps import Invoke, Lifecycle, Reconfigure, Shell, Wait

VM = vm(1)
BOOT = "2026-01-01T00:00:00+00:00"
BOOTED = "2026-01-01T00:10:00+00:00"
LISTED = smi(dict.fromkeys(PCI, ON))[GPUS.name]


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self):
        self.now, self.pauses = 1000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


class Server:
    """Answers reads from a list of property sets (the last one stays) and remembers every call."""

    def __init__(self, *readings):
        self.readings, self.calls, self.asked, self.error = list(readings), [], [], None

    def read_objects(self, refs, paths):
        (ref,) = refs
        assert list(paths) == [ref.partition(":")[0]]
        self.asked.append(paths[ref.partition(":")[0]])
        now = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if isinstance(now, Exception):
            raise now
        return {} if now is None else {ref: Facts(ref, now)}

    def resolve_path(self, ref, path):
        return f"{ref}/{path}" if path else ref

    def call(self, ref, method, args=None):
        self.calls.append((ref, method, dict(args or {})))

    def run_task(self, ref, method, args=None, *, timeout, progress=None):
        self.calls.append((ref, method, dict(args or {}), timeout))
        if progress:
            progress(None)
            progress(40)
        if self.error:
            raise self.error


class Shells:
    """Answers commands from a list (the last one stays); an exception is raised instead, on connecting or running."""

    def __init__(self, *answers, refuse=()):
        self.answers, self.ran, self.refuse = list(answers), [], list(refuse)

    @contextmanager
    def __call__(self, host):
        if self.refuse:
            raise self.refuse.pop(0)
        yield self

    def run(self, argv, deadline_s, *, changes=False):
        self.ran.append((argv, deadline_s, changes))
        now = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(now, Exception):
            raise now
        return now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def deeds(server, shell=None, left=lambda target: (), gpus=2):
    return Deeds(Means(server, shell or Shells(), left, {ESX1.ref: gpus}, {VM.ref: ESX1.ref}))


def do(step, server, shell=None, **more):
    """Do one step; return what was said."""
    said = []
    deeds(server, shell, **more).do(step, said.append)
    return said


# -- invoke


def test_a_method_of_a_manager_is_called_on_the_manager():
    server = Server({})
    do(Invoke(target=ESX1, summary="", path="configManager.graphicsManager", method="UpdateGraphicsConfig",
              args={"config": {"a": 1}}), server)  # fmt: skip
    manager = f"{ESX1.ref}/configManager.graphicsManager"
    assert server.calls == [(manager, "UpdateGraphicsConfig", {"config": {"a": 1}})]


def test_a_task_is_waited_for_with_a_deadline_and_progress():
    server = Server({})
    said = do(Invoke(target=VM, summary="", method="UpgradeVM_Task", args={"version": "vmx-19"}), server)
    ((ref, method, args, timeout),) = server.calls
    assert (ref, method, args) == (VM.ref, "UpgradeVM_Task", {"version": "vmx-19"})
    assert timeout > 0
    assert said == ["40%"]


def test_errors_name_the_target_not_its_reference():
    server = Server({})
    server.error = StepFailed(f"{VM.ref}: locked by {VM.ref}2")
    with pytest.raises(StepFailed) as caught:
        do(Invoke(target=VM, summary="", method="UpgradeVM_Task"), server)
    assert str(caught.value) == caught.value.message == f"{VM.name}: locked by {VM.ref}2"


# -- reconfigure


def reconfigure(*changes, **more):
    made = tuple({"_typeName": "VirtualDeviceConfigSpec", "operation": o, "device": d} for o, d in changes)
    return Reconfigure(target=VM, summary="", device_changes=made, **more)


def test_one_task_with_everything_and_the_version_that_was_read():
    new = {"_typeName": "VirtualPCIPassthrough", "key": -1001}
    server = Server({"config.changeVersion": "7", "config.hardware.device": (vgpu_device(13000, "a"),)})
    step = reconfigure(("remove", vgpu_device(13000, "a")), ("add", new), spec={"firmware": "efi"},
                       extra_config=(("k", "v"),))  # fmt: skip
    do(step, server)
    ((ref, method, args, timeout),) = server.calls
    assert (ref, method) == (VM.ref, "ReconfigVM_Task")
    assert args == {
        "spec": {
            "_typeName": "VirtualMachineConfigSpec",
            "firmware": "efi",
            "changeVersion": "7",
            "deviceChange": step.device_changes,
            "extraConfig": ({"_typeName": "OptionValue", "key": "k", "value": "v"},),
        }
    }
    assert timeout == module.TASK_TIMEOUT


def test_what_a_step_does_not_say_is_not_sent():
    assert config_spec(Reconfigure(target=VM, summary=""), None) == {"_typeName": "VirtualMachineConfigSpec"}


@pytest.mark.parametrize("operation", ["remove", "edit"])
@pytest.mark.parametrize(
    "present",
    [
        (),
        (vgpu_device(13001, "a"),),
        (vgpu_device(13000, "b"),),
        ({**vgpu_device(13000, "a"), "_typeName": "VirtualDisk"},),
    ],
)
def test_a_device_that_is_not_what_it_was_is_not_touched(operation, present):
    server = Server({"config.changeVersion": "7", "config.hardware.device": present})
    with pytest.raises(Conflict, match="13000"):
        do(reconfigure((operation, vgpu_device(13000, "a"))), server)
    assert server.calls == []


def test_an_adapter_with_another_address_is_not_the_one_that_was_planned():
    planned = pvrdma_device(4000)
    server = Server({"config.hardware.device": ({**planned, "macAddress": "00:50:56:ff:ff:ff"},)})
    with pytest.raises(Conflict):
        do(reconfigure(("remove", planned)), server)


def test_an_edit_is_compared_by_what_identifies_the_device():
    present = {**pvrdma_device(4000, protocol="rocev1"), "deviceInfo": {"label": "Network adapter 2"}}
    server = Server({"config.changeVersion": "7", "config.hardware.device": (present,)})
    do(reconfigure(("edit", {**present, "deviceProtocol": "rocev2", "deviceInfo": {"label": "NIC 1"}})), server)
    assert len(server.calls) == 1


def test_a_vm_that_is_gone_is_a_conflict():
    with pytest.raises(Conflict, match=VM.name):
        do(reconfigure(), Server(None))


# -- shell


def test_a_command_is_sent_as_it_is_with_a_deadline():
    shell = Shells(Output(0, "done\n"))
    argv = ("nvidia-smi", "-i", "00000000:3B:00.0", "-mig", "1")
    do(Shell(target=ESX1, summary="", argv=argv), Server({}), shell)
    assert shell.ran == [(argv, module.COMMAND_TIMEOUT, True)]


def test_a_command_that_fails_says_what_it_said():
    shell = Shells(Output(19, "Unable to destroy GPU instance\n\n", "In use by another client\n"))
    with pytest.raises(StepFailed, match="ended with 19: Unable to destroy GPU instance / In use by another client"):
        do(Shell(target=ESX1, summary="", argv=("nvidia-smi", "mig")), Server({}), shell)


# -- maintenance and SSH


def lifecycle(action, target=ESX1, **options):
    return Lifecycle(target=target, summary="", action=action, options=options)


def test_maintenance_has_a_positive_timeout_and_moves_nothing_that_is_off():
    server = Server({})
    do(lifecycle("enter-maintenance", timeout=600, evacuate="power_off"), server)
    assert server.calls == [
        (ESX1.ref, "EnterMaintenanceMode_Task", {"timeout": 600, "evacuatePoweredOffVms": False}, 660)
    ]
    server = Server({})
    do(lifecycle("exit-maintenance", timeout=600), server)
    assert server.calls == [(ESX1.ref, "ExitMaintenanceMode_Task", {"timeout": 600}, 660)]


def services(running):
    return {"config.service.service": ({"key": "ntpd", "running": True}, {"key": "TSM-SSH", "running": running})}


@pytest.mark.parametrize(
    ("action", "running", "method"),
    [
        ("start-ssh", False, "StartService"),
        ("start-ssh", True, None),
        ("stop-ssh", True, "StopService"),
        ("stop-ssh", False, None),
    ],
)
def test_ssh_is_switched_through_the_service_system_only_when_needed(action, running, method):
    server = Server(services(running))
    do(lifecycle(action), server)
    system = f"{ESX1.ref}/configManager.serviceSystem"
    assert server.calls == ([(system, method, {"id": "TSM-SSH"})] if method else [])


def test_a_host_without_the_service_is_told():
    with pytest.raises(StepFailed, match="TSM-SSH"):
        do(lifecycle("start-ssh"), Server({"config.service.service": ()}))


# -- reboot and back

READY = {"runtime.bootTime": BOOT, "runtime.inMaintenanceMode": True}


def test_a_reboot_over_ssh_is_one_that_needs_maintenance_mode():
    shell = Shells(Output(0, ""))
    do(lifecycle("reboot", via="ssh"), Server(READY), shell)
    ((argv, _, changes),) = shell.ran
    assert argv[:4] == ("esxcli", "system", "shutdown", "reboot")
    assert changes


def test_a_reboot_through_vcenter_does_not_force():
    server = Server(READY)
    do(lifecycle("reboot", via="api"), server)
    assert [c[:3] for c in server.calls] == [(ESX1.ref, "RebootHost_Task", {"force": False})]


def test_a_host_that_left_maintenance_is_not_rebooted():
    shell = Shells(Output(0, ""))
    with pytest.raises(Conflict, match="not in maintenance mode"):
        do(lifecycle("reboot", via="ssh"), Server({**READY, "runtime.inMaintenanceMode": False}), shell)
    assert shell.ran == []


def test_a_lost_answer_to_a_reboot_is_left_to_the_boot_time():
    do(lifecycle("reboot", via="ssh"), Server(READY), Shells(OutcomeUnknown("connection lost")))


def test_a_refused_reboot_says_why():
    with pytest.raises(StepFailed, match="not in maintenance"):
        do(lifecycle("reboot", via="ssh"), Server(READY), Shells(Output(1, "Host is not in maintenance mode")))


def back(clock, *readings, limit=60):
    """Reboot, then wait with these readings; return what was said."""
    server = Server(READY, *({"runtime.connectionState": s, **({"runtime.bootTime": b} if b else {})}
                             for s, b in readings))  # fmt: skip
    acting, said = deeds(server, Shells(Output(0, ""))), []
    acting.do(lifecycle("reboot", via="ssh"), said.append)
    acting.do(Wait(target=ESX1, summary="", until="host-back", options={"timeout": limit}), said.append)
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
    with pytest.raises(HostUnhealthy, match="esx01 did not come back within 60 s"):
        back(clock, *readings)
    assert sum(clock.pauses) <= 60
    assert max(clock.pauses) <= 10


def gpus(clock, shell, count=2):
    return do(
        Wait(target=ESX1, summary="", until="gpus-answer", options={"timeout": 30}), Server({}), shell, gpus=count
    )


def test_gpus_answer_when_nvidia_smi_lists_every_one(clock):
    assert gpus(clock, Shells(LISTED)) == []


@pytest.mark.parametrize(
    "shell",
    [
        Shells(Output(9, "NVIDIA-SMI has failed\n"), LISTED),
        Shells(Unreachable("no route"), LISTED),
        Shells(LISTED, refuse=[Unreachable("refused")]),
    ],
)
def test_gpus_are_asked_again_until_they_answer(clock, shell):
    assert len(gpus(clock, shell)) == 1


def test_a_gpu_that_does_not_come_back_makes_the_host_unhealthy(clock):
    with pytest.raises(HostUnhealthy, match="nvidia-smi lists 2 of 3 GPUs"):
        gpus(clock, Shells(LISTED), count=3)
    assert sum(clock.pauses) <= 30


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
    with pytest.raises(StepFailed, match="did not shut down in 20 s"):
        do(lifecycle("power-off", VM, shutdown_timeout=20, force=False), server)
    assert [c[1] for c in server.calls] == ["ShutdownGuest"]
    assert sum(clock.pauses) <= 20


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
    server = Server({"runtime.powerState": "poweredOff"}, {"runtime.host": ESX1.ref})
    do(lifecycle("power-on", VM), server)
    assert [c[:3] for c in server.calls] == [(VM.ref, "PowerOnVM_Task", {"host": ESX1.ref})]
    server = Server({"runtime.powerState": "poweredOff"}, {})
    do(lifecycle("power-on", VM), server)
    assert server.calls[0][2] == {}


def test_a_vm_that_runs_already_is_not_powered_on_again():
    server = Server({"runtime.powerState": "poweredOn"})
    do(lifecycle("power-on", VM), server)
    assert server.calls == []


# -- reading back

ITEM = Item(VM, "vgpu", (FieldChange("profiles", ("a",), ("b", "b")), FieldChange("uvm", False, True)))


def as_planned(answers, target=VM):
    """Wait with what is left at each reading (the last answer stays)."""
    given = list(answers)

    def left(asked):
        assert asked == target
        return given.pop(0) if len(given) > 1 else given[0]

    return do(Wait(target=target, summary="", until="as-planned"), Server({}), left=left)


def test_nothing_left_is_as_planned(clock):
    assert as_planned([()]) == []
    assert len(as_planned([(ITEM,), (ITEM,), ()])) == 2


@pytest.mark.parametrize(("target", "limit"), [(VM, module.READ_BACK_VM), (ESX1, module.READ_BACK_HOST)])
def test_what_is_left_after_the_deadline_is_not_verified(clock, target, limit):
    with pytest.raises(NotVerified, match="vgpu profiles is a, wanted b ×2; vgpu uvm is no, wanted yes"):
        as_planned([(ITEM,)], target)
    assert limit / 2 < sum(clock.pauses) <= limit


def test_a_state_that_is_lost_without_a_changed_field_is_described():
    assert describe_left((Item(ESX1, "mig", (), recreate=True),)) == "a state that has to be made again"


def test_the_host_of_a_vm_is_the_planned_one():
    acting = deeds(Server({}))
    assert acting.host_of(VM) == ESX1.ref
    assert acting.host_of(vm(9)) is None
