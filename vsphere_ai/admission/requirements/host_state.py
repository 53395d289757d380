"""The host is in service."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import ARRIVES, AdmissionCase, Reason, requirement
from vsphere_ai.model.estate.maintenance import PARTIAL, QUICK_PATCH, enters_maintenance, partial_modes

PATHS = (
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
    "runtime.powerState",
    "runtime.inQuarantineMode",
    "recentTask",
    PARTIAL,
)


@requirement(
    "admission.host-state",
    "The host is in service",
    occasions=ARRIVES,
    source="vSphere Web Services API, HostRuntimeInfo, EnterMaintenanceMode_Task and HostPartialMaintenanceModeId",
    reads={"HostSystem": PATHS},
    faults=("InvalidHostState", "HostNotConnected"),
)
def host_state(case: AdmissionCase) -> Iterator[Reason]:
    """A host takes VMs only while it is connected, and neither in maintenance mode nor about to enter it.

    While it enters maintenance mode, `inMaintenanceMode` is false and the task runs. A host in standby is none: DRS may
    start it, and a plan does not wait for that. While a host is patched alive (the partial maintenance mode
    `quickPatchPartialMM`) its VMs go on running, and no others come: the API has it that power-ons and arrivals may
    be blocked, and a VM that is powered off then could stay off. What other partial modes keep away is unknown.
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
    for mode in partial_modes(host):
        if mode == QUICK_PATCH:
            message = f"it is being patched alive ({mode}): power-ons and arrivals are blocked until that is done"
            yield case.no(message, "wait for the end of the remediation in vCenter", fault="InvalidHostState")
        else:
            yield case.unknown(f"it is in the partial maintenance mode {mode}; what that keeps away is not documented")
