"""Looks up what a plan could only name: references and keys of objects that an earlier step has made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vsphere_ai.errors import Conflict
from vsphere_ai.execution.actions.context import polling
from vsphere_ai.model.deferred import (
    CONFIG_TARGET,
    Deferred,
    chosen,
    is_deferred,
    nested,
    property_path,
    replaced,
    spelled,
)
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.plain import Plain, inside

if TYPE_CHECKING:
    from vsphere_ai.connect.vcenter import VCenter

_ABOVE = ("Datacenter", "Folder")
PATIENCE = 20.0  # seconds in which vCenter's picture of a host shows what was just changed there


class NotYet(Conflict):
    """The object is there, what is looked for in it may be on its way."""


def looked_up(value: object, vcenter: VCenter) -> Any:
    """Return a plain value with every `Deferred` in it replaced; `Conflict` when there is not one such object."""
    if not is_deferred(value):
        return value
    missing: NotYet | None = None
    for _ in polling(PATIENCE, fastest=0.5, slowest=4.0):
        try:
            return replaced(value, lambda deferred: _find(deferred, vcenter))
        except NotYet as error:
            missing = error
    raise missing or Conflict(f"nothing was looked up for {value!r}", "plan again")


def _find(deferred: Deferred, vcenter: VCenter) -> str:
    named = ("name", "parent")
    path = property_path(deferred.path)
    asked = path.partition(".")[2] if path.startswith(f"{CONFIG_TARGET}.") else ""
    paths = {**dict.fromkeys(_ABOVE, named), deferred.managed: (*named, path) if path and not asked else named}
    if deferred.managed == "HostSystem":
        paths["ComputeResource"] = named  # hosts are below it
    objects = vcenter.read(paths)
    estate = Estate(About("", "", "", "", ""), objects)
    # a distributed switch is of a type derived from the one it is looked up by
    found = [
        f
        for ref, f in objects.items()
        if f.name == deferred.name and _is_of(ref, deferred.managed) and _is_in(estate, ref, deferred.datacenter)
    ]
    if not found:
        raise Conflict(f"there is no object of type {deferred.managed} called {deferred.name}", "plan again")
    if len(found) > 1:
        raise Conflict(
            f"there are {len(found)} objects of type {deferred.managed} called {deferred.name}", "plan again"
        )
    inner = nested(deferred.path, lambda other: _find(other, vcenter))
    whole = _offered(found[0], vcenter, asked) if asked else found[0].get(path)
    value = chosen(whole, inner) if path else found[0].ref
    if not isinstance(value, str) or not value:
        raise NotYet(f"{deferred.name} has no {spelled(deferred.path)} yet", "plan again")
    return value


def _offered(host: Facts, vcenter: VCenter, field: str) -> Plain:
    """Return a field of what a host offers to VMs."""
    browser = vcenter.resolve_path(str(host.get("parent")), "environmentBrowser")
    return inside(vcenter.call(browser, "QueryConfigTarget", {"host": host.ref}), field)


def _is_of(ref: str, managed: str) -> bool:
    return ref.partition(":")[0].endswith(managed)


def _is_in(estate: Estate, ref: str, datacenter: str) -> bool:
    at = estate.datacenter_of(ref)
    return at is not None and at.ref == datacenter
