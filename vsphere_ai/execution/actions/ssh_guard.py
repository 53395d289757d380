"""Guard of SSH access: during a run the SSH service of a host may stop, or lockdown mode begin."""

from __future__ import annotations

import threading
from collections.abc import Callable

from vsphere_ai.connect import service
from vsphere_ai.errors import Denied, Unreachable
from vsphere_ai.execution.actions.context import Context, polling
from vsphere_ai.model.estate import lockdown
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import AsPlanned, GpusAnswer, Reboot, Shell, StartSsh, Step, StopSsh

STARTS_WITHIN = 30.0
"""Seconds a service that starts with its host may take to, once the host is connected."""
PATHS = ("config.lockdownMode", "config.service.service")


class ShellGuard:
    """Looks before every step that needs a shell, so that no login is spent on a host that refuses them all.

    ESXi stops its SSH service by itself after UserVars.ESXiShellTimeOut seconds. One that this run has started is
    started again, once; one that was running before is started by its user.
    """

    def __init__(self, context: Context, start: Callable[[Target], None]) -> None:
        self._context, self._start = context, start
        self._lock = threading.Lock()
        self._ours: set[str] = set()
        self._again: set[str] = set()
        self._spoken: set[str] = set()

    def before(self, step: Step) -> None:
        """Start the SSH service again where that is ours to do; `Denied` or `Unreachable` where nothing gets in."""
        ref = step.target.ref
        match step:
            case StartSsh():
                self._ours.add(ref)
                return
            case StopSsh():
                self._ours.discard(ref)
                return
            case Shell() | GpusAnswer():
                self._spoken.add(ref)
            case Reboot(via="ssh"):
                pass
            case AsPlanned():
                if ref not in self._spoken | self._ours:
                    return  # it is read back through vCenter alone
            case _:
                return
        self._look(step.target)

    def _is_excepted(self, host: Target) -> bool:
        manager = self._context.vcenter.resolve_path(host.ref, lockdown.ACCESS_MANAGER)
        users = self._context.vcenter.call(manager, lockdown.EXCEPTIONS_METHOD)
        known = users if isinstance(users, list | tuple) else ()
        return self._context.ssh_user.casefold() in (str(user).casefold() for user in known)

    def _starts_by_itself(self, host: Target, facts: Facts) -> bool:
        """Wait a moment for the service of a host that has just booted, where it starts with the host."""
        if host.ref in self._ours or not service.policy_on(facts):
            return False
        for _ in polling(STARTS_WITHIN, fastest=0.2, slowest=2.0):
            if service.is_running(self._context.read(host, *PATHS)) is not False:
                return True
        return False

    def _look(self, host: Target) -> None:
        facts = self._context.read(host, *PATHS)
        if lockdown.is_locked(facts) and not self._is_excepted(host):
            raise Denied(
                f"{host.name} is in lockdown mode ({facts.get('config.lockdownMode')}) since this was planned; "
                "no command was sent to it",
                "take the host out of lockdown mode, or make the SSH account an exception user, then resume",
                rule="ssh.lockdown",
            )
        if service.is_running(facts) is not False or self._starts_by_itself(host, facts):
            return
        what = f"the SSH service ({service.SSH}) of {host.name}"
        if host.ref not in self._ours:
            raise Unreachable(
                f"{what} was stopped since this was planned, and not by this run; no command was sent to it",
                "find out who stopped it (UserVars.ESXiShellTimeOut does it after a time), start it, then resume",
                rule="ssh.stopped",
            )
        with self._lock:
            if host.ref in self._again:
                raise Unreachable(
                    f"{what} was stopped again after this run had started it twice",
                    "find out what stops it (see UserVars.ESXiShellTimeOut), then resume",
                    rule="ssh.stopped-again",
                )
            self._again.add(host.ref)
        self._context.notice(f"{what} was stopped during the run; starting it again")
        self._start(host)
