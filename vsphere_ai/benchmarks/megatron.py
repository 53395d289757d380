"""Log lines of Megatron-LM: time and throughput per iteration, after the warm-up.

Two versions of the line are known: with a time stamp and the throughput per GPU (`--log-throughput`), and without.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev

MAX_LINE, MAX_ITERATIONS = 4096, 100_000
_LINE = re.compile(r"\biteration\s+(\d{1,12})/\s*(\d{1,12}) \|(.*)")
_FIELD = re.compile(r"\s*([^|:]{1,60}):\s*([^|\s]{1,40})\s*(?:\||$)")


@dataclass(frozen=True)
class Iteration:
    """An iteration: `time` in ms, `tflops` per GPU (None: not logged), `batch` in samples, `loss` of the language."""

    number: int
    of: int
    time: float
    tflops: float | None = None
    batch: int | None = None
    loss: float | None = None
    skipped: int = 0
    not_numbers: int = 0


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
        iteration = _iteration(match) if match else None
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
    fields = {name.strip(): value for name, value in _FIELD.findall(match[3])}
    time = _number(fields.get("elapsed time per iteration (ms)"))
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
        _number(fields.get("throughput per GPU (TFLOP/s/GPU)")),
        int(batch) if batch is not None else None,
        _number(fields.get("lm loss")),
        int(skipped or 0),
        int(bad or 0),
    )


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"[-+]?\d{1,15}(?:\.\d{1,15})?(?:[eE][-+]?\d{1,3})?", text):
        return None
    value = float(text)
    return value if abs(value) < 1e300 else None
