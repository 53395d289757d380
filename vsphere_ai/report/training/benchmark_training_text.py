"""Results of training benchmarks (Megatron, scaling, burn) as text and as documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from textwrap import wrap

from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.benchmarks.history import Trend
from vsphere_ai.benchmarks.programs.burn import Burned, GpuVerdict
from vsphere_ai.benchmarks.programs.scaling import ScalingStep
from vsphere_ai.benchmarks.programs.training_results import BurnResult, MegatronResult, ScaleResult
from vsphere_ai.benchmarks.result_documents import (
    AddedVmDocument,
    BurnDocument,
    BurnedGpuDocument,
    BurnedVmDocument,
    BurnSamplesDocument,
    MegatronDocument,
    ScalingDocument,
    ScalingStepDocument,
)
from vsphere_ai.model.finding import Finding, Verdict, worst
from vsphere_ai.model.text import counted, safe
from vsphere_ai.report.layout import table

WIDTH = 80


def _folded(lines: Iterable[str], indent: int = 10) -> Iterator[str]:
    """Yield lines, those that are too long in several."""
    for line in lines:
        yield from wrap(
            line, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
        ) or [line]


def megatron_text(result: MegatronResult) -> str:
    """Return what a run of Megatron reached, and what is to say of it."""
    about = f"{counted(result.gpus, 'GPU')} of {counted(len(result.nodes), 'VM')}"
    lines = [f"Megatron-LM {result.test.name}: {about}"]
    reached = result.reached
    if reached is not None:
        lines.append(f"  step time   {reached.time:.1f} ms, median of {reached.iterations} after {result.test.warmup}")
        tflops = f"{reached.tflops:.1f} TFLOP/s per GPU" if reached.tflops is not None else "not logged"
        tokens = f"{result.tokens:,.0f} tokens/s" if result.tokens is not None else "not logged"
        lines += [f"  throughput  {tflops}, {tokens}", f"  loss        {_loss(result)}"]
    if result.expected is not None:
        lines.append(f"  baseline    {result.expected.tflops:.1f} TFLOP/s per GPU")
    lines += [f"  history     {_trend(result.trend)}"] if result.trend is not None else []
    lines += _folded(safe(f"  log     {line}") for line in result.tail)
    return "\n".join(lines)


def _loss(result: MegatronResult) -> str:
    first = next((i.loss for i in result.iterations if i.loss is not None), None)
    if first is None or result.loss is None:
        return "not logged"
    return f"{first:.3f} at first, {result.loss:.3f} at last" + ("" if math.isfinite(result.loss) else ": no number")


def _trend(trend: Trend) -> str:
    if trend.norm is None:
        return "the first result of the set"
    verdict = "slower" if trend.is_worse else "faster" if trend.is_significant else "as before"
    return f"{trend.change:+.1%} against {counted(trend.norm.count, 'earlier result')}: {verdict}"


def megatron_document(result: MegatronResult, findings: Iterable[Finding]) -> MegatronDocument:
    """Return a run of Megatron as it is printed, with these findings; a loss that is no number is a text."""
    reached, loss = result.reached, result.loss
    return MegatronDocument.of(
        findings,
        vms=tuple(node.vm for node in result.nodes),
        gpus=result.gpus,
        test=result.test.name,
        iterations=len(result.iterations),
        step_ms=reached.time if reached else None,
        spread=reached.spread if reached else None,
        tflops_per_gpu=reached.tflops if reached else None,
        samples_per_second=reached.samples if reached else None,
        tokens_per_second=result.tokens,
        loss=loss if loss is None or math.isfinite(loss) else str(loss),
        baseline=result.expected,
        change=_change(result.trend),
        log=result.tail,
    )


def _change(trend: Trend | None) -> float | None:
    return trend.change if trend and trend.norm else None


def scale_text(result: ScaleResult) -> str:
    """Return the efficiency of each size, and the step at which it falls."""
    rows = [(s.vms, f"{s.value:.1f}", f"{s.speedup:.2f}", f"{s.efficiency:.0%}") for s in result.scales]
    lines = [table(("VMs", f"all, {result.unit}", "speed-up", "efficiency"), rows)] if rows else []
    step = result.step
    if step is not None:
        change = f"{step.before.efficiency:.0%} to {step.after.efficiency:.0%}"
        lines.append(f"efficiency falls from {step.before.vms} to {step.after.vms} VMs: {change}")
        added = [f"{vm} on {result.hosts[vm]}" if result.hosts.get(vm) else vm for vm in step.added]
        lines += [safe(f"  added: {each}") for each in added]
    elif rows and is_passed(result.findings):
        lines.append("efficiency falls nowhere")
    return "\n".join(lines)


def scale_document(result: ScaleResult, findings: Iterable[Finding]) -> ScalingDocument:
    """Return the sizes as they are printed, with these findings."""
    falls = _step_document(result.step, result.hosts) if result.step else None
    own = {"unit": result.unit, "sizes": result.scales, "falls": falls, "change": _change(result.trend)}
    return ScalingDocument.of(findings, **{"with": result.what, **own})


def _step_document(step: ScalingStep, hosts: Mapping[str, str]) -> ScalingStepDocument:
    added = tuple(AddedVmDocument(vm=vm, host=hosts.get(vm, "")) for vm in step.added)
    sizes = {"from": step.before.vms, "to": step.after.vms}
    return ScalingStepDocument.model_validate({**sizes, "lost": step.lost, "added": added})


def burn_text(result: BurnResult) -> str:
    """Return a line per GPU with what it did and showed, and how many VMs passed."""
    rows = [_burn_row(each) for each in result.gpus]
    lines = [table(("VM", "GPU", "host", "PCI address", "steps/s", "MHz", "W", "°C", "losses"), rows)]
    bad = sum(not is_passed(result.checks(node.vm)) for node in result.nodes)
    passed = len(result.nodes) - bad
    lines.append(f"{counted(passed, 'VM')} passed, {bad} did not, after {result.seconds / 60:.1f} min")
    return "\n".join(lines)


def _burn_row(each: GpuVerdict) -> tuple[object, ...]:
    gpu = each.gpu
    report = gpu.report
    clock, power, heat = _middle(s.clock for s in gpu.samples), _middle(s.power for s in gpu.samples), _most(gpu)
    bad = next((c.rule.partition(".")[2] for c in each.checks if c.rule in WRONG), "")
    losses = bad or ("equal" if report is not None and report.cycles else "-")
    speed = f"{report.speed:.1f}" if report is not None and report.speed else "-"
    return gpu.vm, gpu.index, gpu.host or "-", gpu.pci or "-", speed, clock, power, heat, losses


WRONG = ("burn.corrupt", "burn.differs", "burn.no-majority", "burn.not-finite", "burn.alone", "burn.refused")


def _middle(values: Iterable[float | None]) -> str:
    known = [v for v in values if v is not None]
    return f"{median(known):.0f}" if known else "-"


def _most(gpu: Burned) -> str:
    known = [s.temperature for s in gpu.samples if s.temperature is not None]
    return f"{max(known):.0f}" if known else "-"


def burn_document(result: BurnResult, findings: Iterable[Finding]) -> BurnDocument:
    """Return a burn as it is printed, with these findings."""
    vms = tuple(
        BurnedVmDocument(vm=node.vm, host=node.host, verdict=_verdict(result.checks(node.vm))) for node in result.nodes
    )
    gpus = tuple(map(_gpu_document, result.gpus))
    return BurnDocument.of(findings, seconds=result.seconds, vms=vms, gpus=gpus)


def _verdict(checks: Sequence[Finding]) -> Verdict:
    found = worst(checks)
    return "pass" if found == "info" else found


def _gpu_document(each: GpuVerdict) -> BurnedGpuDocument:
    gpu, report = each.gpu, each.gpu.report
    return BurnedGpuDocument(
        vm=gpu.vm,
        gpu=gpu.index,
        host=gpu.host,
        pci=gpu.pci,
        verdict=_verdict(each.checks),
        cycles=report.cycles if report else 0,
        steps_per_second=report.speed if report else None,
        digest=report.first if report else "",
        configuration=report.configuration if report else {},
        samples=BurnSamplesDocument(
            side=gpu.side,
            count=len(gpu.samples),
            clock_mhz=_value(s.clock for s in gpu.samples),
            power_w=_value(s.power for s in gpu.samples),
            temperature_c=max((s.temperature for s in gpu.samples if s.temperature is not None), default=None),
            throttle=tuple(sorted({f"0x{s.throttle:x}" for s in gpu.samples if s.throttle is not None})),
        ),
    )


def _value(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return median(known) if known else None
