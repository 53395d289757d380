"""Devices of the host: passthrough devices, virtual functions, device groups and bandwidth of NICs are there and free.

vSphere API, VirtualPCIPassthrough and VirtualSriovEthernetCard; which fault a power-on ends with is unverified.
"""

from __future__ import annotations

from pyVmomi import vmodl

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed.networks import dvs_bandwidth
from vsphere_ai.lab.managed.vms import device_groups, devices_pci, virtual_functions


@requirement(90, RUNS | {Occasion.START}, CheckTests.HOST)
def devices(case: LabCase) -> Faults:
    """Yield the fault of the first device that the VM does not get."""
    if case.runs_here:
        return
    try:
        device_groups.check_power_on(case.vm, case.farm.host(case.host))
        devices_pci.check_power_on(case.farm, case.vm, case.host)
        virtual_functions.find(case.farm, case.vm, case.host)
        dvs_bandwidth.check_power_on(case.farm, case.vm)
        dvs_bandwidth.check_host(case.farm, case.vm, case.host)
    except vmodl.MethodFault as fault:
        yield fault
