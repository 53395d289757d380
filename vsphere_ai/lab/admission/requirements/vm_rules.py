"""Rules between VMs bind where DRS chooses the host; by hand a VM may be anywhere.

vSphere API, RuleViolation. That DRS refuses a power-on which no host allows was reported in public
(github.com/cloudfoundry/bosh-vsphere-cpi-release issue 223). VMs that break a rule made later run on; a rule
that keeps VMs together asks for a host where one of them runs (unverified).
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import Case, Faults, Group, Occasion, requirement
from vsphere_ai.lab.managed.clusters import cluster_rules


@requirement(42, frozenset({Occasion.POWER_ON, Occasion.EVACUATE, Occasion.VMOTION}), Group.NONE)
def vm_rules(case: Case) -> Faults:
    """Yield a fault for each rule between VMs that DRS would break."""
    for rule in cluster_rules.broken_by(case.farm, case.vm, case.host):
        between = isinstance(rule, (cluster_rules.TOGETHER, cluster_rules.APART))
        if between and (case.by_drs or rule.mandatory):
            yield vim.fault.RuleViolation(
                host=case.host.ref,
                rule=rule,
                msg=f"The virtual machine would violate the affinity/anti-affinity rule '{rule.name}'.",
            )
