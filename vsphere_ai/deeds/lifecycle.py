"""What changes a host's or VM's life: maintenance mode, SSH, reboots, power."""

from __future__ import annotations

from collections.abc import Callable

from vsphere_ai.deeds.means import COMMAND_TIMEOUT, Means, Say, polling
from vsphere_ai.deeds.withdrawal import enter_unless_stopped
from vsphere_ai.errors import Conflict, GuestStillRuns, HostUnhealthy, OutcomeUnknown, StepFailed
from vsphere_ai.state import Target
from vsphere_ai.steps import Lifecycle
from vsphere_ai.windows import SSH_SERVICE

# ESXi refuses this outside maintenance mode, which the plain `reboot` does not; 10 s is its smallest delay.
REBOOT = ("esxcli", "system", "shutdown", "reboot", "--delay=10", "--reason=vsphere-ai")


class Lifecycles:
    """Each does nothing when the target is as wanted already."""

    def __init__(self, means: Means, unanswered: Callable[[Target], None]) -> None:
        """Keep the means. `unanswered` is told of a host whose order to reboot was sent and may not have arrived."""
        self._means, self._unanswered = means, unanswered
        self._told_to_shut_down: set[str] = set()

    def was_told_to_shut_down(self, vm: Target) -> bool:
        """Tell whether the guest of a VM may have been told to shut down, and may do so yet."""
        return vm.ref in self._told_to_shut_down

    def do(self, step: Lifecycle, say: Say) -> None:
        """Do one step; returns when vCenter or the host has accepted or finished it."""
        match step.action:
            case "enter-maintenance" if self._means.in_maintenance(step.target):
                return
            case "exit-maintenance" if not self._means.in_maintenance(step.target):
                return
            case "enter-maintenance":
                self._enter_maintenance(step, say)
            case "exit-maintenance":
                timeout = int(step.options["timeout"])
                self._means.task(step.target, "ExitMaintenanceMode_Task", {"timeout": timeout}, say, timeout + 60)
            case "reboot":
                self._reboot(step)
            case "start-ssh" | "stop-ssh":
                self.switch_ssh(step.target, running=step.action == "start-ssh")
            case "power-off":
                self._power_off(step, say)
            case "power-on":
                self.power_on(step.target, say)

    def refuse_taken(self, host: Target) -> None:
        """Raise `HostUnhealthy` when a host is in maintenance mode already: then it is not ours to bring out of it."""
        if self._means.in_maintenance(host):
            raise HostUnhealthy(
                f"{host.name} is in maintenance mode since this was planned, and not because of this run",
                "it was left so; find out who works on it, then plan again",
            )

    def _enter_maintenance(self, step: Lifecycle, say: Say) -> None:
        timeout = int(step.options["timeout"])
        args = {"timeout": timeout, "evacuatePoweredOffVms": False}

        def enter() -> None:
            self._means.task(step.target, "EnterMaintenanceMode_Task", args, say, timeout + 60)

        enter_unless_stopped(self._means, step.target, enter, say)

    def ssh_runs(self, host: Target) -> bool:
        """Read whether TSM-SSH runs; `StepFailed` when the host has no such service."""
        services = self._means.read(host, "config.service.service").get("config.service.service", ())
        now = next((s for s in services if s["key"] == SSH_SERVICE), None)
        if now is None:
            raise StepFailed(f"{host.name} has no service {SSH_SERVICE}", "check the host in the vSphere Client")
        return bool(now["running"])

    def switch_ssh(self, host: Target, *, running: bool) -> None:
        """Start or stop TSM-SSH; its policy stays as it is. Nothing is sent when it is as wanted already."""
        if self.ssh_runs(host) != running:
            system = self._means.vcenter.resolve_path(host.ref, "configManager.serviceSystem")
            self._means.vcenter.call(system, "StartService" if running else "StopService", {"id": SSH_SERVICE})

    def _reboot(self, step: Lifecycle) -> None:
        facts = self._means.read(step.target, "runtime.inMaintenanceMode")
        if not facts.get("runtime.inMaintenanceMode"):
            raise Conflict(f"{step.target.name} is not in maintenance mode any more; it is not rebooted", "plan again")
        try:
            if step.options["via"] == "api":
                self._means.note.sending(step.target)
                self._means.vcenter.run_task(step.target.ref, "RebootHost_Task", {"force": False}, timeout=300)
                return
            with self._means.shell(step.target) as shell:
                shell.open()  # so that the note and the command are as close together as can be
                self._means.note.sending(step.target)
                answer = shell.run(REBOOT, COMMAND_TIMEOUT, changes=True)
        except OutcomeUnknown:
            self._unanswered(step.target)
            return  # the host takes the connection down with it; the newer boot time will tell
        if answer.status != 0:
            raise StepFailed(f"{step.target.name} refused to reboot: {(answer.stdout + answer.stderr).strip()}")

    def _power_off(self, step: Lifecycle, say: Say) -> None:
        target, force = step.target, bool(step.options["force"])
        facts = self._means.read(target, "runtime.powerState", "guest.toolsRunningStatus")
        if facts.get("runtime.powerState") == "poweredOff":
            return
        if facts.get("guest.toolsRunningStatus") == "guestToolsRunning":
            self._means.note.sending(target)
            self._told_to_shut_down.add(target.ref)
            self._means.vcenter.call(target.ref, "ShutdownGuest")
            for waited in polling(float(step.options["shutdown_timeout"]), fastest=0.2):
                if self._means.read(target, "runtime.powerState").get("runtime.powerState") == "poweredOff":
                    return
                say(f"guest is shutting down, {waited:.0f} s")
        if not force:
            error = GuestStillRuns if facts.get("guest.toolsRunningStatus") == "guestToolsRunning" else StepFailed
            raise error(
                f"{target.name} did not shut down in {step.options['shutdown_timeout']} s",
                "shut the guest down by hand, or write power: {force: true}",
            )
        self._means.task(target, "PowerOffVM_Task", {}, say)

    def runs(self, vm: Target) -> bool:
        """Read whether a VM is on."""
        return bool(self._means.read(vm, "runtime.powerState").get("runtime.powerState") == "poweredOn")

    def power_on(self, vm: Target, say: Say) -> None:
        """Power a VM on, on the host it was on: elsewhere the hardware may not be prepared yet."""
        if self.runs(vm):
            return
        host = self._means.read(vm, "runtime.host").get("runtime.host")
        self._means.task(vm, "PowerOnVM_Task", {"host": host} if host else {}, say)
        if not self.runs(vm):
            raise StepFailed(f"{vm.name} was powered on, and is off again", "look at its events in the vSphere Client")
