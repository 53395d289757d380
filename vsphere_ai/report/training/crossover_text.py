"""Crossover as text and JSON: what was measured before and after, and the VM or host that is slow, with its parts."""

from __future__ import annotations

from collections.abc import Mapping

from vsphere_ai.benchmarks.result_documents import CrossoverLine, CrossoverTrialDocument
from vsphere_ai.benchmarks.slow_part.crossover import Answer, Crossover
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.model.text import safe

Measured = Mapping[Trial, float | None]


def figures_text(test: Crossover, before: Measured, after: Measured) -> str:
    """Return what was measured before and after the moves, as a table."""
    lines = [f"{'VMs':<40} {'before':>12} {'moved':>12}"]
    for trial in test.trials:
        figures = f"{_figure(before, trial):>12} {_figure(after, trial):>12}"
        lines.append(f"{safe(' + '.join(reversed(trial.vms))):<40} {figures}")
    return "\n".join(lines)


def _figure(found: Measured, trial: Trial) -> str:
    if trial not in found:
        return "-"
    value = found[trial]
    return f"{value:.2f} GB/s" if value is not None else "not measured"


def verdict_line(test: Crossover, answer: Answer, before: Measured, after: Measured) -> CrossoverLine:
    """Return the figures, the answer and its finding as a line."""
    suspect, finding = test.suspect, test.finding(answer)
    return CrossoverLine(
        type="verdict",
        answer=answer,
        vm=suspect.vm,
        host=suspect.host,
        to=test.healthy.host if test.healthy else test.to,
        swapped_with=test.healthy.vm if test.healthy else "",
        gpus=tuple(gpu.host_pci for gpu in suspect.gpus),
        vmnics=tuple(rail.vmnic for rail in suspect.rails if rail.vmnic),
        trials=tuple(
            CrossoverTrialDocument(vms=t.vms, runs=t.runs, before=before.get(t), moved=after.get(t))
            for t in test.trials
        ),
        verdict=finding.verdict,
        findings=(FindingDocument.of(finding),),
    )
