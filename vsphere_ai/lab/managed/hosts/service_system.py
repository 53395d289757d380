"""HostServiceSystem: the services of a host and when they start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.parts import Policy, Service
from vsphere_ai.lab.managed import Call, changes, demand, reads
from vsphere_ai.lab.managed.host_managers import host_of_manager, shows
from vsphere_ai.lab.managed.refusals import invalid_argument, not_found
from vsphere_ai.lab.store import ManagedObject


@shows("serviceSystem")
def project(farm: Farm, mo: ManagedObject) -> None:
    """Write the services of a host into its manager and into ``config``."""
    services = farm.host(mo).services.values()
    info = mo.shown("services", [(s.id, s.running, s.policy) for s in services], lambda: _info(services))
    farm.store.set(mo.extra["serviceSystem"], serviceInfo=info)
    if mo["config"] is not None:
        mo["config"].service = info


def _info(services: Iterable[Service]) -> Any:
    return vim.host.ServiceInfo(
        service=[
            vim.host.Service(
                key=service.id,
                label=service.label,
                required=False,
                uninstallable=False,
                running=service.running,
                policy=service.policy,
                ruleset=[*service.rulesets],
            )
            for service in services
        ]
    )


@changes(vim.host.ServiceSystem, "StartService")
def start_service(call: Call, id: str) -> None:
    """Start a service; one that runs is not changed."""
    if _set_running(call, id, True):
        call.farm.record(call.mo.extra["host"], "StartService", id=id)


@changes(vim.host.ServiceSystem, "StopService")
def stop_service(call: Call, id: str) -> None:
    """Stop a service; one that does not run is not changed."""
    if _set_running(call, id, False):
        call.farm.record(call.mo.extra["host"], "StopService", id=id)


@changes(vim.host.ServiceSystem, "RestartService")
def restart_service(call: Call, id: str) -> None:
    """Stop and start a service."""
    _set_running(call, id, False)
    _set_running(call, id, True)
    call.farm.record(call.mo.extra["host"], "RestartService", id=id)


@changes(vim.host.ServiceSystem, "UpdateServicePolicy", "Host.Config.NetService")
def update_service_policy(call: Call, id: str, policy: Any) -> None:
    """Set when a service starts."""
    mo, host = host_of_manager(call)
    if policy not in get_args(Policy):
        raise invalid_argument("policy", policy)
    try:
        changed = host.set_service_policy(id, policy)
    except KeyError:
        raise not_found(id) from None
    if changed:
        call.farm.record(mo, "UpdateServicePolicy", id=id, policy=policy)


@reads(vim.host.ServiceSystem, "RefreshServices")
def refresh_services(call: Call) -> None:
    """Read the services again."""
    mo, _ = host_of_manager(call)
    call.farm.mark(mo)


def _set_running(call: Call, key: str, running: bool) -> bool:
    demand(call, "Host.Config.NetService")
    _, host = host_of_manager(call)
    try:
        return host.set_service(key, running=running)
    except KeyError:
        raise not_found(key) from None
