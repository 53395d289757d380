"""Hosts on their way into maintenance mode: `inMaintenanceMode` is false until the task has ended (HostRuntimeInfo)."""

from __future__ import annotations

from vsphere_ai.model.facts import Estate, Facts

TASKS = "recentTask"
"""Property of an object: its tasks of the last minutes, those at work among them."""
TASK_PATHS = ("info.descriptionId", "info.state")
ENTERING = "entermaintenancemode"
"""End of a task's `descriptionId`, in lower case, when it brings a host into maintenance mode."""
VSAN_MEMBER = "config.vsanHostConfig.enabled"
"""Property of a host: whether it is a member of vSAN, which moves data before the host is in maintenance mode."""
PARTIAL = "runtime.partialMaintenanceMode"
"""Partial maintenance modes of a host, from API 8.0.3.0 on: each with a ``key`` and its ``hostStatus``."""
QUICK_PATCH = "quickPatchPartialMM"
"""The mode of Live Patch: VMs that run go on; power-ons and arrivals may be blocked, and a restart is unsafe
(HostPartialMaintenanceModeId)."""


def is_entering(task: Facts) -> bool:
    """Return whether a task brings a host into maintenance mode just now; `task` has been read for `TASK_PATHS`."""
    return is_of_maintenance(task) and task.get("info.state") in ("queued", "running")


def is_of_maintenance(task: Facts) -> bool:
    """Return whether a task brings a host into maintenance mode, or has done so."""
    return str(task.get("info.descriptionId", "")).lower().endswith(ENTERING)


def enters_maintenance(host: Facts, estate: Estate) -> bool:
    """Return whether a host was entering maintenance mode when it was read: it takes no VM from then on."""
    tasks = (estate.get(str(ref)) for ref in host.get(TASKS) or ())
    return any(task is not None and is_entering(task) for task in tasks)


def why_out_of_service(host: Facts, estate: Estate) -> str:
    """Return why nothing may be started on a host or moved there; "" where it is in service."""
    return why_unreachable(host) or ("entering maintenance mode" if enters_maintenance(host, estate) else "")


def why_unreachable(host: Facts) -> str:
    """Return why a host does not even give what is on it, such as a template to clone; "" where it does."""
    state = host.get("runtime.connectionState")
    if state != "connected":
        return str(state or "in an unknown state")
    return "in maintenance mode" if host.get("runtime.inMaintenanceMode") else ""


def partial_modes(host: Facts) -> tuple[str, ...]:
    """Return the partial maintenance modes that a host is in, or enters or leaves, by their keys."""
    shown = ((str(mode.get("key")), mode.get("hostStatus")) for mode in host.get(PARTIAL) or ())
    return tuple(sorted(key for key, status in shown if status != "notInPartialMM"))
