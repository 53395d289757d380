"""CPU count: a VM has at most as many virtual CPUs as the host has logical processors, and as ESXi allows.

vSphere Resource Management (7.0 and 8.0), NotEnoughLogicalCpus and NotEnoughCpus of the API: the first with
hyperthreading, the second without. That the ceilings of the release end a power-on so is unverified.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed.host_resources import MOST_VCPUS_OF_HOST, most_vcpus
from vsphere_ai.lab.managed.running_vms import powered_on


@requirement(20, RUNS | {Occasion.START, Occasion.RECONFIGURE}, CheckTests.HOST)
def cpu_count(case: LabCase) -> Faults:
    """Yield a fault where the host has too few processors, or runs no such VM."""
    machine, cpus = case.farm.host(case.host), int(case.config.hardware.numCPU)
    board, counts = machine.mainboard, {"numCpuVm": cpus}
    if cpus > board.threads:
        text = f"The virtual machine has {cpus} virtual CPUs, the host only supports {board.threads}."
        if board.threads > board.cores:
            yield vim.fault.NotEnoughLogicalCpus(numCpuDest=board.threads, host=case.host.ref, msg=text, **counts)
        else:
            yield vim.fault.NotEnoughCpus(numCpuDest=board.threads, msg=text, **counts)
    most = most_vcpus(machine.release)
    if cpus > most:
        text = f"The virtual machine has {cpus} virtual CPUs, the release of the host supports {most}."
        yield vim.fault.NumVirtualCpusNotSupported(maxSupportedVcpusDest=most, msg=text, **counts)
    if case.occasion is Occasion.START:
        return  # what the scenario lets run is not counted
    others = (vm for vm in powered_on(case.farm, case.host) if vm is not case.vm)
    if cpus + sum(vm["config"].hardware.numCPU for vm in others) > MOST_VCPUS_OF_HOST:
        yield vim.fault.NumVirtualCpusExceedsLimit(
            maxSupportedVcpus=MOST_VCPUS_OF_HOST,
            msg="The total number of virtual CPUs present or requested in virtual machines' configuration has exceeded "
            f"the limit on the host: {MOST_VCPUS_OF_HOST}.",
        )
