"""Events beside those of tasks: posted by the lab where vCenter posts them, kept in the order of their time."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.sessions import now
from vsphere_ai.lab.store import ManagedObject, fill

POSTED, MOST = "posted", 10_000
MANAGER = "EventManager"


def post(farm: Farm, vm: ManagedObject, typ: Any, message: str, **fields: Any) -> None:
    """Post an event about a VM."""
    event = typ(
        createdTime=now(),
        userName="",
        fullFormattedMessage=message,
        vm=about(vm),
        host=_host(farm.host_of(vm)),
        template=bool(vm["config"].template),
        **fields,
    )
    _keep(farm, event)


def post_restarted(farm: Farm, vm: ManagedObject, source: ManagedObject) -> None:
    """Post the event of a VM that HA has restarted; `source` is the host that failed under it."""
    host, before = farm.host_of(vm), _host(source)
    message = f"vSphere HA restarted virtual machine {vm['name']} on host {host['name']}"
    if host is source:
        kind: Any = vim.event.VmPoweredOnEvent
        post(farm, vm, kind, message)
    else:
        kind = vim.event.VmRestartedOnAlternateHostEvent
        post(farm, vm, kind, message, sourceHost=before)


def post_failed_host(farm: Farm, cluster: ManagedObject, host: ManagedObject) -> None:
    """Post the event of a host that HA takes to have failed."""
    name = str(cluster["name"])
    event = vim.event.DasHostFailedEvent(
        createdTime=now(),
        userName="",
        fullFormattedMessage=f"A possible host failure has been detected by vSphere HA on {host['name']} in {name}",
        computeResource=vim.event.ComputeResourceEventArgument(name=name, computeResource=cluster.ref),
        host=_host(host),
        failedHost=_host(host),
    )
    _keep(farm, event)


def _keep(farm: Farm, event: Any) -> None:
    event.key = event.chainId = farm.store.next_id()
    manager = farm.store.objects[MANAGER]
    events = manager.extra.setdefault(POSTED, [])
    events.append(fill(event))
    del events[:-MOST]
    farm.store.set(manager, latestEvent=event)


def _host(host: ManagedObject) -> Any:
    return vim.event.HostEventArgument(name=str(host["name"]), host=host.ref)


def about(vm: ManagedObject) -> Any:
    """Return how an event names a VM."""
    return vim.event.VmEventArgument(name=str(vm["name"]), vm=vm.ref)


def posted(farm: Farm) -> list[Any]:
    """Return the events that were posted, oldest first."""
    return list(farm.store.objects[MANAGER].extra.get(POSTED, ()))
