"""SSH service of an ESXi host (TSM-SSH): its state, started and stopped through vCenter, and restored afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.errors import Denied, OutcomeUnknown, StepFailed, Unreachable, VimFault, VsphereAiError
from vsphere_ai.model.estate.lockdown import EXCEPTIONS_FACT, MODE, is_locked
from vsphere_ai.model.facts import Facts, ProbeFailure
from vsphere_ai.model.plain import PlainObject, objects

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter

SSH = "TSM-SSH"
SERVICES = "config.service.service"
PATHS = (MODE, SERVICES, "configManager.serviceSystem", "runtime.connectionState")
"""What has to be read of a host before SSH is used on it."""


def _ssh(host: Facts) -> PlainObject | None:
    return next((s for s in objects(host.get(SERVICES)) if s.get("key") == SSH), None)


def is_running(host: Facts) -> bool | None:
    """Return whether the SSH service runs; None when the host does not say."""
    ssh = _ssh(host)
    return bool(ssh.get("running")) if ssh else None


def policy_on(host: Facts) -> bool:
    """Return whether the SSH service starts with the host."""
    ssh = _ssh(host)
    return ssh is not None and ssh.get("policy") == "on"


def locked_out(host: Facts, user: str) -> ProbeFailure | None:
    """Return why lockdown mode keeps a user from logging in over SSH; None when it does not.

    In either mode exception users with the administrator role on the host are let in (vSphere Security, Lockdown Mode);
    whether the user has that role, the login shows. Without the answer to `exceptions` every user counts as locked out.
    """
    if not is_locked(host):
        return None
    locked, asked = f"{host.name} is in lockdown mode ({host.get(MODE)})", EXCEPTIONS_FACT
    if asked in host.unreadable:
        why = f"{locked}, and its exception users cannot be read: {host.unreadable[asked]}"
        help = "Give the account Global.Settings, or take the host out of lockdown mode."
    elif user.casefold() in (str(name).casefold() for name in host.get(asked) or ()):
        return None
    else:
        why = f"{locked}, and {user} is none of its exception users"
        help = f"Add {user} to its exception users, or take it out of lockdown mode in a run of its own."
    return ProbeFailure("ssh.lockdown", why, help)


def obstacle(host: Facts, user: str, *, may_start: bool) -> ProbeFailure | None:
    """Return why a user cannot run commands on a host, from what vCenter says about it; None when they can."""
    connection = host.get("runtime.connectionState", "connected")
    if connection != "connected":
        return ProbeFailure(
            "ssh.unreachable", f"{host.name} is {connection} in vCenter", "Bring the host back, then try again."
        )
    locked = locked_out(host, user)
    if locked is not None:
        return locked
    if is_running(host) is False and not may_start:
        return ProbeFailure(
            "ssh.stopped",
            f"the SSH service ({SSH}) of {host.name} is stopped",
            "Add --start-ssh, or start it in the vSphere Client under Configure > Services, or let the inventory allow "
            "it: ssh: {start_service: always}.",
        )
    return None


Note = Callable[[str], contextlib.AbstractContextManager[None]]
"""Remembers the host (by reference) whose service is about to be started, until it was stopped again."""


@contextlib.contextmanager
def running(vcenter: VCenter, host: Facts, note: Note) -> Iterator[bool]:
    """Have the SSH service run for a while; yields whether it had to be started, and then stops it again."""
    if is_running(host) is not False:
        yield False
        return
    system = host.get("configManager.serviceSystem") or vcenter.resolve_path(host.ref, "configManager.serviceSystem")
    failure: BaseException | None = None
    with note(host.ref):  # what passes through leaves the note: SSH may run because of us
        try:
            _switch(vcenter, host, system, running=True)
        except Denied as error:  # the operator knows the host, not its service system
            failure = Denied(error.message.replace(str(system), host.name), error.remedy)
        except (VimFault, Unreachable) as error:
            failure = error
        else:
            try:
                yield True
            except BaseException as error:  # it goes on below, once SSH is stopped
                failure = error
            _stop(vcenter, host, system)
    if failure is not None:
        raise failure


def stopped(vcenter: VCenter, host: Facts) -> Facts | None:
    """Stop the SSH service of a host where it still runs; return its facts. None while the host is not connected."""
    if host.get("runtime.connectionState", "connected") != "connected":
        return None
    if not is_running(host):
        return host
    _stop(vcenter, host, vcenter.resolve_path(host.ref, "configManager.serviceSystem"))
    now = _services(vcenter, host)
    return replace(host, properties={**host.properties, **now.properties}) if now else host


def as_stopped(host: Facts) -> Facts:
    """Return the facts of a host as if its SSH service were stopped."""
    shown = tuple({**s, "running": False} if s.get("key") == SSH else s for s in objects(host.get(SERVICES)))
    return replace(host, properties={**host.properties, SERVICES: shown})


def _services(vcenter: VCenter, host: Facts) -> Facts | None:
    return vcenter.read_objects([host.ref], {"HostSystem": (SERVICES,)}).get(host.ref)


class LeftRunning(StepFailed):
    """The SSH service was started here and could not be stopped again."""


def _stop(vcenter: VCenter, host: Facts, system: str) -> None:
    try:
        _switch(vcenter, host, system, running=False)
    except VsphereAiError as error:
        raise LeftRunning(
            f"{host.name}: the SSH service was started and could not be stopped again: {error.message}",
            f"Stop {SSH} in the vSphere Client under Configure > Services.",
        ) from error


def _switch(vcenter: VCenter, host: Facts, system: str, *, running: bool) -> None:
    """Start or stop the service. Where the answer is lost, look; a call that had no effect is sent once more."""
    method = "StartService" if running else "StopService"
    try:
        vcenter.call(system, method, {"id": SSH})
    except OutcomeUnknown as lost:
        try:
            now = _services(vcenter, host)
        except VsphereAiError:
            raise lost from None
        if now is None or is_running(now) is not running:
            vcenter.call(system, method, {"id": SSH})
