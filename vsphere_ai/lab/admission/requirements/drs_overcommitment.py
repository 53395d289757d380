"""Over-commitment of virtual CPUs that DRS keeps to: MaxVCPUsPerCore of a host, MaxVcpusPerClusterPct of all.

vSphere 6.5 and later; counted are physical cores, and the virtual CPUs that run. With DRS off nothing is counted. Blog
tests (abcde.im, vmnomad, 2017) show that a power-on is refused; its fault, that DRS keeps to it where it evacuates, and
that the cores of hosts out of service count for the cluster are unverified.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.admission.supply import cluster_of, hosts_of, running
from vsphere_ai.lab.managed.running_vms import powered_on
from vsphere_ai.lab.store import ManagedObject

PER_CORE, PER_CLUSTER = "maxvcpuspercore", "maxvcpusperclusterpct"


@requirement(70, frozenset({Occasion.POWER_ON, Occasion.EVACUATE}), CheckTests.NONE)
def drs_overcommitment(case: LabCase) -> Faults:
    """Yield a fault for each limit that the VM would exceed."""
    cluster = cluster_of(case.farm, case.host)
    if cluster is None or not cluster["configurationEx"].drsConfig.enabled:
        return
    options = {o.key.lower(): str(o.value) for o in cluster["configurationEx"].drsConfig.option or ()}
    cpus = int(case.config.hardware.numCPU)
    per_core, percent = _number(options.get(PER_CORE)), _number(options.get(PER_CLUSTER))
    most = per_core * case.farm.host(case.host).mainboard.cores
    if most and cpus + _cpus(powered_on(case.farm, case.host), case.vm) > most:
        yield _exceeds(most)
    hosts = hosts_of(case.farm, cluster) if percent else []
    most = percent * sum(case.farm.host(host).mainboard.cores for host in hosts) // 100
    if most and cpus + _cpus(running(case.farm, cluster), case.vm) > most:
        yield _exceeds(most)


def _number(text: str | None) -> int:
    return int(text) if text and text.strip().isdigit() else 0


def _cpus(vms: Iterable[ManagedObject], without: ManagedObject) -> int:
    return sum(int(vm["config"].hardware.numCPU) for vm in vms if vm is not without)


def _exceeds(most: int) -> Exception:
    error: Exception = vim.fault.NumVirtualCpusExceedsLimit(
        maxSupportedVcpus=most,
        msg="The total number of virtual CPUs present or requested in virtual machines' configuration has exceeded the "
        f"limit on the host: {most}.",
    )
    return error
