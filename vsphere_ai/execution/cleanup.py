"""The end of a run: what was changed for the time of the run only is put back, and the rest is named.

A host whose window failed before a reboot was sent leaves maintenance mode, and its VMs are powered on again: nothing
there needs the window any more (docs/decisions/0016-a-window-that-fails-early.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial

from vsphere_ai.errors import GuestStillRuns, Storage, VsphereAiError
from vsphere_ai.execution.actions.executor import Executor
from vsphere_ai.execution.external_changes import ExternalChanges
from vsphere_ai.execution.outcome import Event
from vsphere_ai.execution.run_end import Ended, is_action
from vsphere_ai.model.pending import Pending, Record
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Wait


class Cleanup:
    """Puts back what a run changed for its own time. `say` shows an event."""

    def __init__(
        self, executor: Executor, record: Record, external: ExternalChanges, say: Callable[[Event], None]
    ) -> None:
        self._executor, self._record, self._external, self._say = executor, record, external, say
        self.put_back: list[str] = []
        """What was put back, in sentences."""

    def settle(self, ended: Ended) -> tuple[str, ...]:
        """Put back what can be put back; return what stays open, with the words an operator needs."""
        owed, left = ended.owed, []
        for host in sorted(ended.not_rebooted()):
            self._never_rebooted(ended, host)
        for host in sorted(owed["ssh"]):
            stop = partial(self._executor.switch_ssh, host, running=False)
            if not self._tried(f"stop SSH on {host.name}", stop, Pending("ssh", host)):
                left.append(f"SSH is still running on {host.name}; it was stopped before")
        for host in sorted(owed["ssh-on"]):
            start = partial(self._executor.switch_ssh, host, running=True)
            if host in owed["reboot"]:  # it cannot be asked, or may go down yet
                left.append(
                    f"SSH was running on {host.name}; a reboot stops it, until vsphere-ai resume starts it again"
                )
            elif not self._tried(f"start SSH on {host.name}", start, Pending("ssh-on", host)):
                left.append(f"SSH is stopped on {host.name}; it was running before")
        early = [
            host for host in sorted(owed["maintenance"]) if ended.needs_no_window(host, self._executor.was_refused)
        ]
        back = [host for host in early if self._leaves(ended, host)]
        out_of_service = owed["maintenance"] - set(back)
        off = self._power_on(ended, out_of_service)
        left += off.values()
        for host in sorted(owed["restart"]):
            left.append(f"{host.name}: what was changed there counts from its next restart on")
        for host in sorted(out_of_service):
            left.append(
                f"{host.name} is still in maintenance mode; leave it in the vSphere Client once it is healthy, "
                f"or with govc host.maintenance.exit {host.name}"
            )
        for host in back:
            self._gate(ended, host, off)
        return tuple(left)

    def _never_rebooted(self, ended: Ended, host: Target) -> None:
        """Forget what is owed for the time after a reboot that did not come about."""
        for kind in ("reboot", "ssh-on"):
            ended.owed[kind].discard(host)
        with suppress(Storage):  # whoever resumes the run looks at the host again
            self._record.rebooted(host, did=False)
            self._record.resolve(Pending("reboot", host), Pending("ssh-on", host))

    def _leaves(self, ended: Ended, host: Target) -> bool:
        """Take a host out of maintenance mode, where it still shows all its GPUs."""
        step = ended.step_of(host, lambda s: is_action(s, "exit-maintenance"))
        if step is None:
            return False

        def leave() -> None:
            self._executor.before(step)
            self._executor.do(step, _silent)

        why = "it did not reboot" if host in ended.not_rebooted() else "no reboot was sent"
        what = f"leave maintenance mode on {host.name}: {why}, nothing there needs it"
        return self._tried(what, leave, Pending("maintenance", host))

    def _gate(self, ended: Ended, host: Target, off: Mapping[Target, str]) -> None:
        """Look whether a host that left maintenance mode is as before its turn; not with a VM that could not go on."""
        gate = ended.step_of(host, lambda s: isinstance(s, Wait) and s.until == "healthy")
        if gate is None or any(self._executor.host_of(vm) == host.ref for vm in off):
            return
        step, _ = self._external.without(gate)
        self._tried(f"{host.name} is healthy", lambda: self._executor.do(step, _silent), Pending("gate", host))

    def _power_on(self, ended: Ended, out_of_service: Collection[Target]) -> dict[Target, str]:
        """Power on what this run switched off; return the VMs that stay off, or may go off yet, each with the words."""
        left = {}
        down = {host.ref for host in out_of_service}
        slow = {o.planned.step.target for o in ended.outcomes.values() if isinstance(o.error, GuestStillRuns)}
        for vm in sorted(ended.owed["off"] | slow):
            start = partial(self._executor.power_on, vm, _silent)
            may = not ended.is_doubtful(vm) and self._executor.host_of(vm) not in down
            if vm in slow and self._may_run(vm):
                left[vm] = f"{vm.name} was told to shut down, and may do so yet: then vsphere-ai resume powers it on"
            elif not (may and self._tried(f"power on {vm.name}", start, Pending("off", vm))):
                left[vm] = f"{vm.name} is powered off; it was running before"
        return left

    def _may_run(self, vm: Target) -> bool:
        try:
            return self._executor.runs(vm)
        except VsphereAiError:
            return True

    def _tried(self, what: str, act: Callable[[], None], pending: Pending) -> bool:
        try:
            act()
        except VsphereAiError as error:
            self._say(Event("failed", text=f"{what}: {error.message}", rule=f"cleanup.{pending.kind}"))
            return False
        if pending.kind != "gate":
            self.put_back.append(what)
        try:
            self._record.resolve(pending)
        except Storage as error:  # whoever resumes the run finds it as it was before, and settles it then
            self._say(Event("failed", text=f"{what}: done, but not written down: {error.message}", rule="journal"))
            return True
        self._say(Event("settled", text=what, rule=f"cleanup.{pending.kind}"))
        return True


def _silent(_: str) -> None:
    return
