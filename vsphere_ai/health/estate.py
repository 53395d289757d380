"""Findings about the estate: a check that fails on most VMs at once has one cause, and accuses none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vsphere_ai.health.checks import VmHealth
from vsphere_ai.health.finding import COMMON, VmFinding, names_of
from vsphere_ai.model.finding import Finding, seriousness, worst

FEWEST = 3
"""VMs on which a check has to fail at least."""
REMEDY = "look at the check, and at what the VMs have in common (image, driver, switch), before anything is repaired"


def shared(vms: Sequence[VmHealth], share: float) -> tuple[tuple[VmHealth, ...], tuple[Finding, ...]]:
    """Return VMs, and one finding for each check that fails on more than a share of them, on two hosts or more.

    Such a finding of a VM becomes `unknown`: whether the VM itself is at fault cannot be said. Source of the share:
    NVIDIA/NVSentinel, pull 1852 (half of the nodes).
    """
    by_check: dict[str, list[VmFinding]] = {}
    for vm in vms:
        for each in vm.findings:
            if each.verdict not in ("pass", "info"):
                by_check.setdefault(each.rule, []).append(each)
    estate = []
    for check, found in by_check.items():
        names = names_of(found)
        if len(names) < FEWEST or len(names) <= share * len(vms) or len({f.target.host for f in found}) < 2:
            continue
        message = f"{check} fails on {len(names)} of {len(vms)} VMs: the check, or a common cause"
        texts = ", ".join(dict.fromkeys(f.message for f in found))
        estate.append(Finding(None, check, worst(found), f"{message} ({texts[:300]})", REMEDY))
    checks = {f.rule: f.message.partition(":")[0] for f in estate}
    return tuple(_without(vm, checks) for vm in vms), tuple(estate)


def _without(vm: VmHealth, checks: Mapping[str, str]) -> VmHealth:
    found = [
        replace(f, verdict="unknown", evidence=(*f.evidence, (COMMON, checks[f.rule])))
        if f.rule in checks and f.verdict not in ("pass", "info")
        else f
        for f in vm.findings
    ]
    return VmHealth(vm.node, tuple(sorted(found, key=lambda f: -seriousness(f))))
