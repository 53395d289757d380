"""HA admission control: what is left after a power-on, an arrival or a larger reservation still covers a failover.

vSphere Availability 6.7; ClusterDasConfigInfo. It stops no vMotion inside of the cluster, but DRS keeps to it when it
evacuates a host (8.0, GUID-5C1FD474). HA restarts VMs without asking it.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.admission.failover_capacity import covers, settings
from vsphere_ai.lab.admission.supply import cluster_of, cpu_need, memory_need


@requirement(
    80, frozenset({Occasion.POWER_ON, Occasion.VMOTION, Occasion.RECONFIGURE, Occasion.EVACUATE}), CheckTests.NONE
)
def failover(case: LabCase) -> Faults:
    """Yield a fault where a failover would not be covered any more, or the host is kept for one."""
    cluster = cluster_of(case.farm, case.host)
    config = settings(cluster)
    if cluster is None or config is None:
        return
    policy = config.admissionControlPolicy
    if isinstance(policy, vim.cluster.FailoverHostAdmissionControlPolicy):
        arrives = case.occasion is not Occasion.RECONFIGURE and not case.runs_here
        if arrives and case.host.ref in (policy.failoverHosts or ()):
            yield vim.fault.DisallowedOperationOnFailoverHost(
                host=case.host.ref,
                hostname=str(case.host["name"]),
                msg=f"Host '{case.host['name']}' is a failover host: no virtual machine is powered on or moved there.",
            )
        return
    if _is_weighed(case) and not covers(case.farm, cluster, case.vm, case.config):
        yield vim.fault.InsufficientFailoverResourcesFault(
            msg="Insufficient resources to satisfy configured failover level for vSphere HA."
        )


def _is_weighed(case: LabCase) -> bool:
    """Return whether the VM adds to what has to be failed over, or DRS asks."""
    if case.occasion is Occasion.VMOTION:
        return bool(case.farm.host_of(case.vm)["parent"] != case.host["parent"])
    if case.occasion is Occasion.RECONFIGURE:
        more_memory = memory_need(case.vm, case.config) > memory_need(case.vm)
        return more_memory or cpu_need(case.vm, case.config) > cpu_need(case.vm)
    return True
