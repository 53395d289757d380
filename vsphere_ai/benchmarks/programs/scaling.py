"""Scaling of a set over 1, 2, 4 … VMs: speed-up, efficiency, and where it breaks off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.model.finding import Finding

LEAST = 0.8
"""Efficiency below which scaling is poor; Horovod's page publishes 0.9 for two models and 0.68 for VGG-16, on 128
servers with 25 Gb/s RoCE."""
DROP = 0.1
"""A loss of efficiency from one size to the next that is named."""


@dataclass(frozen=True)
class Scale:
    """A run on some VMs: `value` is samples or FLOP per second of all, `speedup` and `efficiency` against the least.

    Efficiency is speed-up over the ratio of VMs: 1 is linear.
    """

    vms: int
    value: float
    speedup: float
    efficiency: float


def scaling(values: Mapping[int, float]) -> tuple[Scale, ...]:
    """Return the scales of total throughput by number of VMs; ValueError where a number is not above 0."""
    if any(vms <= 0 or value <= 0 for vms, value in values.items()):
        raise ValueError("numbers of VMs and throughputs are above 0")
    if not values:
        return ()
    least = min(values)
    base = values[least]
    return tuple(Scale(n, v, v / base, v / base * least / n) for n, v in sorted(values.items()))


def counts(most: int, least: int = 1) -> tuple[int, ...]:
    """Return 1, 2, 4 … up to a number of VMs, and that number itself; none below `least`."""
    made = [1 << power for power in range(max(1, most).bit_length())]
    return tuple(n for n in ((*made, most) if most > made[-1] else made) if n >= least)


@dataclass(frozen=True)
class ScalingStep:
    """The step from one size to the next at which most efficiency is lost; `added` are the VMs that came with it."""

    before: Scale
    after: Scale
    added: tuple[str, ...]

    @property
    def lost(self) -> float:
        """The efficiency that is lost, as a share of linear."""
        return self.before.efficiency - self.after.efficiency


def falls(scales: Sequence[Scale], vms: Sequence[str]) -> ScalingStep | None:
    """Return the step at which efficiency falls most, None where none loses more than `DROP`; VMs in their order."""
    steps = [ScalingStep(a, b, tuple(vms[a.vms : b.vms])) for a, b in pairwise(scales)]
    worst = max(steps, key=lambda step: step.lost, default=None)
    return worst if worst is not None and worst.lost > DROP else None


def scaling_checks(scales: Sequence[Scale], least: float = LEAST) -> Iterator[Finding]:
    """Yield where efficiency is below the least, and where it drops from one size to the next."""
    for before, scale in pairwise(scales):
        text = f"{scale.vms} VMs reach {scale.speedup:.2f} times {scales[0].vms}: {scale.efficiency:.0%} of linear"
        if scale.efficiency < least:
            yield of_run("scale.poor", "fail", text, "find the slow part with bench nccl --bisect")
        elif before.efficiency - scale.efficiency > DROP:
            yield of_run("scale.drop", "warn", f"{text}, after {before.efficiency:.0%} on {before.vms}")
