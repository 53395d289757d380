"""Lifecycle actions of hosts and VMs: maintenance mode, SSH, reboots, power, vMotion."""

from __future__ import annotations

from vsphere_ai.errors import Conflict, Denied, GuestStillRuns, HostUnhealthy, OutcomeUnknown, StepFailed, VimFault
from vsphere_ai.execution.actions.cancel import arrives_all_the_same, enter_unless_stopped, recent_tasks
from vsphere_ai.execution.actions.context import COMMAND_TIMEOUT, UNCERTAIN, Context, Say, polling
from vsphere_ai.execution.actions.sent import Sent
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import (
    EnterMaintenance,
    ExitMaintenance,
    Lifecycle,
    Migrate,
    PowerOff,
    PowerOn,
    Reboot,
    StartSsh,
    StopSsh,
)
from vsphere_ai.model.vm_sets import is_planned_ref
from vsphere_ai.planning.scheduling.windows import SSH_SERVICE
from vsphere_ai.security.redaction import untrusted

STAYING = ("VirtualPCIPassthrough", "VirtualSriovEthernetCard")
"""Devices with which DRS may leave a VM where it is."""
# ESXi refuses this outside maintenance mode, which the plain `reboot` does not; 10 s is its smallest delay.
REBOOT = ("esxcli", "system", "shutdown", "reboot", "--delay=10", "--reason=vsphere-ai")


class Lifecycles:
    """Each does nothing when the target is in the desired state already."""

    def __init__(self, context: Context, sent: Sent) -> None:
        self._context, self._sent = context, sent

    def do(self, step: Lifecycle, say: Say) -> None:
        """Do one step; returns when vCenter or the host has accepted or finished it."""
        match step:
            case EnterMaintenance() if self._context.in_maintenance(step.target):
                return
            case ExitMaintenance() if not self._context.in_maintenance(step.target):
                return
            case EnterMaintenance():
                self._enter_maintenance(step, say)
            case ExitMaintenance(timeout=timeout):
                self._context.task(step.target, "ExitMaintenanceMode_Task", {"timeout": timeout}, say, timeout + 60)
            case Reboot():
                self._reboot(step)
            case StartSsh() | StopSsh():
                self.switch_ssh(step.target, running=isinstance(step, StartSsh))
            case PowerOff():
                self._power_off(step, say)
            case PowerOn():
                self.power_on(step.target, say)
            case Migrate():
                self._migrate(step, say)

    def refuse_taken(self, host: Target) -> None:
        """Raise `HostUnhealthy` when a host is in maintenance mode already: then it is not ours to bring out of it."""
        if self._context.in_maintenance(host):
            raise HostUnhealthy(
                f"{host.name} was put into maintenance mode by someone else after planning",
                "it was not changed; ask the user who works on it, then plan again",
                rule="host.in-maintenance",
            )

    def _migrate(self, step: Migrate, say: Say) -> None:
        """Move a running VM off its host; one that has left it since planning, or is off, is not changed."""
        vm = step.target
        now = self._context.read(vm, "runtime.host", "runtime.powerState")
        if now.get("runtime.host") != step.source or now.get("runtime.powerState") != "poweredOn":
            return
        args = {"host": step.to, "priority": "defaultPriority"}
        self._context.task(vm, "MigrateVM_Task", args, say, step.timeout)
        if self._context.read(vm, "runtime.host").get("runtime.host") == step.source:
            raise StepFailed(
                f"{vm.name} is still on the host it was to leave", "look at its tasks in the vSphere Client"
            )

    def _refuse_arrivals(self, host: Target) -> None:
        """Raise `Conflict` when a VM came to a host since planning that DRS may leave there."""
        refs = [str(ref) for ref in self._context.read(host, "vm").get("vm") or ()]
        paths = {"VirtualMachine": ("name", "runtime.powerState", "runtime.host", "config.hardware.device")}
        found = self._context.vcenter.read_objects(refs, paths) if refs else {}
        stay = [
            facts.name
            for facts in found.values()
            if facts.get("runtime.powerState") == "poweredOn"
            and facts.get("runtime.host") == host.ref
            and any(d.get("_typeName") in STAYING for d in facts.get("config.hardware.device", ()))
        ]
        if stay:
            raise Conflict(
                f"{', '.join(sorted(stay))} with a vGPU or passthrough device came to {host.name} since planning",
                "plan again: then it is placed on another host",
                rule="object.changed",
            )

    def _enter_maintenance(self, step: EnterMaintenance, say: Say) -> None:
        if step.evacuate == "vmotion":
            self._refuse_arrivals(step.target)
        timeout = step.timeout
        args = {"timeout": timeout, "evacuatePoweredOffVms": False}

        def enter() -> None:
            known = recent_tasks(self._context, step.target)
            try:
                self._context.task(step.target, "EnterMaintenanceMode_Task", args, say, timeout + 60)
            except VimFault:
                if not arrives_all_the_same(self._context, step.target, known, timeout):
                    raise

        enter_unless_stopped(self._context, step.target, enter, say)

    def ssh_runs(self, host: Target) -> bool:
        """Read whether TSM-SSH runs; `StepFailed` when the host has no such service."""
        return self._service_runs(host, SSH_SERVICE)

    def start_service(self, host: Target, key: str) -> None:
        """Start a service of a host; nothing is sent when it runs already."""
        if not self._service_runs(host, key):
            self._switch_service(host, key, running=True)

    def _service_runs(self, host: Target, key: str) -> bool:
        services = self._context.read(host, "config.service.service").get("config.service.service", ())
        now = next((s for s in services if s["key"] == key), None)
        if now is None:
            raise StepFailed(f"{host.name} has no service {key}", "check the host in the vSphere Client")
        return bool(now["running"])

    def _switch_service(self, host: Target, key: str, *, running: bool) -> None:
        system = self._context.vcenter.resolve_path(host.ref, "configManager.serviceSystem")
        self._context.vcenter.call(system, "StartService" if running else "StopService", {"id": key})

    def switch_ssh(self, host: Target, *, running: bool) -> None:
        """Start or stop TSM-SSH; its policy stays as it is. Nothing is sent when it is in the desired state already.

        `Denied` where it would have to be started and the inventory says never.
        """
        if self.ssh_runs(host) != running:
            if running and not self._context.start_ssh:
                raise Denied(
                    f"{SSH_SERVICE} of {host.name} is stopped, and the inventory says start_service: never",
                    "start it in the vSphere Client under Configure > Services, then resume",
                )
            if not running:
                self._context.leave(host)
            self._switch_service(host, SSH_SERVICE, running=running)

    def _reboot(self, step: Reboot) -> None:
        facts = self._context.read(step.target, "runtime.inMaintenanceMode")
        if not facts.get("runtime.inMaintenanceMode"):
            raise Conflict(
                f"{step.target.name} is not in maintenance mode any more; it is not rebooted",
                "plan again",
                rule="object.changed",
            )
        try:
            if step.via == "api":
                self._context.note.sending(step.target)
                self._sent.reboots.add(step.target.ref)
                self._context.vcenter.run_task(step.target.ref, "RebootHost_Task", {"force": False}, timeout=300)
                return
            with self._context.shell(step.target) as shell:
                shell.connect()  # so that the note and the command are as close together as can be
                self._context.note.sending(step.target)
                self._sent.reboots.add(step.target.ref)
                answer = shell.run(REBOOT, COMMAND_TIMEOUT, changes=True)
        except OutcomeUnknown:
            self._sent.unanswered.add(step.target.ref)
            return  # the host takes the connection down with it; the newer boot time will show it
        if answer.status != 0:
            said = untrusted(answer.stdout + answer.stderr).strip()
            raise StepFailed(
                f"{step.target.name} refused to reboot: {said}", "reboot it in the vSphere Client, then resume"
            )

    def _power_off(self, step: PowerOff, say: Say) -> None:
        target = step.target
        facts = self._context.read(target, "runtime.powerState", "guest.toolsRunningStatus", "runtime.host")
        if facts.get("runtime.powerState") == "poweredOff":
            return
        now = facts.get("runtime.host")
        if step.only_on and now and now != step.only_on:
            say(f"{target.name} has left its host since planning; it stays on")
            return
        if facts.get("guest.toolsRunningStatus") == "guestToolsRunning":
            self._context.note.sending(target)
            self._shut_down(target)
            for waited in polling(step.shutdown_timeout, fastest=0.1):
                if self._context.read(target, "runtime.powerState").get("runtime.powerState") == "poweredOff":
                    return
                say(f"guest is shutting down, {waited:.0f} s")
        if not step.force:
            error = GuestStillRuns if facts.get("guest.toolsRunningStatus") == "guestToolsRunning" else StepFailed
            raise error(
                f"{target.name} did not shut down in {step.shutdown_timeout} s",
                "shut the guest down by hand, or write power: {force: true}",
            )
        self._context.task(target, "PowerOffVM_Task", {}, say)

    def _shut_down(self, vm: Target) -> None:
        """Ask a guest to shut down; one whose request vCenter refuses is not about to."""
        before = vm.ref in self._sent.shutdowns
        self._sent.shutdowns.add(vm.ref)
        try:
            self._context.vcenter.call(vm.ref, "ShutdownGuest")
        except (VimFault, Denied) as refused:
            if not before and not (isinstance(refused, VimFault) and refused.fault in UNCERTAIN):
                self._sent.shutdowns.discard(vm.ref)
            raise

    def runs(self, vm: Target) -> bool:
        """Read whether a VM is on."""
        return bool(self._context.read(vm, "runtime.powerState").get("runtime.powerState") == "poweredOn")

    def power_on(self, vm: Target, say: Say) -> None:
        """Power a VM on, on the host it was on: elsewhere the hardware may not be prepared yet."""
        if self.runs(vm):
            return
        host = self._context.read(vm, "runtime.host").get("runtime.host")
        self._context.task(vm, "PowerOnVM_Task", {"host": host} if host else {}, say)
        if not self.runs(vm):
            raise StepFailed(f"{vm.name} was powered on, and is off again", "look at its events in the vSphere Client")
        if is_planned_ref(vm.ref):
            self._report_host(vm)

    def _report_host(self, vm: Target) -> None:
        """Say where a VM of a set runs, where that is not the host of the plan: it is not moved back."""
        planned = self._context.hosts.get(vm.ref)
        now = str(self._context.read(vm, "runtime.host").get("runtime.host") or "")
        if planned and now and now != planned:
            found = self._context.vcenter.read_objects([now, planned], {"HostSystem": ("name",)})
            there, wanted = (found[ref].name if ref in found else ref for ref in (now, planned))
            moved = f"{vm.name} runs on {there}, not on {wanted} as planned: DRS or another user moved it"
            self._context.notice(f"{moved}; it stays there, and the next plan counts it there")
