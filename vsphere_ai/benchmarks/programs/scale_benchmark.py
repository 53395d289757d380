"""Scaling of VMs as a benchmark: the numbers of VMs that are compared, their efficiency, and its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vsphere_ai.benchmarks.benchmark import Benchmark, Measured, require_gpus
from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.history import Trend
from vsphere_ai.benchmarks.programs.scaling import LEAST, counts, falls, scaling, scaling_checks
from vsphere_ai.benchmarks.programs.training_results import ScaleResult, What
from vsphere_ai.errors import UsageError
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import counted


@dataclass(frozen=True)
class ScaleOptions:
    """What is run on each number of VMs, `runs` times, the best counts; `timeout` in seconds per run.

    `least` is the efficiency to reach. `nccl` begins with 2 VMs: one alone does not use the network.
    """

    what: What = "nccl"
    least: float = LEAST
    runs: int = 1
    preflight: bool = True
    timeout: float = 1800.0
    suffix: str = ""


@dataclass(frozen=True)
class ScaleBenchmark(Benchmark[ScaleResult]):
    """The same measurement on 1, 2, 4 … VMs and on all of them."""

    options: ScaleOptions = field(default_factory=ScaleOptions)

    def sizes(self, nodes: Sequence[Node]) -> tuple[int, ...]:
        """Return the numbers of VMs that are measured."""
        return tuple(counts(len(nodes), least=2 if self.options.what == "nccl" else 1))

    def check_count(self, nodes: Sequence[Node]) -> None:
        """`UsageError` for fewer VMs than two sizes need."""
        if len(self.sizes(nodes)) < 2:
            text = f"{counted(len(nodes), 'VM')}: {self.options.what} is compared on two numbers of VMs at least"
            raise UsageError(text, "name more VMs")

    def requirements(self, nodes: Sequence[Node]) -> PreflightRequirements | None:
        """Return that nodes need a GPU."""
        return PreflightRequirements() if self.options.preflight else None

    def check_nodes(self, nodes: Sequence[Node]) -> None:
        """`UsageError` for a VM without a GPU, where one is trained on."""
        if self.options.what == "megatron":
            require_gpus(nodes)

    def result(self, nodes: tuple[Node, ...], values: Mapping[int, float], checks: Sequence[Finding]) -> ScaleResult:
        """Return the result of values by the number of VMs; `checks` are about what was not measured."""
        scales = scaling(values)
        step = falls(scales, [node.vm for node in nodes])
        found = (*checks, *scaling_checks(scales, self.options.least))
        unit = "GB/s" if self.options.what == "nccl" else "samples/s"
        return ScaleResult(nodes, self.options.what, unit, scales, step, found)

    def measured(self, result: ScaleResult) -> Iterator[Measured]:
        """Yield the efficiency on all VMs, where that was measured."""
        if result.scales and result.scales[-1].vms == len(result.nodes):
            gpus = sum(len(node.gpus) for node in result.nodes)
            yield Measured("scale", result.what, gpus, 0, result.scales[-1].efficiency, "of linear")

    def with_trend(self, result: ScaleResult, trend: Trend | None) -> ScaleResult:
        """Return a result with its trend."""
        return replace(result, trend=trend)


def missing_size(size: int, why: str) -> Finding:
    """Return that a number of VMs was not measured, which is no pass."""
    return of_run(
        "scale.not-measured", "unknown", f"{counted(size, 'VM')}: {why}", "a size that was not measured is no pass"
    )
