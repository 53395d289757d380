"""Host state: it is connected, and neither in maintenance nor on its way there.

While a host enters maintenance mode, `inMaintenanceMode` is false and the task runs (vSphere API, HostSystem). On 7.0
and 8.0 no power-on and no arrival is allowed from the beginning on. While it is patched alive both may be blocked
(HostPartialMaintenanceModeId); here they are.
"""

from __future__ import annotations

from vsphere_ai.lab.admission import ALWAYS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed.host_resources import blocks_arrivals
from vsphere_ai.lab.managed.refusals import host_not_connected, invalid_host_state


@requirement(0, ALWAYS - {Occasion.RECONFIGURE}, CheckTests.HOST)
def host_state(case: LabCase) -> Faults:
    """Yield a fault where the host takes no VM just now."""
    machine = case.farm.host(case.host)
    if not machine.up:
        yield host_not_connected()
    elif machine.in_maintenance or "entering" in case.host.extra:
        yield invalid_host_state(case.host.ref, "the host is in maintenance mode")
    elif blocks_arrivals(case.host) and not case.runs_here:
        yield invalid_host_state(case.host.ref, "the host is being patched alive")
