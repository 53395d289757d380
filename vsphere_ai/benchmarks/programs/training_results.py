"""Results of training benchmarks: a run of Megatron, the efficiency of each number of VMs, and a burn of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vsphere_ai.benchmarks.checks import about, of_node, of_run, or_passed
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
    def findings(self) -> tuple[Finding, ...]:
        """What is to say of the run, or that it passed; not known where nothing was measured."""
        if self.reached is None and not self.checks:
            return (of_run("megatron.not-measured", "unknown", "no throughput was measured"),)
        return or_passed(self.checks, "the run was measured and passed its checks")


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
    def findings(self) -> tuple[Finding, ...]:
        """What is to say of the sizes, or that each is efficient enough; not known where none was measured."""
        if not self.scales and not self.checks:
            return (of_run("scale.not-measured", "unknown", "no number of VMs was measured"),)
        return or_passed(self.checks, "every number of VMs was measured and is efficient enough")


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
    def findings(self) -> tuple[Finding, ...]:
        """What is to say of each VM and each of its GPUs, or that it passed; not known without a GPU."""
        found: list[Finding] = []
        for node in self.nodes:
            own = [*about(of_node(node), self.of_vms.get(node.vm, ()))]
            for each in (g for g in self.gpus if g.gpu.vm == node.vm):
                pci = f" ({each.gpu.pci})" if each.gpu.pci else ""
                own += about(of_node(node, f"GPU {each.gpu.index}{pci}"), each.checks)
            found += or_passed(own, "every GPU passed", of_node(node))
        return tuple(found) if self.gpus else (of_run("burn.not-measured", "unknown", "no GPU was measured"), *found)
