"""Baselines: bus bandwidths that a set of VMs is known to reach, and results compared with them.

A measurement that is missing is not passed, and ranks above a warning. Bandwidth above the baseline, or above the line
rate of the network (as in-switch reduction gives), is no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field

from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.nccl.nccl_run import NcclRun
from vsphere_ai.benchmarks.statistics import Norm, Sensitivity, norm
from vsphere_ai.documents.part import WholePart
from vsphere_ai.model.finding import Finding

TOLERANCE = 0.1


class ExpectedBandwidth(WholePart):
    """What a collective is expected to reach: bus bandwidth (GB/s) at a size (bytes) on this many ranks.

    `ranks` and `size` of None fit any. `sigma` is the spread in GB/s with which it was learned from `runs` runs.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    operation: str
    busbw: Annotated[float, Field(gt=0, lt=1e18)]
    ranks: Annotated[int, Field(ge=0)] | None = None
    size: Annotated[int, Field(ge=0)] | None = None
    sigma: Annotated[float, Field(ge=0, lt=1e18)] | None = None
    runs: Annotated[int, Field(ge=0)] = 1

    @property
    def visible(self) -> float | None:
        """Smallest slowdown (a share) that one run shows against this; None where the spread is not known."""
        return Sensitivity(self.sigma / self.busbw).smallest if self.sigma else None


def learn(runs: Sequence[NcclRun], ranks: int | None = None) -> tuple[ExpectedBandwidth, ...]:
    """Return baselines of runs by collective, ranks and largest size, outliers left out and the spread kept.

    `ranks` is the number the runs were started with, where their text does not say it.
    """
    found: dict[tuple[str, int | None, int], list[float]] = {}
    for run in runs:
        if run.collective and run.largest and run.peak:
            found.setdefault((run.collective.name, run.declared_ranks or ranks, run.largest), []).append(run.peak)
    learned: list[ExpectedBandwidth] = []
    for (operation, count, size), values in sorted(found.items(), key=str):
        each: Norm | None = norm(values)
        if each:
            sigma = round(each.sigma, 4) if each.count > 1 else None
            mean = round(each.mean, 4)
            learned.append(
                ExpectedBandwidth(operation=operation, busbw=mean, ranks=count, size=size, sigma=sigma, runs=each.count)
            )
    return tuple(learned)


@dataclass(frozen=True)
class Comparison:
    """A run beside what was expected of it; `measured` is None where nothing was measured, `share` of what."""

    expected: ExpectedBandwidth
    measured: float | None

    @property
    def share(self) -> float | None:
        """Measured over expected."""
        return self.measured / self.expected.busbw if self.measured is not None else None


def compare(
    runs: Sequence[NcclRun], expected: Sequence[ExpectedBandwidth], ranks: int | None = None
) -> Iterator[tuple[Comparison, NcclRun | None]]:
    """Yield every expectation with each run that it is about, with no run where none is.

    `ranks` is the number the runs were started with, where their text does not say it.
    """
    for each in expected:
        own = [run for run in runs if _is_about(each, run, ranks)]
        for run in own:
            yield Comparison(each, _measured(each, run)), run
        if not own:
            yield Comparison(each, None), None


def _is_about(expected: ExpectedBandwidth, run: NcclRun, ranks: int | None) -> bool:
    names = {c.name for c in run.collectives}
    declared = run.declared_ranks or ranks
    return expected.operation in names and (not expected.ranks or not declared or expected.ranks == declared)


def _measured(expected: ExpectedBandwidth, run: NcclRun) -> float | None:
    if expected.size is None:
        return run.peak
    return max((row.busbw for row in run.rows if row.size == expected.size and row.measures), default=None)


def gate(comparison: Comparison, tolerance: float = TOLERANCE) -> Finding | None:
    """Return what is wrong with a result, None where it is as expected: `fail` below, `unknown` when missing."""
    expected, share = comparison.expected, comparison.share
    what = f"{expected.operation}{f' on {expected.ranks} ranks' if expected.ranks else ''}"
    at = f" at {expected.size} bytes" if expected.size else ""
    if share is None:
        return of_run("nccl.not-measured", "unknown", f"{what}{at}: not measured", "run it: what is missing is no pass")
    if share >= 1 - tolerance:
        return None
    text = f"{what}{at}: {comparison.measured:.2f} GB/s is {1 - share:.1%} below the baseline {expected.busbw:.2f}"
    return of_run("nccl.below-baseline", "fail", text)
