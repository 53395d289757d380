"""Privileges that asking vCenter's own checks takes; without them a plan is made, and says that it has no answer."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.oracles import EVACUATE, ORACLES
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.privilege import Duty
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.privileges import PrivilegeNeed, PrivilegeOf, of_methods
from vsphere_ai.planning.second_opinion import evacuations

REASON = "ask vCenter whether DRS can empty hosts"
DUTIES = (
    Duty(
        "asking vCenter's own checks while planning; not needed for a plan",
        "clusters, hosts and VMs",
        tuple(o.method for o in ORACLES),
    ),
    Duty("the dry run of an evacuation (`evacuate: vmotion`)", "hosts", (EVACUATE.method,), also=EVACUATE.also),
)


def for_checks(plan: Plan, estate: Estate, privilege_of: PrivilegeOf) -> Iterator[PrivilegeNeed]:
    """Yield what asking about the evacuations of a plan takes; the other checks take no more than to see the VM."""
    for each in evacuations(plan, estate):
        cluster = estate[each.cluster].name if each.cluster in estate.objects else each.cluster
        for privilege in of_methods((EVACUATE.method,), privilege_of):
            yield PrivilegeNeed(cluster, each.cluster, privilege, REASON)
        yield from (
            PrivilegeNeed(host.name, host.ref, privilege, REASON) for host in each.hosts for privilege in EVACUATE.also
        )
