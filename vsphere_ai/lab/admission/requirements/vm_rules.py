"""Rules between VMs bind where DRS chooses the host; by hand a VM may be anywhere. HA keeps VMs apart, never together.

vSphere API, RuleViolation. That DRS refuses a power-on which no host allows was reported in public
(github.com/cloudfoundry/bosh-vsphere-cpi-release issue 223). VMs that break a rule made later run on; a rule
that keeps VMs together asks for a host where one of them runs (unverified). `das.respectVmVmAntiAffinityRules` sets
whether HA keeps VMs apart (vSphere Availability 6.5, GUID-E137A9F8); that it does so by default is unverified.
"""

from __future__ import annotations

from pyVmomi import vim

from vsphere_ai.lab.admission import RUNS, CheckTests, Faults, LabCase, Occasion, requirement
from vsphere_ai.lab.managed.clusters import cluster_rules

HA_OPTION = "das.respectvmvmantiaffinityrules"


@requirement(42, RUNS, CheckTests.NONE)
def vm_rules(case: LabCase) -> Faults:
    """Yield a fault for each rule between VMs that DRS, or HA, does not break."""
    for rule in cluster_rules.broken_by(case.farm, case.vm, case.host):
        between = isinstance(rule, (cluster_rules.TOGETHER, cluster_rules.APART))
        if between and _binds(case, rule):
            yield vim.fault.RuleViolation(
                host=case.host.ref,
                rule=rule,
                msg=f"The virtual machine would violate the affinity/anti-affinity rule '{rule.name}'.",
            )


def _binds(case: LabCase, rule: object) -> bool:
    if case.occasion is not Occasion.HA_RESTART:
        return bool(case.by_drs or getattr(rule, "mandatory", False))
    return isinstance(rule, cluster_rules.APART) and _ha_keeps_apart(case)


def _ha_keeps_apart(case: LabCase) -> bool:
    das = case.farm.store.get(case.host["parent"])["configurationEx"].dasConfig
    options = {o.key.lower(): str(o.value).strip().lower() for o in (das.option if das is not None else None) or ()}
    return options.get(HA_OPTION, "true") != "false"
