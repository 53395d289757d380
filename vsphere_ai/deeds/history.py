"""What vCenter's events tell of a call that makes no task to ask for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from vsphere_ai.deeds.means import Means
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.state import Target

SLACK = timedelta(seconds=5)
"""How much earlier than it was noted here a call may seem to have arrived: two clocks are compared."""
SHUT_DOWN = "shutdownguest"
"""End of the `descriptionId`, in lower case, of the task that vCenter lists for ShutdownGuest."""


def was_shut_down(means: Means, vm: Target, sent: str) -> bool | None:
    """Tell whether vCenter was asked to shut a guest down since a moment of this machine's clock (UTC, ISO).

    None when its events cannot be read. vCenter writes a TaskEvent for each call that it accepts, and a
    VmGuestShutdownEvent (vSphere Web Services API, EventManager.QueryEvents).
    """
    try:
        manager = means.vcenter.service("eventManager")
        if manager is None:
            return None
        ahead = means.vcenter.now() - datetime.now(UTC)
        begin = datetime.fromisoformat(sent) + ahead - SLACK
        wanted = {"entity": {"entity": vm.ref, "recursion": "self"}, "time": {"beginTime": begin.isoformat()}}
        found = means.vcenter.call(manager, "QueryEvents", {"filter": wanted})
    except VsphereAiError:
        return None
    return any(map(_tells, found or ()))


def _tells(event: Mapping[str, Any]) -> bool:
    info = event.get("info")
    task = info if isinstance(info, Mapping) else {}
    ordered = str(task.get("descriptionId", "")).lower().endswith(SHUT_DOWN) and task.get("state") != "error"
    return ordered or event.get("_typeName") == "VmGuestShutdownEvent"
