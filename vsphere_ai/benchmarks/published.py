"""Published bus bandwidths with their sources: results of others, and limits that others take for a healthy system."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from vsphere_ai.model.dated_table import dated_table


@dataclass(frozen=True)
class Figure:
    """A published bus bandwidth in GB/s; `line_rate` is the network's in GB/s per node. None and empty: not published.

    `kind`: a result that was measured, or the least that its source takes for healthy.
    """

    id: str
    operation: str
    gpu: str
    gpus_per_node: int
    nodes: int
    network: str
    busbw: float
    kind: Literal["measured", "limit"]
    source: str
    line_rate: float | None = None


@cache
def figures() -> tuple[Figure, ...]:
    """Return every figure of the table."""
    return tuple(Figure(**entry) for entry in dated_table("benchmarks/published.yaml").values["figures"])


def alike(operation: str, gpu: str, ranks: int) -> Iterator[Figure]:
    """Yield the figures of an operation on this many GPUs of a kind; `gpu` is a name such as ``NVIDIA A100-SXM4``."""
    for figure in figures():
        if (
            figure.operation == operation
            and figure.gpus_per_node * figure.nodes == ranks
            and figure.gpu
            and figure.gpu in gpu
        ):
            yield figure
