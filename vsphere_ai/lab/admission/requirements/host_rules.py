"""VM-Host rules that are required hold at power-on, in every move, with DRS off, and when DRS evacuates.

vSphere API, ClusterVmHostRuleInfo; vSphere Resource Management 8.0. Of a rule that is preferred only DRS takes account.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, requirement
from vsphere_ai.lab.managed.clusters import cluster_rules


@requirement(40, RUNS, CheckTests.NONE)
def host_rules(case: LabCase) -> Faults:
    """Yield a fault for each required rule that keeps the VM from the host."""
    for rule in cluster_rules.broken_by(case.farm, case.vm, case.host):
        if rule.mandatory and isinstance(rule, cluster_rules.HOSTS):
            name, host = str(case.vm["name"]), str(case.host["name"])
            yield vim.fault.VmHostAffinityRuleViolation(
                vmName=name,
                hostName=host,
                msg=f"Virtual machine '{name}' on host '{host}' would violate a VM-Host affinity rule.",
            )
