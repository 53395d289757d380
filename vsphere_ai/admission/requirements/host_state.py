"""The host is in service."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import ARRIVES, AdmissionCase, Reason, requirement

PATHS = (
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
    "runtime.powerState",
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

    A host in standby is none: DRS may start it, and a plan does not wait for that.
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
    if host.get("runtime.powerState") == "standBy":
        yield case.no("it is in standby", "power it on", fault="InvalidHostState")
    if host.get("runtime.inQuarantineMode"):
        yield case.preferred("it is in quarantine mode, which DRS avoids")
