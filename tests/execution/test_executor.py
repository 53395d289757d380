"""What each step sends to vCenter and to hosts, exactly."""

from __future__ import annotations

import pytest
from support.acting import VM, Clock, Server, Shells, do, executor, lifecycle, on_clock
from support.estates import ESX1, pvrdma_device, vgpu_device
from support.raising import refused

from vsphere_ai.errors import (
    Conflict,
    Denied,
    GuestStillRuns,
    HostUnhealthy,
    OutcomeUnknown,
    StepFailed,
    Storage,
    Unreachable,
    VimFault,
)
from vsphere_ai.execution.actions import context
from vsphere_ai.execution.actions.configure import config_spec
from vsphere_ai.model.facts import CommandOutput
from vsphere_ai.model.steps import Invoke, Reconfigure, Shell

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
    assert timeout == context.TASK_TIMEOUT


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
    with refused(Conflict, "object.changed", "13000"):
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
    with refused(Conflict, "object.gone", VM.name):
        do(reconfigure(), Server(None))


# -- shell


def test_a_command_is_sent_as_it_is_with_a_deadline():
    shell = Shells(CommandOutput(0, "done\n"))
    argv = ("nvidia-smi", "-i", "00000000:3B:00.0", "-mig", "1")
    do(Shell(target=ESX1, summary="", argv=argv), Server({}), shell)
    assert shell.ran == [(argv, context.COMMAND_TIMEOUT, True)]


def test_a_command_that_fails_says_what_it_said():
    shell = Shells(CommandOutput(19, "Unable to destroy GPU instance\n\n", "In use by another client\n"))
    with refused(StepFailed, "step.failed", " 19", "Unable to destroy GPU instance / In use by another client"):
        do(Shell(target=ESX1, summary="", argv=("nvidia-smi", "mig")), Server({}), shell)


# -- maintenance and SSH


def test_maintenance_has_a_positive_timeout_and_moves_nothing_that_is_off():
    server = Server({})
    do(lifecycle("enter-maintenance", timeout=600, evacuate="power_off"), server)
    assert server.calls == [
        (ESX1.ref, "EnterMaintenanceMode_Task", {"timeout": 600, "evacuatePoweredOffVms": False}, 660)
    ]
    server = Server({"runtime.inMaintenanceMode": True})
    do(lifecycle("exit-maintenance", timeout=600), server)
    assert server.calls == [(ESX1.ref, "ExitMaintenanceMode_Task", {"timeout": 600}, 660)]


@pytest.mark.parametrize(("action", "now"), [("enter-maintenance", True), ("exit-maintenance", False)])
def test_a_host_that_is_there_already_is_not_asked(action, now):
    server = Server({"runtime.inMaintenanceMode": now})
    do(lifecycle(action, timeout=600), server)
    assert server.calls == []


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


def test_ssh_is_never_started_where_the_inventory_says_so():
    server = Server(services(running=False))
    with refused(Denied, "denied", "start_service: never"):
        do(lifecycle("start-ssh"), server, start_ssh=False)
    assert server.calls == []
    do(lifecycle("start-ssh"), Server(services(running=True)), start_ssh=False)  # nothing is started


def test_a_host_without_the_service_is_told():
    with refused(StepFailed, "step.failed", "TSM-SSH"):
        do(lifecycle("start-ssh"), Server({"config.service.service": ()}))


# -- what comes about without us, and what was refused


def fault(name):
    return VimFault(name, "", {"_typeName": name})


@pytest.mark.parametrize(
    ("action", "path", "before", "after"),
    [
        ("power-on", "runtime.powerState", "poweredOff", "poweredOn"),
        ("exit-maintenance", "runtime.inMaintenanceMode", True, False),
    ],
)
def test_what_came_about_between_the_look_and_the_call_is_done(action, path, before, after):
    now = {path: before}
    server = Server(now, now, {path: after}) if action == "power-on" else Server(now, {path: after})
    server.error = fault("InvalidPowerState" if action == "power-on" else "InvalidState")
    do(lifecycle(action, VM if action == "power-on" else ESX1), server)
    assert len(server.calls) == 1


def test_a_guest_that_goes_off_just_before_it_is_switched_off_is_off():
    on = {"runtime.powerState": "poweredOn", "guest.toolsRunningStatus": "guestToolsNotRunning"}
    server = Server(on, {"runtime.powerState": "poweredOff"})
    server.error = fault("InvalidPowerState")
    do(lifecycle("power-off", VM, force=True, shutdown_timeout=1), server)


@pytest.mark.parametrize(("only_on", "calls"), [(ESX1.ref, 0), ("HostSystem:host-9", 1), (None, 1)])
def test_a_vm_that_has_left_its_host_is_not_switched_off_for_that_host(only_on, calls):
    on = {"runtime.powerState": "poweredOn", "guest.toolsRunningStatus": "none", "runtime.host": "HostSystem:host-9"}
    server = Server(on)
    options = {"only_on": only_on} if only_on else {}
    do(lifecycle("power-off", VM, force=True, shutdown_timeout=1, **options), server)
    assert len(server.calls) == calls


def test_a_host_that_somebody_else_brought_into_maintenance_mode_is_not_taken_for_ours():
    server = Server(*[{"runtime.inMaintenanceMode": False}] * 2, {"runtime.inMaintenanceMode": True})
    server.error = fault("InvalidState")
    with pytest.raises(VimFault):
        do(lifecycle("enter-maintenance", timeout=60), server)


def test_a_vm_that_does_not_stay_on_was_not_powered_on():
    off = {"runtime.powerState": "poweredOff", "runtime.host": ESX1.ref}
    with pytest.raises(StepFailed, match="is off again"):
        do(lifecycle("power-on", VM), Server(off))


@pytest.mark.parametrize("action", ["enter-maintenance", "start-ssh", "power-off"])
@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (fault("Timedout"), True),
        (StepFailed("no"), True),
        (Conflict("no"), True),
        (Denied("no"), True),
        (fault("HostCommunication"), False),
        (fault("SystemError"), False),
        (OutcomeUnknown("lost"), False),
        (Unreachable("away"), False),
        (Storage("full"), False),
        (GuestStillRuns("slow"), False),
    ],
)
def test_only_what_certainly_had_no_effect_was_refused(action, error, refused):
    assert executor(Server({})).was_refused(lifecycle(action), error) is refused


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (fault("InvalidState"), True),
        (Denied("no"), True),
        (fault("HostCommunication"), False),
        (Unreachable("away"), False),
        (Storage("full"), False),
    ],
)
def test_a_reboot_was_refused_when_its_order_was_answered_with_no(error, refused):
    server = Server({"runtime.inMaintenanceMode": True})
    own, step = executor(server), lifecycle("reboot", via="api")
    server.error = error
    with pytest.raises(type(error)):
        own.do(step, lambda _: None)
    assert [call[1] for call in server.calls] == ["RebootHost_Task"]
    assert own.was_refused(step, error) is refused


@pytest.mark.parametrize("error", [Unreachable("no answer"), Storage("full"), Denied("no login"), Conflict("gone")])
def test_a_reboot_whose_order_was_never_sent_was_refused(error):
    assert executor(Server({})).was_refused(lifecycle("reboot", via="ssh"), error)


def test_a_change_is_not_taken_for_refused():
    assert not executor(Server({})).was_refused(reconfigure(), fault("InvalidState"))


def test_a_guest_that_was_told_to_shut_down_may_do_so_yet():
    server = Server({"runtime.powerState": "poweredOn", "guest.toolsRunningStatus": "guestToolsRunning"})
    own, step = executor(server), lifecycle("power-off", VM, force=True, shutdown_timeout=0)
    server.error = fault("InvalidState")
    with pytest.raises(VimFault):
        own.do(step, lambda _: None)
    assert [call[1] for call in server.calls] == ["ShutdownGuest", "PowerOffVM_Task"]
    assert not own.was_refused(step, server.error)


@pytest.mark.parametrize(
    "step", [lifecycle("reboot", via="ssh"), Invoke(target=ESX1, summary="", method="X", needs_reboot=True)]
)
def test_a_host_without_a_boot_time_is_not_rebooted(step):
    with refused(HostUnhealthy, "host.unhealthy", "esx01"):
        executor(Server({})).before(step)


def test_ssh_that_is_being_read_over_is_not_taken_for_started_by_somebody(monkeypatch):
    clock, looks = Clock(), []
    on_clock(monkeypatch, context, clock)
    server = Server({"config.service.service": ({"key": "TSM-SSH", "running": False},)})

    def is_read(host):
        looks.append(host)
        return len(looks) < 4

    assert not executor(server, is_being_read=is_read).is_so(lifecycle("start-ssh"))
    assert looks == [ESX1] * 4
