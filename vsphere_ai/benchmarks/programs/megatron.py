"""Log lines of Megatron-LM: time and throughput per iteration, after the warm-up, and what is to say of them.

A line has fields between ``|`` in any order, ``name: value`` or ``name value``; versions and forks spell them in their
own way (Megatron-LM, Megatron-DeepSpeed, FlagScale, Primus). Megatron-Bridge prints ``Step Time : 12.3s GPU
utilization: 450.1MODEL_TFLOP/s/GPU``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev

from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput
from vsphere_ai.model.finding import Finding

MAX_LINE, MAX_ITERATIONS = 4096, 100_000
UNSTEADY = 0.1
"""Spread of the iterations' times above which the median says little."""
_LINE = re.compile(r"\biteration\s+(\d{1,12})/\s*(\d{1,12})\s*\|(.*)")
_FIELD = re.compile(r"\s*([^|]{1,80}?)\s*(?::\s*|\s)([^|\s:]{1,40})\s*$")
_BRIDGE = re.compile(r"Step Time\s*:\s*([\d.]{1,20})\s*s\b.{0,40}?GPU utilization:\s*([\d.]{1,20})\s*MODEL_TFLOP/s/GPU")
_TFLOPS = ("throughput per gpu (tflop/s/gpu)", "throughput per gpu (tflops/gpu)", "tflops/gpu", "tflops")


@dataclass(frozen=True)
class Iteration:
    """An iteration: `time` in ms, `tflops` per GPU (None: not logged), `batch` in samples, `loss` of the language.

    `skipped` and `not_numbers` count the iterations so far that were skipped, or gave no number; None: not logged.
    A loss that is logged as nan or inf is that number.
    """

    number: int
    of: int | None
    time: float
    tflops: float | None = None
    batch: int | None = None
    loss: float | None = None
    skipped: int | None = None
    not_numbers: int | None = None


@dataclass(frozen=True)
class Throughput:
    """Iterations after the warm-up: median time in ms and its relative spread, TFLOP/s per GPU, samples per second."""

    iterations: int
    time: float
    spread: float
    tflops: float | None
    samples: float | None


def parse_megatron(lines: Iterable[str]) -> tuple[Iteration, ...]:
    """Return the iterations of a log; lines of several ranks or restarts stay in their order."""
    found: list[Iteration] = []
    for line in lines:
        match = _LINE.search(line[:MAX_LINE])
        iteration = _iteration(match) if match else _of_bridge(line[:MAX_LINE], len(found) + 1)
        if iteration and len(found) < MAX_ITERATIONS:
            found.append(iteration)
    return tuple(found)


def throughput(iterations: Sequence[Iteration], warmup: int = 5) -> Throughput | None:
    """Return the throughput after `warmup` iterations of the log; None where none is left."""
    kept = iterations[warmup:]
    if not kept:
        return None
    times = [i.time for i in kept]
    flops, middle = [i.tflops for i in kept if i.tflops is not None], median(times)
    batches = [i.batch for i in kept if i.batch]
    samples = median(batches) / middle * 1e3 if batches else None
    return Throughput(len(kept), middle, pstdev(times) / fmean(times), median(flops) if flops else None, samples)


def _iteration(match: re.Match[str]) -> Iteration | None:
    parts = (_FIELD.match(part) for part in match[3].split("|"))
    fields = {found[1].strip().lower(): found[2] for found in parts if found}
    time = _milliseconds(fields)
    if time is None or time <= 0:
        return None
    batch, skipped, bad = (
        _number(fields.get(name))
        for name in ("global batch size", "number of skipped iterations", "number of nan iterations")
    )
    return Iteration(
        int(match[1]),
        int(match[2]),
        time,
        next((value for name in _TFLOPS if (value := _number(_now(fields.get(name)))) is not None), None),
        int(batch) if batch is not None else None,
        _loss(fields.get("lm loss")),
        int(skipped) if skipped is not None else None,
        int(bad) if bad is not None else None,
    )


def _milliseconds(fields: Mapping[str, str]) -> float | None:
    """Return the time of an iteration; forks of Megatron-DeepSpeed print seconds, Primus now and on average."""
    seconds = _number(_now(fields.get("elapsed time per iteration (s)")))
    return seconds * 1e3 if seconds is not None else _number(_now(fields.get("elapsed time per iteration (ms)")))


def _now(text: str | None) -> str | None:
    """Return the value of now of ``491.8/492.9``, which is now and on average."""
    return text.partition("/")[0] if text is not None else None


def _of_bridge(line: str, number: int) -> Iteration | None:
    match = _BRIDGE.search(line)
    seconds = _number(match[1]) if match else None
    return Iteration(number, None, seconds * 1e3, _number(match[2])) if match and seconds else None


def megatron_checks(found: Sequence[Iteration], wanted: int, warmup: int) -> Iterator[Finding]:
    """Yield what is wrong with a run of `wanted` iterations, of which `warmup` are not measured."""
    if not found:
        yield of_run("megatron.not-measured", "unknown", "no iteration was logged", "look at the log of the run")
        return
    last = found[-1].number
    if last < wanted:
        yield of_run("megatron.not-measured", "unknown", f"{last} of {wanted} iterations were logged")
    bad = next((i for i in found if i.not_numbers or (i.loss is not None and not math.isfinite(i.loss))), None)
    if bad is not None:
        text = f"the loss is no number from iteration {bad.number} on"
        yield of_run("megatron.loss", "fail", text, "find the GPU that computes wrongly with bench burn")
    elif all(i.loss is None for i in found):
        yield of_run("megatron.no-loss", "unknown", "no loss was logged", "look at the log of the run")
    if skipped := max((i.skipped for i in found if i.skipped is not None), default=None):
        yield of_run("megatron.skipped", "warn", f"{skipped} iterations were skipped")
    total = throughput(found, warmup)
    if total is not None and total.spread > UNSTEADY:
        text = f"the times of the iterations differ by {total.spread:.0%} (1 sigma)"
        yield of_run("megatron.unsteady", "warn", text, "look for other work on the VMs and their hosts")
    if total is not None and total.tflops is None:
        yield of_run("megatron.no-throughput", "warn", "no TFLOP/s were logged: this Megatron has no --log-throughput")


def megatron_gate(tflops: float | None, expected: ExpectedThroughput, tolerance: float) -> Finding | None:
    """Return what is wrong with the TFLOP/s per GPU of a run, None where they are as expected."""
    if tflops is None:
        return of_run("megatron.not-measured", "unknown", f"{expected.model}: TFLOP/s were not measured")
    if tflops >= expected.tflops * (1 - tolerance):
        return None
    below = 1 - tflops / expected.tflops
    text = f"{expected.model}: {tflops:.1f} TFLOP/s per GPU is {below:.1%} below the baseline {expected.tflops:.1f}"
    return of_run(
        "megatron.below-baseline", "fail", text, "find the slow part with bench scale and bench nccl --bisect"
    )


def _loss(text: str | None) -> float | None:
    if text is not None and text.lower().lstrip("+-") in ("nan", "inf"):
        return float(text)
    return _number(text)


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"[-+]?\d{1,15}(?:\.\d{1,15})?(?:[eE][-+]?\d{1,3})?", text):
        return None
    value = float(text)
    return value if abs(value) < 1e300 else None
