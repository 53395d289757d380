"""DRS rules between VMs and hosts of any user."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import RUNS, AdmissionCase, Reason, requirement
from vsphere_ai.model.vm_sets import real_ref


@requirement(
    "admission.host-rule",
    "DRS rules between VMs and hosts",
    occasions=RUNS,
    source="vSphere Resource Management 8.0, VM-Host affinity rules (GUID-793013E2)",
    reads={"ClusterComputeResource": ("configurationEx",)},
    faults=("VmHostAffinityRuleViolation", "NoCompatibleHardAffinityHost"),
)
def host_rules(case: AdmissionCase) -> Iterator[Reason]:
    """A mandatory rule is enforced for every power-on and every move, also while DRS is off.

    Several of them apply together. A rule that is not mandatory is a remark.
    """
    cluster = case.situation.cluster(case.host.ref)
    rules = case.situation.rules(cluster.ref if cluster else "")
    ref = real_ref(case.situation.view.estate, case.vm.ref)
    for rule in rules.of_hosts:
        if rule.permits(ref, case.host.ref):
            continue
        message = f"the DRS rule '{rule.name}' keeps the VM off it"
        if rule.mandatory:
            help = "change that rule, or choose a host that it allows"
            yield case.no(message, help, fault="VmHostAffinityRuleViolation")
        else:
            yield case.preferred(message)
