"""The SSH service of an ESXi host (TSM-SSH), seen and switched through vCenter, and left as it was found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.errors import Denied, StepFailed, Unreachable, VimFault, VsphereAiError
from vsphere_ai.facts import Facts, ProbeFailure

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter

SSH = "TSM-SSH"
PATHS = ("config.lockdownMode", "config.service.service", "configManager.serviceSystem", "runtime.connectionState")
"""What has to be read of a host before anybody uses SSH on it."""


def is_running(host: Facts) -> bool | None:
    """Tell whether the SSH service runs; None when the host does not say."""
    for service in host.get("config.service.service", ()):
        if service.get("key") == SSH:
            return bool(service.get("running"))
    return None


def obstacle(host: Facts, *, may_start: bool) -> ProbeFailure | None:
    """Return why commands cannot be run on a host, from what vCenter says about it; None when they can."""
    connection = host.get("runtime.connectionState", "connected")
    if connection != "connected":
        return ProbeFailure(
            "ssh.unreachable", f"{host.name} is {connection} in vCenter", "Bring the host back, then try again."
        )
    lockdown = host.get("config.lockdownMode", "lockdownDisabled")
    if lockdown != "lockdownDisabled":
        return ProbeFailure(
            "ssh.lockdown",
            f"{host.name} is in lockdown mode ({lockdown})",
            "Take the host out of lockdown mode; it is never changed here.",
        )
    if is_running(host) is False and not may_start:
        return ProbeFailure(
            "ssh.stopped",
            f"the SSH service ({SSH}) of {host.name} is stopped",
            "Start it in the vSphere Client under Configure > Services, or let the inventory allow it: "
            "ssh: {start_service: always}.",
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
            vcenter.call(system, "StartService", {"id": SSH})
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
    """Stop the SSH service of a host that somebody left running; return its facts. None while it is not connected."""
    if host.get("runtime.connectionState", "connected") != "connected":
        return None
    if not is_running(host):
        return host
    _stop(vcenter, host, vcenter.resolve_path(host.ref, "configManager.serviceSystem"))
    now = vcenter.read_objects([host.ref], {"HostSystem": ("config.service.service",)}).get(host.ref)
    return replace(host, properties={**host.properties, **now.properties}) if now else host


def as_stopped(host: Facts) -> Facts:
    """Return the facts of a host as if its SSH service were stopped."""
    services = host.get("config.service.service", ())
    shown = tuple({**s, "running": False} if s.get("key") == SSH else s for s in services)
    return replace(host, properties={**host.properties, "config.service.service": shown})


class LeftRunning(StepFailed):
    """The SSH service was started here and could not be stopped again."""


def _stop(vcenter: VCenter, host: Facts, system: str) -> None:
    try:
        vcenter.call(system, "StopService", {"id": SSH})
    except VsphereAiError as error:
        raise LeftRunning(
            f"{host.name}: the SSH service was started and could not be stopped again: {error.message}",
            f"Stop {SSH} in the vSphere Client under Configure > Services.",
        ) from error
