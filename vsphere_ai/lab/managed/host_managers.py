"""Managers of a host: a module registers one here by its name in HostConfigManager, and every host then has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.hardware.host import LabHost
from vsphere_ai.lab.managed import Call
from vsphere_ai.lab.managed.refusals import host_not_connected
from vsphere_ai.lab.store import ManagedObject, fill

Start = Callable[[Farm, ManagedObject], Mapping[str, Any]]
"""Takes the HostSystem of a farm that is complete; returns the first properties of the host's manager."""
Show = Callable[[Farm, ManagedObject], None]

Prepare = Callable[[Farm, LabHost], None]

_starts: dict[str, Start] = {}
_prepares: list[Prepare] = []
_shows: dict[str, Show] = {}
_names: set[str] = set()


def host_manager(name: str) -> Callable[[Start], Start]:
    """Give every host a manager; a function decorated with this fills it in at the start.

    `name` is the field of HostConfigManager, e.g. ``dateTimeSystem``, which also says of which type the manager is.
    """
    _names.add(name)

    def register(start: Start) -> Start:
        _starts[name] = start
        return start

    return register


def shows(name: str) -> Callable[[Show], Show]:
    """Register the function that writes the machine's present state into a manager, whenever the machine changes."""
    _names.add(name)

    def register(show: Show) -> Show:
        _shows[name] = show
        return show

    return register


def prepares(prepare: Prepare) -> Prepare:
    """Register a function that gives every machine something from the start, such as an advanced option."""
    _prepares.append(prepare)
    return prepare


def names() -> frozenset[str]:
    """Return the fields of HostConfigManager that hosts of the lab have."""
    return frozenset(_names)


def add_managers(farm: Farm, mo: ManagedObject) -> Any:
    """Make the managers of a new HostSystem; return its HostConfigManager."""
    made = vim.host.ConfigManager()
    for name in sorted(_names):
        typ = made._GetPropertyInfo(name).type
        manager = farm.store.new(typ, f"{name}-{mo.moid.rpartition('-')[2]}")
        manager.extra["host"] = mo
        mo.extra[name] = manager
        setattr(made, name, manager.ref)
    return made


def start_managers(farm: Farm, mo: ManagedObject) -> None:
    """Fill in what the managers of a host show from the start."""
    for prepare in _prepares:
        prepare(farm, farm.host(mo))
    for name, start in _starts.items():
        values = start(farm, mo)
        for value in values.values():
            if isinstance(value, Vmomi.DataObject):
                fill(value)
        farm.store.set(mo.extra[name], **values)
    farm.store.touch(mo, "config")


def show_machine(farm: Farm, mo: ManagedObject) -> None:
    """Bring every manager of a host up to date with the machine."""
    for show in _shows.values():
        show(farm, mo)


def touch(call: Call, mo: ManagedObject, name: str) -> None:
    """Mark a property of the called manager as changed, and the configuration of its host, where it is shown too."""
    call.farm.store.touch(call.mo, name)
    call.farm.store.touch(mo, "config")


def host_of_manager(call: Call) -> tuple[ManagedObject, LabHost]:
    """Return the HostSystem and the machine a manager belongs to; refuse while the host does not answer."""
    mo: ManagedObject = call.mo.extra["host"]
    host = call.farm.host(mo)
    if not host.up or mo["config"] is None:
        raise host_not_connected()
    return mo, host
