"""Statistics of a fleet: norm and spread without outliers, the outliers, and the smallest slowdown that is seen.

Sources: iterated removal as in microsoft/superbenchmark superbench/analyzer/baseline_generation.py; modified z-score
0.6745 × (x - median) / MAD below -2, z below -2 and -3 as in Azure/ai-infrastructure-on-azure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist, fmean, median, pstdev

MODIFIED_Z, SUSPECT_Z = -2.0, -2.0
FEWEST_FOR_Z = 10
"""Plain z-scores need this many values."""
NEGLIGIBLE = 0.01
"""A value less than 1 % below the median is no outlier, however close the others are."""


@dataclass(frozen=True)
class Norm:
    """Norm of values of one measurement, such as bus bandwidths in GB/s: mean and spread (1 σ) of those that are kept.

    `removed` is the number of outliers that were left out, `count` of the values that were kept.
    """

    mean: float
    sigma: float
    count: int
    removed: int = 0

    @property
    def spread(self) -> float:
        """Relative spread: σ / mean."""
        return self.sigma / self.mean if self.mean else 0.0


def norm(values: Sequence[float], tolerance: float = 0.05) -> Norm | None:
    """Return the norm: values further than `tolerance` from the median are left out, again until none is.

    The median, and not the mean, so that bad values do not take good ones with them; the furthest goes first. None
    without values; a majority is always kept.
    """
    kept = sorted(v for v in values if v > 0)
    if not kept:
        return None
    total = len(kept)
    while len(kept) > total // 2 + 1:
        middle = median(kept)
        far = max(kept, key=lambda v: abs(v - middle))
        if abs(far - middle) <= tolerance * middle:
            break
        kept.remove(far)
    return Norm(fmean(kept), pstdev(kept), len(kept), len(values) - len(kept))


@dataclass(frozen=True)
class Outlier:
    """A value that is low among others: `modified_z` by median and MAD, `z` by mean and σ where there are enough.

    `below` is the share by which it is below the median.
    """

    name: str
    value: float
    below: float
    modified_z: float
    z: float | None = None


def outliers(values: Mapping[str, float]) -> tuple[Outlier, ...]:
    """Return the low outliers of values by name, the lowest first; none of fewer than three values."""
    if len(values) < 3:
        return ()
    middle = median(values.values())
    # the MAD of equal values is 0: rounding of printed figures is the least there is
    spread = max(median(abs(v - middle) for v in values.values()), 1e-3 * abs(middle), 1e-12)
    mean, sigma = fmean(values.values()), pstdev(values.values())
    found = []
    for name, value in values.items():
        modified = 0.6745 * (value - middle) / spread
        below = 1 - value / middle if middle else 0.0
        z = (value - mean) / sigma if sigma and len(values) >= FEWEST_FOR_Z else None
        if modified < MODIFIED_Z and below > NEGLIGIBLE:
            found.append(Outlier(name, value, below, modified, z))
    return tuple(sorted(found, key=lambda o: o.value))


@dataclass(frozen=True)
class Sensitivity:
    """What a gate sees: `sigma` is the relative spread of one run, `runs` the runs per test, of `tests` tests.

    `error` is the chance that any healthy test fails, `power` that a slow one is seen.
    """

    sigma: float
    runs: int = 1
    tests: int = 1
    error: float = 0.01
    power: float = 0.99

    @property
    def _scores(self) -> tuple[float, float]:
        normal = NormalDist()
        return normal.inv_cdf(1 - self.error / max(1, self.tests)), normal.inv_cdf(self.power)

    @property
    def smallest(self) -> float:
        """Smallest slowdown (share of the norm) that is seen."""
        return sum(self._scores) * self.sigma / sqrt(max(1, self.runs))

    @property
    def gate(self) -> float:
        """Share of the norm below which a test fails, for the smallest slowdown."""
        return 1 - self.smallest * self._scores[0] / sum(self._scores)

    def needed(self, slowdown: float) -> int:
        """Return the runs per test that a slowdown needs, such as 0.1 for 10 %; ValueError: not above 0."""
        if slowdown <= 0:
            raise ValueError("a slowdown is more than 0")
        return max(1, ceil((sum(self._scores) * self.sigma / slowdown) ** 2 - 1e-9))
