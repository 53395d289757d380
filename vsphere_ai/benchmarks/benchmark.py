"""Description of a benchmark of VMs: which VMs it takes, what their guests need, and what its history keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from vsphere_ai.benchmarks.history import Trend
from vsphere_ai.errors import UsageError
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.nodes import Node

R = TypeVar("R")


@dataclass(frozen=True)
class Measured:
    """A figure of a set for its history, compared with the same measurement only; higher is better."""

    benchmark: str
    operation: str
    ranks: int
    size: int
    value: float
    unit: str = "GB/s"


class Benchmark(Generic[R]):
    """What a benchmark is, as values; how it runs on guests is not part of it."""

    def check_count(self, nodes: Sequence[Node]) -> None:
        """`UsageError` where there are too few VMs; no guest has been asked yet."""

    def requirements(self, nodes: Sequence[Node]) -> PreflightRequirements | None:
        """Return what guests need; None: they are not asked."""
        return None

    def check_nodes(self, nodes: Sequence[Node]) -> None:
        """`UsageError` where VMs, as their guests show them, cannot be measured."""

    def measured(self, result: R) -> Iterable[Measured]:
        """Return the figures of a result that the history of a whole set keeps."""
        return ()

    def with_trend(self, result: R, trend: Trend | None) -> R:
        """Return a result beside the earlier ones of the same set; None: nothing of it was kept."""
        return result


def require_gpus(nodes: Sequence[Node]) -> None:
    """`UsageError` that names VMs of which no GPU is known."""
    lacking = ", ".join(node.vm for node in nodes if not node.gpus)
    if lacking:
        raise UsageError(f"{lacking}: no GPU is known", "look at the VM's devices", rule="usage.gpus")
