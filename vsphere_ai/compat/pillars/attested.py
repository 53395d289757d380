"""Rules that software cannot judge: an operator answers them in a file of attestations, with name and date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from vsphere_ai.compat.pillars.base import PillarCase, PillarRule
from vsphere_ai.model.finding import Finding, Verdict

FRAMEWORK = "Azure Well-Architected Framework, AI workloads on Azure infrastructure"
QUESTIONS = {
    "reliability.backups": ("Backups", "Are model data, datasets and configuration backed up regularly?"),
    "reliability.configuration-kept": ("Configuration in version control", "Are playbooks and inventory in Git?"),
    "reliability.recovery-path": ("Way to go on", "Can a job go on after the loss of a VM: elastic, or by checkpoint?"),
    "reliability.update-schedule": ("Update schedule", "Is there a schedule for updates of hosts, drivers and images?"),
    "security.model-integrity": ("Integrity of models", "Are hashes or signatures of models and scripts compared?"),
    "security.model-versions": ("Versions of models", "Are model files under version control?"),
    "security.output-anomalies": ("Unusual outputs", "Is someone alerted of unusual outputs of models?"),
    "security.revalidation": ("Revalidation", "Are models validated again on a schedule?"),
    "security.data-lineage": ("Data lineage", "Is the origin of training data recorded?"),
    "security.rate-limits": ("Limits of requests", "Are quotas and rate limits set where models are served?"),
    "security.vulnerability-scans": ("Vulnerability scans", "Are images and hosts scanned for vulnerabilities?"),
    "cost.idle-policy": ("Rule for idle VMs", "Is there a rule that ends idle training VMs?"),
    "cost.orphan-disks": ("Disks without a VM", "Are datastores searched for disks that no VM uses?"),
    "cost.allocation-review": ("Review of allocation", "Is the allocation of GPUs to teams reviewed regularly?"),
    "operations.checkpoints": ("Checkpoints", "Do jobs write checkpoints at an interval that was worked out?"),
    "operations.restore-drill": ("Restore drill", "Was going on from a checkpoint tried in the last year?"),
    "performance.checkpoint-time": ("Time of checkpoints", "Does writing take at most 5 % of the interval?"),
}


def _judge(case: PillarCase) -> Finding | None:
    found = case.records.attestations.get(case.rule.id)
    if found is None:
        return case.unknown(f"no answer: {case.rule.question}", remedy=f"answer {case.rule.id} in the attestations")
    said = f"answered {found.answer} by {found.owner} on {found.given.isoformat()}"
    seen = ("attestation", f"{said}, holds until {found.expires.isoformat()}")
    note = f": {found.note}" if found.note else ""
    if found.expires < case.records.today:
        return case.unknown(f"the answer expired on {found.expires.isoformat()}{note}", seen, remedy="answer it again")
    if found.answer == "no":
        return case.failed(f"{said}{note}", seen)
    return case.passed(f"{said}{note}", seen) if found.answer == "yes" else None


def rules() -> Iterator[PillarRule]:
    """Yield the rules, one for each question."""
    verdicts: Mapping[Verdict | Literal["not applicable"], str] = {
        "pass": "answered yes, by name and date",
        "fail": "answered no",
        "unknown": "not answered, or expired",
        "not applicable": "answered so",
    }
    for name, (title, question) in QUESTIONS.items():
        about = PillarRule(
            name,
            title,
            about="attestation",
            source=FRAMEWORK,
            verdicts=verdicts,
            question=question,
            by_hand="an operator answers it",
        )
        yield about(_judge)
