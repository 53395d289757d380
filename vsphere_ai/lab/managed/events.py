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
    number = farm.store.next_id()
    event = typ(
        key=number,
        chainId=number,
        createdTime=now(),
        userName="",
        fullFormattedMessage=message,
        vm=about(vm),
        host=vim.event.HostEventArgument(name=str(farm.host_of(vm)["name"]), host=vm["runtime"].host),
        template=bool(vm["config"].template),
        **fields,
    )
    manager = farm.store.objects[MANAGER]
    events = manager.extra.setdefault(POSTED, [])
    events.append(fill(event))
    del events[:-MOST]
    farm.store.set(manager, latestEvent=event)


def about(vm: ManagedObject) -> Any:
    """Return how an event names a VM."""
    return vim.event.VmEventArgument(name=str(vm["name"]), vm=vm.ref)


def posted(farm: Farm) -> list[Any]:
    """Return the events that were posted, oldest first."""
    return list(farm.store.objects[MANAGER].extra.get(POSTED, ()))
