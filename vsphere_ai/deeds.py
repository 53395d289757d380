"""What each step does to vCenter and to hosts; every wait has a deadline, nothing is believed that was not read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from vsphere_ai.errors import (
    Conflict,
    HostUnhealthy,
    NotVerified,
    OutcomeUnknown,
    StepFailed,
    Unreachable,
    VsphereAiError,
)
from vsphere_ai.facts import Facts, Output
from vsphere_ai.gpu.nvidia_smi import QUERY_GPUS, parse_gpus
from vsphere_ai.plan import Item
from vsphere_ai.report.values import shown
from vsphere_ai.state import Target
from vsphere_ai.steps import Invoke, Lifecycle, Reconfigure, Shell, Step, Wait
from vsphere_ai.windows import SSH_SERVICE

TASK_TIMEOUT = 1800
COMMAND_TIMEOUT = 120
# ESXi refuses this outside maintenance mode, which the plain `reboot` does not; 10 s is its smallest delay.
REBOOT = ("esxcli", "system", "shutdown", "reboot", "--delay=10", "--reason=vsphere-ai")
BOOT_JITTER = timedelta(seconds=60)  # bootTime is computed from the uptime and moves by seconds between reads
DOUBT = 15.0  # seconds a lost call is given to show its effect
READ_BACK_HOST, READ_BACK_VM = 90, 20  # seconds; a host's switches and devices lag behind its connection


class Server(Protocol):
    """What deeds need of a vCenter (see `connect.vcenter.VCenter`)."""

    def read_objects(self, refs: list[str], paths: Mapping[str, tuple[str, ...]]) -> dict[str, Facts]: ...  # noqa: D102
    def resolve_path(self, ref: str, path: str) -> str: ...  # noqa: D102
    def call(self, ref: str, method: str, args: Mapping[str, Any] | None = None) -> Any: ...  # noqa: D102
    def run_task(  # noqa: D102
        self, ref: str, method: str, args: Mapping[str, Any] | None = None, *, timeout: float, progress: Any = None
    ) -> Any: ...


class CommandLine(Protocol):
    """A shell on a host (see `connect.esxi.Ssh`)."""

    def run(self, argv: tuple[str, ...], deadline_s: float, *, changes: bool = False) -> Output: ...  # noqa: D102


@dataclass(frozen=True)
class Means:
    """Everything deeds act through. `left` reads a target again and returns what is still to change there."""

    vcenter: Server
    shell: Callable[[Target], AbstractContextManager[CommandLine]]
    left: Callable[[Target], tuple[Item, ...]]
    gpus: Mapping[str, int]
    """Host reference -> number of NVIDIA GPUs it had when planned."""
    hosts: Mapping[str, str]
    """VM reference -> reference of its host when planned."""


class Deeds:
    """Carries out steps one at a time, from several threads; remembers only what a reboot has to be compared with."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._booted: dict[str, datetime] = {}
        self._versions: dict[int, str | None] = {}

    def before(self, step: Step) -> str:
        """Return what has to be remembered about a target before a step: the boot time before a reboot."""
        if not (isinstance(step, Lifecycle) and step.action == "reboot"):
            return ""
        booted = str(self._read(step.target, "runtime.bootTime").get("runtime.bootTime"))
        self._booted[step.target.ref] = datetime.fromisoformat(booted)
        return booted

    def remember_boot(self, host: Target, booted: str) -> None:
        """Take over the boot time before a reboot from the journal of an earlier attempt."""
        self._booted[host.ref] = datetime.fromisoformat(booted)

    def do(self, step: Step, say: Callable[[str], None]) -> None:
        """Do one step; returns when its effect was accepted (or, for a wait, seen). `say` gets progress."""
        try:
            self._do_surely(step, say)
        except VsphereAiError as error:
            # the API names objects by reference, operators by name
            whole = rf"{re.escape(step.target.ref)}(?!\d)"  # vm-1 is not the beginning of vm-12
            error.message = re.sub(whole, lambda _: step.target.name, error.message)
            error.args = (error.message,)
            raise

    def _do_surely(self, step: Step, say: Callable[[str], None]) -> None:
        """Do a step; when its answer is lost, look what happened, and repeat it only where that cannot do it twice."""
        try:
            self._do(step, say)
        except OutcomeUnknown as lost:
            say("the answer was lost, looking what happened")
            for _ in _polling(DOUBT, fastest=0.5):
                if self._took_effect(step):
                    return
            if not _repeatable(step):
                raise
            try:
                self._do(step, say)
            except Conflict:  # the configuration did change meanwhile: by the call whose answer was lost?
                if not self._took_effect(step):
                    raise lost from None

    def _took_effect(self, step: Step) -> bool:
        """Read back whether the effect of one step is there."""
        try:
            match step:
                case Lifecycle(action="enter-maintenance" | "exit-maintenance" as action):
                    return self._in_maintenance(step.target) == (action == "enter-maintenance")
                case Lifecycle(action="power-off" | "power-on" as action):
                    wanted = "poweredOff" if action == "power-off" else "poweredOn"
                    return bool(self._read(step.target, "runtime.powerState").get("runtime.powerState") == wanted)
                case Reconfigure() | Shell() | Invoke():
                    return not any(item.kind in step.kinds for item in self._means.left(step.target))
        except (Unreachable, OutcomeUnknown):
            pass  # still in the dark; asked again until the time is over
        return False

    def _do(self, step: Step, say: Callable[[str], None]) -> None:
        match step:
            case Reconfigure():
                self._reconfigure(step, say)
            case Invoke():
                self._invoke(step, say)
            case Shell():
                self._shell(step)
            case Wait(until="host-back"):
                self._host_back(step, say)
            case Wait(until="gpus-answer"):
                self._gpus_answer(step, say)
            case Wait():
                self._as_planned(step, say)
            case Lifecycle():
                self._lifecycle(step, say)

    def host_of(self, vm: Target) -> str | None:
        """Return the reference of the host a VM was on when this was planned."""
        return self._means.hosts.get(vm.ref)

    # -- one object

    def _read(self, target: Target, *paths: str) -> Facts:
        managed = target.ref.partition(":")[0]
        found = self._means.vcenter.read_objects([target.ref], {managed: paths}).get(target.ref)
        if found is None:
            raise Conflict(f"{target.name} is gone from the inventory", "plan again")
        return found

    def _task(
        self,
        target: Target,
        method: str,
        args: Mapping[str, Any],
        say: Callable[[str], None],
        timeout: float = TASK_TIMEOUT,
    ) -> None:
        def progress(percent: int | None) -> None:
            if percent is not None:
                say(f"{percent}%")

        self._means.vcenter.run_task(target.ref, method, args, timeout=timeout, progress=progress)

    # -- changes

    def _invoke(self, step: Invoke, say: Callable[[str], None]) -> None:
        if step.method.endswith("_Task"):
            self._task(step.target, step.method, step.args, say)
            return
        ref = self._means.vcenter.resolve_path(step.target.ref, step.path)
        self._means.vcenter.call(ref, step.method, step.args)

    def _reconfigure(self, step: Reconfigure, say: Callable[[str], None]) -> None:
        now = self._read(step.target, "config.changeVersion", "config.hardware.device")
        # when this is sent a second time, the version of the first time keeps it from being done twice
        version = self._versions.setdefault(id(step), now.get("config.changeVersion"))
        present = {d["key"]: d for d in now.get("config.hardware.device", ())}
        for change in step.device_changes:
            key = change["device"]["key"]
            if change["operation"] != "add" and not _same_device(present.get(key), change):
                raise Conflict(
                    f"{step.target.name}: device {key} is not what it was when this was planned",
                    "somebody changed the VM: plan again",
                )
        self._task(step.target, "ReconfigVM_Task", {"spec": config_spec(step, version)}, say)

    def _shell(self, step: Shell) -> None:
        with self._means.shell(step.target) as shell:
            answer = shell.run(step.argv, COMMAND_TIMEOUT, changes=True)
        if answer.status != 0:
            text = " / ".join(line for line in (answer.stdout + answer.stderr).splitlines() if line.strip())
            raise StepFailed(
                f"{' '.join(step.argv)} ended with {answer.status}: {text}",
                "the state of the GPUs was read again; plan shows what is left to do",
            )

    # -- lifecycle

    def _lifecycle(self, step: Lifecycle, say: Callable[[str], None]) -> None:
        match step.action:
            case "enter-maintenance" if self._in_maintenance(step.target):
                return
            case "exit-maintenance" if not self._in_maintenance(step.target):
                return
            case "enter-maintenance":
                timeout = int(step.options["timeout"])
                args = {"timeout": timeout, "evacuatePoweredOffVms": False}
                self._task(step.target, "EnterMaintenanceMode_Task", args, say, timeout + 60)
            case "exit-maintenance":
                timeout = int(step.options["timeout"])
                self._task(step.target, "ExitMaintenanceMode_Task", {"timeout": timeout}, say, timeout + 60)
            case "reboot":
                self._reboot(step)
            case "start-ssh" | "stop-ssh":
                self.switch_ssh(step.target, running=step.action == "start-ssh")
            case "power-off":
                self._power_off(step, say)
            case "power-on":
                self.power_on(step.target, say)

    def _in_maintenance(self, host: Target) -> bool:
        return bool(self._read(host, "runtime.inMaintenanceMode").get("runtime.inMaintenanceMode"))

    def switch_ssh(self, host: Target, *, running: bool) -> None:
        """Start or stop TSM-SSH; its policy stays as it is. Nothing is sent when it is as wanted already."""
        services = self._read(host, "config.service.service").get("config.service.service", ())
        now = next((s for s in services if s["key"] == SSH_SERVICE), None)
        if now is None:
            raise StepFailed(f"{host.name} has no service {SSH_SERVICE}", "check the host in the vSphere Client")
        if bool(now["running"]) != running:
            system = self._means.vcenter.resolve_path(host.ref, "configManager.serviceSystem")
            self._means.vcenter.call(system, "StartService" if running else "StopService", {"id": SSH_SERVICE})

    def _reboot(self, step: Lifecycle) -> None:
        facts = self._read(step.target, "runtime.inMaintenanceMode")
        if not facts.get("runtime.inMaintenanceMode"):
            raise Conflict(f"{step.target.name} is not in maintenance mode any more; it is not rebooted", "plan again")
        try:
            if step.options["via"] == "api":
                self._means.vcenter.run_task(step.target.ref, "RebootHost_Task", {"force": False}, timeout=300)
                return
            with self._means.shell(step.target) as shell:
                answer = shell.run(REBOOT, COMMAND_TIMEOUT, changes=True)
        except OutcomeUnknown:
            return  # the host takes the connection down with it; the newer boot time will tell
        if answer.status != 0:
            raise StepFailed(f"{step.target.name} refused to reboot: {(answer.stdout + answer.stderr).strip()}")

    def _power_off(self, step: Lifecycle, say: Callable[[str], None]) -> None:
        target, force = step.target, bool(step.options["force"])
        facts = self._read(target, "runtime.powerState", "guest.toolsRunningStatus")
        if facts.get("runtime.powerState") == "poweredOff":
            return
        if facts.get("guest.toolsRunningStatus") == "guestToolsRunning":
            self._means.vcenter.call(target.ref, "ShutdownGuest")
            for waited in _polling(float(step.options["shutdown_timeout"]), fastest=0.2):
                if self._read(target, "runtime.powerState").get("runtime.powerState") == "poweredOff":
                    return
                say(f"guest is shutting down, {waited:.0f} s")
        if not force:
            raise StepFailed(
                f"{target.name} did not shut down in {step.options['shutdown_timeout']} s",
                "shut the guest down by hand, or write power: {force: true}",
            )
        self._task(target, "PowerOffVM_Task", {}, say)

    def power_on(self, vm: Target, say: Callable[[str], None]) -> None:
        """Power a VM on, on the host it was on: elsewhere the hardware may not be prepared yet."""
        if self._read(vm, "runtime.powerState").get("runtime.powerState") == "poweredOn":
            return
        host = self._read(vm, "runtime.host").get("runtime.host")
        self._task(vm, "PowerOnVM_Task", {"host": host} if host else {}, say)

    # -- waits

    def _host_back(self, step: Wait, say: Callable[[str], None]) -> None:
        before, seen_down = self._booted[step.target.ref], False
        limit = float(step.options["timeout"])
        for waited in _polling(limit, fastest=0.1):
            facts = self._read(step.target, "runtime.connectionState", "runtime.bootTime")
            state, boot = facts.get("runtime.connectionState"), facts.get("runtime.bootTime")
            seen_down = seen_down or state != "connected"
            if state == "connected" and boot:
                booted = datetime.fromisoformat(boot)
                if booted > before + BOOT_JITTER or (seen_down and booted > before):
                    return
            never = float(step.options.get("unless_never_down", limit))
            if waited >= never and not seen_down:
                return  # an earlier attempt was cut off before it sent the reboot
            say(f"host is {state}, {waited:.0f} s")
        raise HostUnhealthy(
            f"{step.target.name} did not come back within {limit:.0f} s (boot time still "
            f"{before.isoformat(timespec='seconds')})",
            "look at its console; no further host was started",
        )

    def _gpus_answer(self, step: Wait, say: Callable[[str], None]) -> None:
        expected, last = self._means.gpus.get(step.target.ref, 0), "no answer"
        for waited in _polling(float(step.options["timeout"]), fastest=0.5):
            try:
                with self._means.shell(step.target) as shell:
                    answer = shell.run(QUERY_GPUS, COMMAND_TIMEOUT)
                seen = len(parse_gpus(answer.status, answer.stdout))
                if seen == expected:
                    return
                last = f"nvidia-smi lists {seen} of {expected} GPUs"
            except (Unreachable, HostUnhealthy) as error:
                last = error.message
            say(f"{last}, {waited:.0f} s")
        raise HostUnhealthy(f"{step.target.name}: {last}", "look at the host; no further host was started")

    def _as_planned(self, step: Wait, say: Callable[[str], None]) -> None:
        limit = READ_BACK_HOST if step.target.kind == "host" else READ_BACK_VM
        left: tuple[Item, ...] = ()
        for waited in _polling(limit, fastest=0.5):
            left = self._means.left(step.target)
            if not left:
                return
            say(f"not yet as planned, {waited:.0f} s")
        raise NotVerified(
            f"{step.target.name} was changed, but reading back shows: {describe_left(left)}",
            "nothing further was done to it; plan again to see what is left",
        )


def describe_left(items: tuple[Item, ...]) -> str:
    """Say in one line what reading back found different from the plan."""
    lines = [f"{i.kind} {f.name} is {shown(f.before)}, wanted {shown(f.after)}" for i in items for f in i.fields]
    return "; ".join(lines) or "a state that has to be made again"


def config_spec(step: Reconfigure, version: str | None) -> dict[str, Any]:
    """Build the one ConfigSpec of a VM. `version` guards against a change between reading and sending."""
    spec: dict[str, Any] = {"_typeName": "VirtualMachineConfigSpec", **step.spec}
    if version:
        spec["changeVersion"] = version
    if step.device_changes:
        spec["deviceChange"] = step.device_changes
    if step.extra_config:
        spec["extraConfig"] = tuple({"_typeName": "OptionValue", "key": k, "value": v} for k, v in step.extra_config)
    return spec


def _repeatable(step: Step) -> bool:
    """Tell whether sending a step again cannot do it twice: states are set again, a reconfigure has its version."""
    if isinstance(step, Lifecycle):
        return step.action != "reboot"
    # nvidia-smi's verbs that make and destroy instances are no states; setting the mode is one
    return not isinstance(step, Shell) or "-mig" in step.argv


def _same_device(present: Mapping[str, Any] | None, change: Mapping[str, Any]) -> bool:
    """Compare what identifies a device; an edit changes other fields, and the server fills in more of its own."""
    return present is not None and _identity(present) == _identity(change["device"])


def _identity(device: Mapping[str, Any]) -> tuple[Any, ...]:
    backing = device.get("backing") or {}
    port = backing.get("port") or {}
    return (
        device.get("_typeName"),
        device.get("macAddress"),
        backing.get("_typeName"),
        backing.get("vgpu"),
        port.get("portgroupKey"),
    )


def _polling(limit: float, *, fastest: float) -> Iterator[float]:
    """Yield the seconds waited, at least once, in growing pauses of at most 10 s, until `limit` has passed."""
    started, pause = time.monotonic(), fastest
    while True:
        yield time.monotonic() - started
        if time.monotonic() - started + pause > limit:
            return
        time.sleep(pause)
        pause = min(10.0, pause * 1.3)
