"""DRS rules between VMs of any user."""

from __future__ import annotations

from collections.abc import Iterator

from vsphere_ai.admission.base import RUNS, AdmissionCase, Reason, requirement
from vsphere_ai.admission.rules import VmRule
from vsphere_ai.model.cluster_rules import OWN
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.vm_sets import estate_ref, real_ref

HA_OPTION = "das.respectVmVmAntiAffinityRules"
"""Advanced option of vSphere HA."""


@requirement(
    "admission.vm-rule",
    "DRS rules between VMs",
    occasions=RUNS,
    source="vSphere Resource Management 8.0, VM-VM affinity rules; vSphere API, RuleViolation",
    reads={"ClusterComputeResource": ("configurationEx",)},
    faults=("RuleViolation",),
    shared=True,
)
def vm_rules(case: AdmissionCase) -> Iterator[Reason]:
    """A VM does not run where a rule keeps it apart from a VM there, or together with VMs elsewhere.

    Where DRS places the VM, every rule refuses its power-on, but for that of a set with `anti_affinity: should`
    (unverified: what a VM does that is powered on by its host). A mandatory rule is respected in all other cases, too,
    because DRS would move the VM later; any other one is a remark there. vSphere HA never keeps VMs together. Whether
    it keeps them apart is what `das.respectVmVmAntiAffinityRules` of the cluster says (vSphere Availability 6.5,
    GUID-E137A9F8); where that is not set, the answer is unknown.
    """
    situation, host = case.situation, case.host
    cluster = situation.cluster(host.ref)
    rules = situation.rules(cluster.ref if cluster else "")
    if not rules.of_vms:
        return
    ref = real_ref(situation.view.estate, case.vm.ref)
    for rule in rules.between(ref):
        message = _violated(case, rule)
        if not message:
            continue
        if case.occasion == "ha_restart":
            yield _of_restart(case, rule, message)
            continue
        # of a set that only should be apart, a play states that it need not be
        strict = rules.places(ref) and case.occasion != "vmotion" and not rule.name.startswith(OWN)
        binding = rule.mandatory or strict
        if binding:
            help = "change that rule, or choose another host"
            yield case.no(message, help, fault="RuleViolation")
        else:
            yield case.preferred(message)


def _of_restart(case: AdmissionCase, rule: VmRule, message: str) -> Reason:
    """Return what comes of a rule that a restart by vSphere HA would break."""
    respected = _ha_option(case.situation.cluster(case.host.ref))
    if not rule.apart or respected == "false":
        return case.preferred(message)
    if respected == "true":
        return case.no(message, "change that rule, or make room on another host", fault="RuleViolation")
    return case.unknown(f"{message}; whether vSphere HA respects it is not known", f"set {HA_OPTION} of the cluster")


def _ha_option(cluster: Facts | None) -> str:
    """Return the value of the option in lower case, "" where it is not set."""
    config = (cluster.get("configurationEx") if cluster is not None else None) or {}
    options = (config.get("dasConfig") or {}).get("option") or ()
    values = (str(o.get("value")) for o in options if str(o.get("key")).lower() == HA_OPTION.lower())
    return next(values, "").strip().lower()


def _violated(case: AdmissionCase, rule: VmRule) -> str:
    estate, situation = case.situation.view.estate, case.situation
    refs = (estate_ref(estate, real) for real in rule.vms)
    homes = {ref: home for ref in refs if ref != case.vm.ref and (home := situation.home(ref)) is not None}
    if rule.apart:
        there = situation.on(case.host.ref)
        others = sorted(there[ref].name for ref, home in homes.items() if home == case.host.ref)
        return (
            f"the DRS rule '{rule.name}' keeps the VM apart from {', '.join(others)}, which runs there"
            if others
            else ""
        )
    elsewhere = sorted(estate[ref].name for ref, home in homes.items() if home != case.host.ref)
    if not elsewhere:
        return ""
    return f"the DRS rule '{rule.name}' keeps the VM together with {', '.join(elsewhere[:3])}, which runs elsewhere"
