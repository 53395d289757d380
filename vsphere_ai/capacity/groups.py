"""What is packed: items into groups of GPUs that are alike, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from vsphere_ai.capacity.gpu import Vector

Part = tuple[tuple[int, int], ...]
"""What one GPU is given: (item, how many)."""


@dataclass(frozen=True)
class Group:
    """GPUs that are alike: how many, and their full combinations.

    `chains` says for each place of a combination which items may fill it, those with the fewest hosts first: items of
    one profile differ in their hosts only, and as long as one's hosts are within the other's, it is never wrong to
    serve the one that has fewer first.
    """

    count: int
    chains: tuple[tuple[int, ...], ...]
    full: tuple[Vector, ...]

    def best(self, weights: Sequence[float]) -> tuple[float, Vector]:
        """Return the combination of the greatest weight, that weight first."""
        prices = [max(weights[i] for i in chain) for chain in self.chains]
        return max((sum(map(mul, v, prices)), v) for v in self.full)

    def part(self, vector: Vector, left: Sequence[int]) -> Part:
        """Return the part of a combination that is still wanted."""
        found = []
        for n, chain in zip(vector, self.chains, strict=True):
            for item in chain:
                take = min(n, left[item])
                if take:
                    found.append((item, take))
                    n -= take
        return tuple(found)


@dataclass
class Budget:
    """How many steps a search may still take; shared by the searches of one question.

    `work` counts the products of weights and combinations gone through beside it.
    """

    steps: int
    work: int = 0

    def spend(self, steps: int = 1) -> bool:
        """Take steps; tell whether there were any left."""
        self.steps -= steps
        return self.steps >= 0


@dataclass(frozen=True)
class Packed:
    """Per group what its GPUs are given, as (part, GPUs); GPUs that are not named get nothing."""

    given: tuple[tuple[tuple[Part, int], ...], ...]


@dataclass(frozen=True)
class Unpacked:
    """No way was found. With `exact` there is none.

    `proof` names items of which `wanted` are to be packed where only `room` fit; `left` is what the best proposal
    could not pack, per item.
    """

    exact: bool
    left: Vector
    proof: tuple[int, ...] = ()
    wanted: int = 0
    room: int = 0
