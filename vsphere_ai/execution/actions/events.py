"""Tasks and events of vCenter that show whether a call arrived before the run was killed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from vsphere_ai.errors import VsphereAiError
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.model.plain import Plain, PlainObject, objects
from vsphere_ai.model.state import Target

SLACK = timedelta(seconds=5)
"""How much earlier than it was noted here a call may seem to have arrived: two clocks are compared."""
SHUT_DOWN = "shutdownguest"
"""End of the `descriptionId`, in lower case, of the task that vCenter lists for ShutdownGuest."""
REBOOT = ".reboot"
"""The same of the task that RebootHost_Task makes (``HostSystem.reboot``)."""
MOST = 1000
"""Events that one query returns: where there are so many, some may be missing."""
_Tasks = dict[str, tuple[str, datetime]]
"""Reference of a task -> its `descriptionId` in lower case, and when it was queued by vCenter's clock."""


def was_shut_down(context: Context, vm: Target, sent: str) -> bool | None:
    """Return whether vCenter was asked to shut a guest down since a moment of this machine's clock (UTC, ISO).

    None when its events cannot be read. vCenter writes a TaskEvent for each call that it accepts, and a
    VmGuestShutdownEvent (vSphere Web Services API, EventManager.QueryEvents).
    """
    try:
        found = _events(context, vm, sent)
    except VsphereAiError:
        return None
    return None if found is None else any(map(_shows_shutdown, found))


def was_ordered_to_reboot(context: Context, host: Target, known: str, began: str) -> bool | None:
    """Return whether vCenter has made a task of rebooting a host after another task there.

    That one, `known`, is the run's own; its step `began` at this moment of this machine's clock (UTC, ISO). None where
    neither the recent tasks of the host nor its events show it: what they do not show may be there all the same.
    """
    seen = [tasks for tasks in (_recent(context, host), _noted(context, host, began)) if known in tasks]
    if not seen:
        return None
    return any(what.endswith(REBOOT) and queued >= tasks[known][1] for tasks in seen for what, queued in tasks.values())


def _recent(context: Context, host: Target) -> _Tasks:
    try:
        refs = [str(ref) for ref in context.read(host, "recentTask").get("recentTask") or ()]
        found = context.vcenter.read_objects(refs, {"Task": ("info.descriptionId", "info.queueTime")}) if refs else {}
    except VsphereAiError:
        return {}
    queued = {r: f for r, f in found.items() if f.get("info.queueTime")}
    return {r: _task(f.get("info.descriptionId"), f.get("info.queueTime")) for r, f in queued.items()}


def _noted(context: Context, host: Target, began: str) -> _Tasks:
    try:
        found = _events(context, host, began, eventTypeId=["vim.event.TaskEvent"])
    except VsphereAiError:
        return {}
    if found is None or len(found) >= MOST:
        return {}
    infos = [info for event in found if isinstance(info := event.get("info"), Mapping)]
    return {str(i.get("task")): _task(i.get("descriptionId"), i["queueTime"]) for i in infos if i.get("queueTime")}


def _task(what: object, queued: object) -> tuple[str, datetime]:
    return str(what or "").lower(), datetime.fromisoformat(str(queued))


def _events(context: Context, target: Target, since: str, **more: Plain) -> tuple[PlainObject, ...] | None:
    """Return a target's events since a moment of this machine's clock; None where vCenter has no event manager."""
    manager = context.vcenter.service("eventManager")
    if manager is None:
        return None
    ahead = context.vcenter.now() - datetime.now(UTC)
    begin = datetime.fromisoformat(since) + ahead - SLACK
    entity, time = {"entity": target.ref, "recursion": "self"}, {"beginTime": begin.isoformat()}
    return objects(context.vcenter.call(manager, "QueryEvents", {"filter": {"entity": entity, "time": time, **more}}))


def _shows_shutdown(event: Mapping[str, object]) -> bool:
    info = event.get("info")
    task = info if isinstance(info, Mapping) else {}
    ordered = str(task.get("descriptionId", "")).lower().endswith(SHUT_DOWN) and task.get("state") != "error"
    return ordered or event.get("_typeName") == "VmGuestShutdownEvent"
