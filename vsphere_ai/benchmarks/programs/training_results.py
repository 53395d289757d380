"""Results of training benchmarks: a run of Megatron, the efficiency of each number of VMs, and a burn of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.benchmarks.history import Trend
from vsphere_ai.benchmarks.programs.burn import GpuVerdict
from vsphere_ai.benchmarks.programs.megatron import Iteration, Throughput
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput
from vsphere_ai.benchmarks.programs.megatron_command import MegatronTest
from vsphere_ai.benchmarks.programs.scaling import Scale, ScalingStep
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Node

What = Literal["nccl", "megatron"]


@dataclass(frozen=True)
class MegatronResult:
    """A run: its iterations, what they reached, and what is to say of it; `trend` against earlier runs of the set.

    `tail` are the last lines of the log of a run that failed.
    """

    nodes: tuple[Node, ...]
    test: MegatronTest
    gpus: int
    iterations: tuple[Iteration, ...] = ()
    reached: Throughput | None = None
    checks: tuple[Finding, ...] = ()
    expected: ExpectedThroughput | None = None
    trend: Trend | None = None
    tail: tuple[str, ...] = ()

    @property
    def tokens(self) -> float | None:
        """Tokens per second of all GPUs."""
        samples = self.reached.samples if self.reached is not None else None
        return samples * self.test.tokens if samples is not None else None

    @property
    def loss(self) -> float | None:
        """The last loss that was logged."""
        return next((i.loss for i in reversed(self.iterations) if i.loss is not None), None)

    @property
    def exit_code(self) -> int:
        """Return 0 when it was measured and nothing failed, else 1."""
        return 0 if self.reached is not None and is_passed(self.checks) else 1


@dataclass(frozen=True)
class ScaleResult:
    """The sizes that were measured, in `unit` of all VMs; the `step` at which efficiency falls, and what is to say."""

    nodes: tuple[Node, ...]
    what: What
    unit: str
    scales: tuple[Scale, ...]
    step: ScalingStep | None = None
    checks: tuple[Finding, ...] = ()
    trend: Trend | None = None

    @property
    def hosts(self) -> Mapping[str, str]:
        """The ESXi hosts of the VMs."""
        return {node.vm: node.host for node in self.nodes}

    @property
    def exit_code(self) -> int:
        """Return 0 when every size was measured and is efficient enough, else 1."""
        return 0 if self.scales and is_passed(self.checks) else 1


@dataclass(frozen=True)
class BurnResult:
    """The verdict of each GPU, and what is to say of a VM as a whole, by its name."""

    nodes: tuple[Node, ...]
    gpus: tuple[GpuVerdict, ...]
    of_vms: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    seconds: float = 0.0

    def checks(self, vm: str) -> tuple[Finding, ...]:
        """Return everything that is to say of a VM."""
        own = (check for each in self.gpus if each.gpu.vm == vm for check in each.checks)
        return (*self.of_vms.get(vm, ()), *own)

    @property
    def exit_code(self) -> int:
        """Return 0 when every GPU of every VM passed, else 1."""
        return 0 if self.gpus and all(is_passed(self.checks(node.vm)) for node in self.nodes) else 1
