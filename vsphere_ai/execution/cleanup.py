"""Cleanup at the end of a run: temporary changes are reverted, and what stays open is named.

A host whose maintenance failed before a reboot was sent leaves maintenance mode, and its VMs are powered on again:
nothing there needs the maintenance any more (docs/decisions/0016-a-window-that-fails-early.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial

from vsphere_ai.errors import GuestStillRuns, Storage, VimFault, VsphereAiError
from vsphere_ai.execution.actions.context import UNCERTAIN, Withdrawn
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.execution.put_back import PutBack
from vsphere_ai.execution.run_state import RunState
from vsphere_ai.model.records.pending import Pending, Record, closed_by
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import ExitMaintenance, Healthy, Reconfigure, Step
from vsphere_ai.planning.outcome import Outcome, RunEvent


class Cleanup:
    """Resolves the pending actions of a run. `emit` takes events."""

    def __init__(
        self, executor: StepExecutor, record: Record, state: RunState, emit: Callable[[RunEvent], None]
    ) -> None:
        self._executor, self._record, self._state, self._emit = executor, record, state, emit
        self.put_back: list[str] = []
        """What was reverted, in sentences."""

    def run(self) -> tuple[str, ...]:
        """Revert what can be reverted; return what stays open, in sentences for the operator."""
        state, left = self._state, [*self._return_moved()]
        for host in state.not_rebooted():
            self._not_rebooted(host)
        for host in state.pending("ssh"):
            stop = partial(self._executor.switch_ssh, host, running=False)
            if not self._tried(f"stop SSH on {host.name}", stop, Pending("ssh", host)):
                left.append(f"SSH is still running on {host.name}; it was stopped before")
        reboots = state.pending("reboot")
        for host in state.pending("ssh-on"):
            start = partial(self._executor.switch_ssh, host, running=True)
            if host in reboots:  # it cannot be asked, or may go down yet
                left.append(
                    f"SSH was running on {host.name}; a reboot stops it, until vsphere-ai resume starts it again"
                )
            elif not self._tried(f"start SSH on {host.name}", start, Pending("ssh-on", host)):
                left.append(f"SSH is stopped on {host.name}; it was running before")
        for paused in (p for p in self._record.pending() if p.kind == "service"):
            start = partial(self._executor.start_service, paused.target, paused.detail)
            if not self._tried(f"start {paused.detail} on {paused.target.name}", start, paused):
                left.append(f"{paused.detail} is stopped on {paused.target.name}; it was running before")
        hosts = state.pending("maintenance")
        early = [host for host in hosts if state.may_leave_maintenance(host, self._executor.was_refused)]
        back = [host for host in early if self._leaves(host)]
        out_of_service = [host for host in hosts if host not in back]
        off = self._power_on(out_of_service)
        left += off.values()
        for host in state.pending("restart"):
            left.append(f"{host.name}: what was changed there counts from its next restart on")
        for host in out_of_service:
            left.append(
                f"{host.name} is still in maintenance mode; leave it in the vSphere Client once it is healthy, "
                f"or with govc host.maintenance.exit {host.name}"
            )
        for host in back:
            self._gate(host, off)
        return tuple(left)

    def _return_moved(self) -> Iterator[str]:
        """Bring VMs back that the run has moved to other hosts; yield a sentence for each that stays elsewhere."""

        def report(step: Step, error: VsphereAiError | None) -> None:
            text = f"{step.target.name}: {step.summary}"
            if error is None:
                self._state.change([Pending(kind, step.target) for kind in step.opens], closed_by(step))
                self.put_back.append(text)
                self._emit(RunEvent("reverted", text=text, rule="cleanup.moved"))
            else:
                self._emit(RunEvent("failed", text=f"{text}: {error.message}", rule="cleanup.moved"))

        back = PutBack(self._executor, self._record, report)
        back.run()
        for vm in sorted(back.failed):
            yield f"{vm.name} is not on its host as before: {back.failed[vm]}"

    def _not_rebooted(self, host: Target) -> None:
        """Close what is pending for the time after a reboot that did not take place."""
        closed = Pending("reboot", host), Pending("ssh-on", host)
        self._state.change(closes=closed)
        with suppress(Storage):  # resume looks at the host again
            self._record.rebooted(host, did=False)
            self._record.resolve(*closed)

    def _leaves(self, host: Target) -> bool:
        """Take a host out of maintenance mode, where it still shows all its GPUs."""
        step = self._state.step_of(host, ExitMaintenance)
        if step is None:
            return False

        def leave() -> None:
            self._executor.before(step)
            self._executor.do(step, _silent)

        why = "it did not reboot" if host in self._state.not_rebooted() else "no reboot was sent"
        what = f"leave maintenance mode on {host.name}: {why}, nothing there needs it"
        return self._tried(what, leave, Pending("maintenance", host))

    def _gate(self, host: Target, off: Collection[Target]) -> None:
        """Check whether a host that left maintenance mode is as before; not with a VM that could not be powered on."""
        gate = self._state.step_of(host, Healthy)
        if gate is None or any(self._executor.host_of(vm) == host.ref for vm in off):
            return
        step, _ = self._state.without_external(gate)
        self._tried(f"{host.name} is healthy", lambda: self._executor.do(step, _silent), Pending("gate", host))

    def _power_on(self, out_of_service: Collection[Target]) -> dict[Target, str]:
        """Power on what this run powered off; return the VMs that stay off, or may go off yet, each with a sentence."""
        left = {}
        down = {host.ref for host in out_of_service}
        slow = {o.planned.step.target for o in self._state.outcomes.values() if isinstance(o.error, GuestStillRuns)}
        for vm in sorted({*self._state.pending("off"), *slow}):
            start = partial(self._executor.power_on, vm, _silent)
            may = not self._state.is_uncertain(vm) and self._executor.host_of(vm) not in down
            if vm in slow and self._may_run(vm):
                left[vm] = f"{vm.name} was asked to shut down and may do so yet: then vsphere-ai resume powers it on"
            elif not (may and self._powered_on(vm, start)):
                left[vm] = f"{vm.name} is powered off; it was running before"
        return left

    def _powered_on(self, vm: Target, start: Callable[[], None]) -> bool:
        """Power a VM on: as it was, or with the devices that it was to have, where its host has changed beside it.

        A host that has left MIG mode has no instance for a VM whose reconfiguration was refused, while the next VM
        there has its new profile already: only forward can both run.
        """
        power_on = partial(self._tried, f"power on {vm.name}", start, Pending("off", vm))
        if power_on():
            return True
        refused = next((o for o in self._state.outcomes_of(vm) if _was_refused_devices(o)), None)
        if refused is None:
            return False
        step = refused.planned.step
        what = f"{vm.name}: {step.summary}"
        try:
            self._executor.before(step)
            self._executor.do(step, _silent)
        except VsphereAiError as error:
            self._emit(RunEvent("failed", text=f"{what}: {error.message}", rule="cleanup.devices"))
            return False
        self.put_back.append(what)
        self._emit(RunEvent("reverted", text=what, rule="cleanup.devices"))
        return power_on()

    def _may_run(self, vm: Target) -> bool:
        try:
            return self._executor.runs(vm)
        except VsphereAiError:
            return True

    def _tried(self, what: str, act: Callable[[], None], pending: Pending) -> bool:
        try:
            act()
        except Withdrawn:  # a health gate, which resume looks at again
            return False
        except VsphereAiError as error:
            self._emit(RunEvent("failed", text=f"{what}: {error.message}", rule=f"cleanup.{pending.kind}"))
            return False
        if pending.kind != "gate":
            self.put_back.append(what)
        try:
            self._record.resolve(pending)
        except Storage as error:  # resume finds it as it was before, and resolves it then
            self._emit(RunEvent("failed", text=f"{what}: done, but not written down: {error.message}", rule="journal"))
            return True
        self._emit(RunEvent("reverted", text=what, rule=f"cleanup.{pending.kind}"))
        return True


def _was_refused_devices(outcome: Outcome) -> bool:
    """Return whether vCenter refused to reconfigure a VM, which then is as it was: its fault shows that."""
    error = outcome.error
    refused = outcome.state == "failed" and isinstance(error, VimFault) and error.fault not in UNCERTAIN
    return refused and isinstance(outcome.planned.step, Reconfigure)


def _silent(_: str) -> None:
    return
