"""Collectives of nccl-tests: what their size column counts, and how bus bandwidth follows from algorithm bandwidth.

Source: NVIDIA/nccl-tests 2.19.6, doc/PERFORMANCE.md and src/*.cu.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

TYPES = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "bfloat16": 2,
    "f8e4m3": 1,
    "f8e5m2": 1,
    "char": 1,
    "int": 4,
}
"""Name of an element type in the tables -> bytes of an element; `char` and `int` are names of old versions."""


@dataclass(frozen=True)
class Family:
    """Collectives with one formula: bus bandwidth = algorithm bandwidth × `formula`, n being the number of ranks.

    `factor` is the formula; `ranks` its inverse, None where the factor does not depend on n.
    """

    formula: str
    factor: Callable[[int], float]
    ranks: Callable[[float], float] | None = None


def _of_ring(factor: float) -> float:
    return 2 / (2 - factor) if factor < 2 else float("inf")


def _of_gather(factor: float) -> float:
    return 1 / (1 - factor) if factor < 1 else float("inf")


RING = Family("2(n-1)/n", lambda n: 2 * (n - 1) / n, _of_ring)
GATHER = Family("(n-1)/n", lambda n: (n - 1) / n, _of_gather)
PLAIN = Family("1", lambda n: 1.0)


@dataclass(frozen=True)
class Collective:
    """A collective operation. `size` says what the size column counts in bytes.

    `whole`: the size is count × element size × ranks, else count × element size. `timed`: algorithm bandwidth is
    size / time. `redop` and `root`: whether the operation has a reduction and a root rank.
    """

    name: str
    family: Family
    size: str
    whole: bool
    redop: bool = False
    root: bool = False
    timed: bool = True

    @property
    def program(self) -> str:
        """Name of its program in nccl-tests."""
        return f"{self.name}_perf"


_WHOLE, _PART = "count × element size × ranks", "count × element size"
COLLECTIVES = {
    each.name: each
    for each in (
        Collective("all_reduce", RING, _PART, whole=False, redop=True),
        Collective("all_gather", GATHER, _WHOLE, whole=True),
        Collective("reduce_scatter", GATHER, _WHOLE, whole=True, redop=True),
        Collective("alltoall", GATHER, _WHOLE, whole=True),
        Collective("alltoallv", GATHER, "the largest number of bytes of a rank", whole=True, timed=False),
        Collective("gather", GATHER, _WHOLE, whole=True, root=True),
        Collective("scatter", GATHER, _WHOLE, whole=True, root=True),
        Collective("broadcast", PLAIN, _PART, whole=False, root=True),
        Collective("reduce", PLAIN, _PART, whole=False, redop=True, root=True),
        Collective("sendrecv", PLAIN, _PART, whole=False),
        Collective("hypercube", PLAIN, _PART, whole=False, timed=False),
    )
}
"""Name -> collective."""


def of_program(program: str) -> Collective | None:
    """Return the collective of a program such as ``/opt/bin/all_reduce_perf_mpi``, None of an unknown one."""
    name = program.rpartition("/")[2]
    return COLLECTIVES.get(name.partition("_perf")[0])


def by_columns(*, redop: bool, root: bool, whole: bool) -> tuple[Collective, ...]:
    """Return the collectives whose rows look like this: a reduction, a root rank, a size that counts all ranks."""
    return tuple(c for c in COLLECTIVES.values() if (c.redop, c.root, c.whole) == (redop, root, whole) and c.timed)
