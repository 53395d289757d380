"""Findings about the estate: a check that fails on most VMs at once has one cause, and accuses none of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vsphere_ai.health.checks import VmHealth
from vsphere_ai.health.finding import COMMON, VmFinding, names_of
from vsphere_ai.model.finding import Finding, seriousness, worst
from vsphere_ai.model.names.name_ranges import listed

FEWEST = 3
"""VMs on which a check has to fail at least."""
REMEDY = "look at the check, and at what the VMs have in common (image, driver, switch), before anything is repaired"


def shared(vms: Sequence[VmHealth], share: float) -> tuple[tuple[VmHealth, ...], tuple[Finding, ...]]:
    """Return VMs, and one finding for each check that fails on more than a share of them, on two hosts or more.

    It names the VMs as evidence. Such a finding of a VM becomes `unknown`: whether the VM itself is at fault cannot be
    said. Source of the share: NVIDIA/NVSentinel, pull 1852 (half of the nodes).
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
        estate.append(Finding(None, check, worst(found), message, REMEDY, tuple(_named(found))))
    checks = {f.rule: f.message.partition(":")[0] for f in estate}
    return tuple(_without(vm, checks) for vm in vms), tuple(estate)


def _named(findings: Sequence[VmFinding]) -> Iterator[tuple[str, str]]:
    """Yield names of VMs, and what is wrong with all of them."""
    by_text: dict[str, list[str]] = {}
    for finding in findings:
        by_text.setdefault(finding.message, []).append(finding.target.name)
    for text, names in by_text.items():
        yield listed(dict.fromkeys(names)), text


def _without(vm: VmHealth, checks: Mapping[str, str]) -> VmHealth:
    found = [
        replace(f, verdict="unknown", evidence=(*f.evidence, (COMMON, checks[f.rule])))
        if f.rule in checks and f.verdict not in ("pass", "info")
        else f
        for f in vm.findings
    ]
    return VmHealth(vm.node, tuple(sorted(found, key=lambda f: -seriousness(f))))
