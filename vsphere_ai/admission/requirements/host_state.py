"""The host is in service."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import ARRIVES, AdmissionCase, Reason, requirement
from vsphere_ai.model.estate.maintenance import enters_maintenance

PATHS = (
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
    "runtime.powerState",
    "runtime.inQuarantineMode",
    "recentTask",
)


@requirement(
    "admission.host-state",
    "The host is in service",
    occasions=ARRIVES,
    source="vSphere Web Services API, HostRuntimeInfo and EnterMaintenanceMode_Task",
    reads={"HostSystem": PATHS},
    faults=("InvalidHostState", "HostNotConnected"),
)
def host_state(case: AdmissionCase) -> Iterator[Reason]:
    """A host takes VMs only while it is connected, and neither in maintenance mode nor about to enter it.

    While it enters maintenance mode, `inMaintenanceMode` is false and the task runs. A host in standby is none: DRS may
    start it, and a plan does not wait for that.
    """
    host, situation = case.host, case.situation
    if host.ref in situation.down:
        yield case.no("it is out of service at that time because of this plan", fault="InvalidHostState")
        return
    state = host.get("runtime.connectionState")
    if state != "connected":
        yield case.no(f"it is {state or 'in an unknown state'}", "reconnect the host", fault="HostNotConnected")
    if host.get("runtime.inMaintenanceMode"):
        yield case.no("it is in maintenance mode", "take it out of maintenance mode", fault="InvalidHostState")
    elif enters_maintenance(host, situation.view.estate):
        message = "it is entering maintenance mode, by a task that this run has not started"
        yield case.no(message, "wait for the task to end, or cancel it", fault="InvalidHostState")
    if host.get("runtime.powerState") == "standBy":
        yield case.no("it is in standby", "power it on", fault="InvalidHostState")
    if host.get("runtime.inQuarantineMode"):
        yield case.preferred("it is in quarantine mode, which DRS avoids")
