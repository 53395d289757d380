"""How a host's managers are joined to their HostSystem, and what every one of them checks first."""

from __future__ import annotations

from vsphere_ai.lab.hardware.host import Host
from vsphere_ai.lab.managed import Call
from vsphere_ai.lab.managed.refusals import host_not_connected, no_permission
from vsphere_ai.lab.store import ManagedObject


def host_of_manager(call: Call) -> tuple[ManagedObject, Host]:
    """Return the HostSystem and the machine a manager belongs to; refuse while the host does not answer."""
    mo: ManagedObject = call.mo.extra["host"]
    host = call.farm.host(mo)
    if not host.up or mo["config"] is None:
        raise host_not_connected()
    return mo, host


def demand(call: Call, privilege: str) -> None:
    """Refuse when the scenario denies the user a privilege."""
    if privilege in call.farm.scenario.privileges_denied:
        raise no_permission(call.mo.ref, privilege)
