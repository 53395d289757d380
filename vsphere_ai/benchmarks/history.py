"""Trends of the results of a set.

Results are compared with the same measurement only: benchmark, operation, ranks and size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from vsphere_ai.benchmarks.statistics import Norm, norm
from vsphere_ai.documents.benchmark_history import BenchmarkResult
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.text import counted

MOST = 10_000
"""Results of a file that are looked at, the newest ones."""
WINDOW = 20
"""Earlier results that a new one is compared with."""
SIGNIFICANT = 3.0
"""Spreads of the earlier results by which a new one is better or worse."""
NEGLIGIBLE = 0.02


@dataclass(frozen=True)
class Trend:
    """The newest result beside the earlier ones: `change` is its share above their norm, negative where slower.

    `slope` is the change per result over all of them, as a share of their mean; `is_worse` and `is_better` where the
    change is more than the spread explains. `norm` is None for the first result.
    """

    newest: BenchmarkResult
    count: int
    norm: Norm | None
    change: float
    slope: float

    @property
    def is_significant(self) -> bool:
        """Whether the change is more than the spread of the earlier results explains."""
        return self.norm is not None and abs(self.change) > max(NEGLIGIBLE, SIGNIFICANT * self.norm.spread)

    @property
    def is_worse(self) -> bool:
        """Whether it became slower."""
        return self.is_significant and self.change < 0

    @property
    def slowdown(self) -> str:
        """By how much it is worse than the earlier results; empty where their spread explains it."""
        if not self.is_worse or self.norm is None:
            return ""
        earlier = f"{self.norm.mean:.2f} {self.newest.unit} of {counted(self.norm.count, 'earlier result')}"
        return f"{-self.change:.1%} slower than the {earlier}"

    @property
    def finding(self) -> Finding[Subject]:
        """A warning where it became slower, else a pass; about the set."""
        own, on = self.newest, Subject("set", self.newest.set)
        what = f"{own.benchmark} {own.operation}, {counted(own.ranks, 'rank')}"
        if self.slowdown:
            remedy = "find the slow part with bench nccl --bisect"
            return Finding(on, "bench.slower", "warn", f"{what}: {self.slowdown}", remedy)
        text = "no slower than before" if self.norm is not None else "the first result"
        return Finding(on, "bench.slower", "pass", f"{what}: {text}")


def trends(results: Sequence[BenchmarkResult]) -> tuple[Trend, ...]:
    """Return the trend of each measurement, in the order of the newest results."""
    of: dict[tuple[object, ...], list[BenchmarkResult]] = {}
    for result in sorted(results, key=lambda r: r.at)[-MOST:]:
        of.setdefault(result.key, []).append(result)
    return tuple(sorted(map(_trend, of.values()), key=lambda t: t.newest.at))


def _trend(results: Sequence[BenchmarkResult]) -> Trend:
    *before, newest = results[-WINDOW - 1 :]
    base = norm([r.value for r in before])
    change = newest.value / base.mean - 1 if base and base.mean else 0.0
    return Trend(newest, len(results), base, change, _slope([r.value for r in (*before, newest)]))


def _slope(values: Sequence[float]) -> float:
    """Return the slope of a straight line through values, per value and as a share of their mean."""
    mean, middle = fmean(values), (len(values) - 1) / 2
    over = sum((at - middle) ** 2 for at in range(len(values)))
    if not over or not mean:
        return 0.0
    return sum((at - middle) * (value - mean) for at, value in enumerate(values)) / over / mean
