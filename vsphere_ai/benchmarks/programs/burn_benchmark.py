"""Burn as a benchmark: how long and what is computed, the launch of each VM, and the verdict of each GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from vsphere_ai.benchmarks.benchmark import Benchmark, Measured, require_gpus
from vsphere_ai.benchmarks.checks import is_passed, of_run
from vsphere_ai.benchmarks.launched import Carried, left_of, own_nodes
from vsphere_ai.benchmarks.programs.burn import Burned, Sample, judge, read_report
from vsphere_ai.benchmarks.programs.training_results import BurnResult
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import plain
from vsphere_ai.training.job import CONTROL_PORT, TrainingJob
from vsphere_ai.training.launch import RUNS, Launch, NodeFile
from vsphere_ai.training.launchers import launch
from vsphere_ai.training.on_node import burn_file

Number = Literal["bfloat16", "float16", "float32"]
PROGRAM = "burn.py"
REPORTS, SHORTEST_REPORT = 60, 0.5


@dataclass(frozen=True)
class BurnOptions:
    """How long, and what: `steps` of a cycle with `layers` of `size`, in numbers of a `type`, all from the `seed`.

    `every` is the time between samples in seconds. `python` is that of the guests with PyTorch.
    """

    minutes: float = 25.0
    seed: int = 1
    size: int = 4096
    layers: int = 4
    steps: int = 200
    type: Number = "bfloat16"
    every: float = 15.0
    python: str = "python3"
    preflight: bool = True

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.minutes * 60

    @property
    def name(self) -> str:
        """What is run, as the history names it."""
        return f"{self.layers} x {self.size} {self.type}"


@dataclass(frozen=True)
class BurnBenchmark(Benchmark[BurnResult]):
    """A burn of VMs, each of which stands for itself."""

    options: BurnOptions

    def requirements(self, nodes: Sequence[Node]) -> PreflightRequirements | None:
        """Return that each node needs PyTorch, and the port of its own supervisor."""
        if not self.options.preflight:
            return None
        listens = tuple((number, CONTROL_PORT) for number in range(len(nodes)))
        return PreflightRequirements(listens=listens, python=self.options.python, packages=("torch",))

    def check_nodes(self, nodes: Sequence[Node]) -> None:
        """`UsageError` for a VM without a GPU."""
        require_gpus(nodes)

    def measured(self, result: BurnResult) -> Iterator[Measured]:
        """Yield the median pace of all GPUs, where every one passed."""
        speeds = [s for each in result.gpus if each.gpu.report is not None and (s := each.gpu.report.speed)]
        if speeds and is_passed(result.findings):
            yield Measured("burn", self.options.name, len(speeds), 0, median(speeds), "steps/s")

    def launch(self, node: Node, run: str) -> Launch:
        """Return a process for each GPU of a VM, which needs no other VM."""
        options = self.options
        every = min(10.0, max(SHORTEST_REPORT, options.seconds / REPORTS))
        values = {
            "seconds": f"{options.seconds:g}",
            "every": f"{every:g}",
            "seed": options.seed,
            "steps": options.steps,
            "size": options.size,
            "layers": options.layers,
            "type": options.type,
        }
        job = TrainingJob(
            training_job="burn",
            nodes=own_nodes([node]),
            script=f"{RUNS}/{run}/{PROGRAM}",
            args=tuple(word for name, value in values.items() for word in (f"--{name}", str(value))),
            python=options.python,
            env=(("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),),
            nccl="off",
        )
        made = launch(job, "env", [node], run)
        (own,) = made.nodes
        return replace(made, nodes=(replace(own, files=(*own.files, NodeFile(PROGRAM, burn_file()))),))


@dataclass(frozen=True)
class BurnSamples:
    """What nvidia-smi showed during a burn, by VM and index of the GPU; and by VM why it showed nothing.

    `side` returns who was asked about a node: its guest or its host.
    """

    samples: Mapping[tuple[str, int], Sequence[Sample]]
    why: Mapping[str, str]
    side: Callable[[Node], str]


def burned_gpus(nodes: Sequence[Node], carried: Sequence[Carried], seen: BurnSamples) -> list[Burned]:
    """Return each GPU with its report and its samples; `carried` are the runs of the nodes."""
    burned = []
    for node, own in zip(nodes, carried, strict=True):
        logs = own.logs.get(node.vm, {})
        for gpu in node.gpus:
            report = read_report(plain(logs.get(f"rank-{gpu.index}.log", "")).splitlines())
            samples = tuple(seen.samples.get((node.vm, gpu.index), ()))
            why = "" if samples else seen.why.get(node.vm, "")
            burned.append(Burned(node.vm, gpu.index, node.host, gpu.host_pci, report, samples, seen.side(node), why))
    return burned


def burn_result(
    nodes: tuple[Node, ...],
    carried: Sequence[Carried],
    burned: Sequence[Burned],
    earlier: Mapping[str, dict[str, int]],
    seconds: float,
) -> BurnResult:
    """Return the verdict of each GPU, and what is wrong with a VM as a whole; `earlier` are the digests agreed on."""
    of_vms = {}
    for node, own in zip(nodes, carried, strict=True):
        checks = [*left_of(own.run)]
        refused = any(b.vm == node.vm and b.report is not None and b.report.refused for b in burned)
        if own.why and not refused:
            checks.append(of_run("burn.run-failed", "unknown", own.why, "read its log, and look for XIDs with health"))
        if checks:
            of_vms[node.vm] = tuple(checks)
    return BurnResult(nodes, judge(burned, earlier), of_vms, seconds)
