"""The host is none that vSphere HA keeps for a failover."""

from __future__ import annotations

from vsphere_ai.admission.base import MOVES, STARTS, AdmissionCase, Reason, requirement
from vsphere_ai.admission.ha_slots import policy_of

HOSTS = "ClusterFailoverHostAdmissionControlPolicy"


@requirement(
    "admission.failover-host",
    "Dedicated failover hosts of vSphere HA",
    occasions=STARTS | MOVES,
    source="vSphere Availability 8.0, dedicated failover hosts; vSphere API, DisallowedOperationOnFailoverHost",
    reads={"ClusterComputeResource": ("configurationEx",)},
    faults=("DisallowedOperationOnFailoverHost",),
)
def failover_host(case: AdmissionCase) -> Reason | None:
    """A host that vSphere HA keeps for a failover powers no VM on, and takes none by vMotion."""
    cluster = case.situation.cluster(case.host.ref)
    policy = policy_of(cluster)
    if cluster is None or policy.get("_typeName") != HOSTS or case.host.ref not in (policy.get("failoverHosts") or ()):
        return None
    message = f"{cluster.name} keeps it as a failover host of vSphere HA"
    return case.no(message, "choose another host", fault="DisallowedOperationOnFailoverHost")
