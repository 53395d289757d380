"""Weights of vGPUs: they propose what GPUs are filled with and prove where there is no room."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from vsphere_ai.capacity.gpu import Vector
from vsphere_ai.capacity.groups import Budget, Group, Part

Weights = tuple[float, ...]

_SLACK = 1e-9
FRACTIONS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24)


def shares(groups: Sequence[Group], wanted: Vector) -> Weights:
    """Return per item the part of a GPU it takes at least."""
    most = [0] * len(wanted)
    for group in groups:
        for n, chain in zip(map(max, zip(*group.full, strict=True)), group.chains, strict=True):
            for i in chain:
                most[i] = max(most[i], n)
    return tuple(1 / n if n else 1.0 for n in most)


def adjusted(groups: Sequence[Group], wanted: Vector, budget: Budget, work: int) -> Iterator[Weights]:
    """Yield weights that grow where GPUs filled by weight offer less than is wanted, and shrink where they offer more.

    Multiplicative weights: they approach prices under which a demand that is too large proves itself so.
    """
    weights = list(shares(groups, wanted))
    size = sum(len(g.full) * len(g.chains) for g in groups) + 1
    for turn in range(max(4, min(200, work // size))):
        budget.work += size
        yield tuple(weights)
        pace = 0.5 / (1 + turn / 20)
        offered = [0] * len(wanted)
        for group in groups:
            for n, chain in zip(group.best(weights)[1], group.chains, strict=True):
                offered[max(chain, key=weights.__getitem__)] += n * group.count
        for i, n in enumerate(wanted):
            weights[i] *= math.exp(pace * (n - offered[i]) / max(n, offered[i], 1))
        top = max(weights, default=1.0)
        weights = [max(w / top, _SLACK) for w in weights]


def room(groups: Sequence[Group], weights: Sequence[float]) -> float:
    """Return the greatest weight that all GPUs hold together."""
    return sum(g.count * g.best(weights)[0] for g in groups)


def worth(counts: Sequence[int], weights: Sequence[float]) -> float:
    """Return the weight of so many of each item."""
    return sum(n * w for n, w in zip(counts, weights, strict=True))


def exceeds(need: float, room: float) -> bool:
    """Tell whether a weight is more than there is room for, beyond what rounding may do."""
    return need > room * (1 + _SLACK) + _SLACK


def propose(
    groups: Sequence[Group], wanted: Vector, weights: Weights
) -> tuple[tuple[tuple[tuple[Part, int], ...], ...], tuple[int, ...]]:
    """Fill GPU by GPU with what weighs most, the choosiest GPUs first; return what was given and what is left."""
    left = list(wanted)
    given: list[tuple[tuple[Part, int], ...]] = [()] * len(groups)
    for at in choosiest(groups):
        group, free, chosen = groups[at], groups[at].count, []
        while free:
            part = max((group.part(v, left) for v in group.full), key=lambda p: weight(p, weights))
            if not part:
                break
            times = min(free, *(left[i] // n for i, n in part))
            for i, n in part:
                left[i] -= n * times
            free -= times
            chosen.append((part, times))
        given[at] = tuple(chosen)
    return tuple(given), tuple(left)


def weight(part: Part, weights: Sequence[float]) -> float:
    """Return the weight of what one GPU is given."""
    return sum(n * weights[i] for i, n in part)


def choosiest(groups: Sequence[Group]) -> list[int]:
    """Sort groups so that GPUs which take little come first: what only they take has to go there anyway."""
    return sorted(range(len(groups)), key=lambda g: (len(groups[g].chains), len(groups[g].full), g))


def rounded(tried: Sequence[Weights]) -> list[Weights]:
    """Return the mean of the later weights, and the simple fractions near it: true prices are such fractions."""
    later = tried[len(tried) // 2 :]
    mean = [sum(w) / len(later) for w in zip(*later, strict=True)]
    return [tuple(mean), *(tuple(round(w * parts) / parts for w in mean) for parts in FRACTIONS)]
