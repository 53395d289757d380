"""Health of VMs in words, as JSON, and a profile as YAML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vsphere_ai.health.checks import VmHealth
from vsphere_ai.health.finding import Finding, worst
from vsphere_ai.health.profile import Profile
from vsphere_ai.model.text import counted, safe


def health_text(vms: Sequence[VmHealth]) -> str:
    """Return a line per VM with its verdict, and below it what was found, the worst first."""
    return "\n".join(_lines(vms))


def _lines(vms: Sequence[VmHealth]) -> Iterator[str]:
    names = max([2, *(len(vm.node.vm) for vm in vms)])
    hosts = max([4, *(len(vm.node.host) for vm in vms)])
    yield f"{'VM':<{names}}  {'HOST':<{hosts}}  VERDICT"
    for vm in vms:
        yield f"{safe(vm.node.vm):<{names}}  {safe(vm.node.host):<{hosts}}  {vm.verdict.upper()}"
        for each in vm.findings:
            yield f"  {each.verdict:<7}  {_sentence(each)}"
            if each.remedy:
                yield f"           -> {safe(each.remedy)}"
    bad = sum(vm.verdict not in ("ok", "info") for vm in vms)
    yield (f"{counted(len(vms), 'VM')}, {bad} with problems" if bad else f"{counted(len(vms), 'VM')}, all well")


def _sentence(finding: Finding) -> str:
    part = f", {safe(finding.part)}" if finding.part else ""
    side = " (seen by the host)" if finding.witness == "host" else ""
    return f"{finding.check}{part}: {safe(finding.message)}{side}"


def health_document(vcenter: str, vms: Sequence[VmHealth]) -> dict[str, object]:
    """Return the same as values for JSON."""
    rows = [
        {
            "vm": vm.node.vm,
            "host": vm.node.host,
            "verdict": vm.verdict,
            "gpus": [
                {"index": g.index, "host_pci": g.host_pci, "uuid": g.uuid, "profile": g.profile} for g in vm.node.gpus
            ],
            "findings": [
                {
                    "check": f.check,
                    "verdict": f.verdict,
                    "witness": f.witness,
                    "part": f.part,
                    "message": f.message,
                    "remedy": f.remedy,
                }
                for f in vm.findings
            ],
        }
        for vm in vms
    ]
    verdict = worst(f for vm in vms for f in vm.findings)
    return {"vcenter": vcenter, "verdict": verdict, "vms": rows}


def profile_text(profile: Profile) -> str:
    """Return a profile as YAML, with what was learned only."""
    import yaml

    said = profile.model_dump(exclude_defaults=True)
    return yaml.safe_dump(said, sort_keys=False) if said else "{}\n"
