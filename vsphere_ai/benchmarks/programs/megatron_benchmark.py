"""Training with Megatron-LM as a benchmark: its job, the verdict of a run, its baseline, and its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vsphere_ai.benchmarks.baseline import TOLERANCE
from vsphere_ai.benchmarks.benchmark import Benchmark, Measured, require_gpus
from vsphere_ai.benchmarks.checks import is_passed, of_run
from vsphere_ai.benchmarks.history import Trend
from vsphere_ai.benchmarks.launched import Carried, left_of, own_nodes
from vsphere_ai.benchmarks.programs import megatron_baseline
from vsphere_ai.benchmarks.programs.megatron import megatron_checks, megatron_gate, parse_megatron, throughput
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput
from vsphere_ai.benchmarks.programs.megatron_command import MegatronTest
from vsphere_ai.benchmarks.programs.training_results import MegatronResult
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import plain
from vsphere_ai.training.job import CONTROL_PORT, DEFAULT_PORT, TrainingJob
from vsphere_ai.training.launch import Launch
from vsphere_ai.training.launchers import launch

SHOWN_LINES = 5
"""Last lines of the log of a run that failed which are shown."""


@dataclass(frozen=True)
class MegatronOptions:
    """How it is run and judged: `timeout` in seconds, `min_tflops` per GPU, a `baseline` file, `learned` a new one.

    `preflight`: guests are asked first. `port` is that of rank 0's node. `tolerance` is the share by which a result may
    be below the baseline.
    """

    preflight: bool = True
    timeout: float = 1800.0
    port: int = DEFAULT_PORT
    min_tflops: float | None = None
    baseline: Path | None = None
    learned: Path | None = None
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class MegatronBenchmark(Benchmark[MegatronResult]):
    """One training on all VMs; `expected` are the figures of a baseline."""

    test: MegatronTest = field(default_factory=MegatronTest)
    options: MegatronOptions = field(default_factory=MegatronOptions)
    expected: tuple[ExpectedThroughput, ...] = ()

    def requirements(self, nodes: Sequence[Node]) -> PreflightRequirements | None:
        """Return that nodes need the script and PyTorch, and the first one two ports."""
        if not self.options.preflight:
            return None
        listens, test = ((0, self.options.port), (0, CONTROL_PORT)), self.test
        return PreflightRequirements(listens=listens, scripts=(test.script,), python=test.python, packages=("torch",))

    def check_nodes(self, nodes: Sequence[Node]) -> None:
        """`UsageError` for a VM without a GPU."""
        require_gpus(nodes)

    def measured(self, result: MegatronResult) -> Iterator[Measured]:
        """Yield the TFLOP/s per GPU of a run that passed, else its tokens per second."""
        if result.reached is None or not is_passed(result.findings):
            return
        value = result.reached.tflops or result.tokens
        if value is not None:
            unit = "TFLOP/s" if result.reached.tflops else "tokens/s"
            yield Measured("megatron", result.test.name, result.gpus, 0, value, unit)

    def with_trend(self, result: MegatronResult, trend: Trend | None) -> MegatronResult:
        """Return a result with its trend."""
        return replace(result, trend=trend)

    def launch(self, nodes: Sequence[Node], run: str) -> Launch:
        """Return what runs on each of these nodes."""
        job = TrainingJob(
            training_job="megatron",
            nodes=own_nodes(nodes),
            script=self.test.script,
            args=self.test.arguments(sum(len(node.gpus) for node in nodes)),
            python=self.test.python,
            workdir=self.test.folder,
            env=(("CUDA_DEVICE_MAX_CONNECTIONS", "1"),),
            port=self.options.port,
        )
        return launch(job, "torchrun", nodes, run)

    def result(self, nodes: tuple[Node, ...], carried: Carried) -> MegatronResult:
        """Return the result of a run; Megatron logs on the last rank, so that one node has the iterations."""
        test, options, gpus = self.test, self.options, sum(len(node.gpus) for node in nodes)
        texts = {
            vm: [line for text in own.values() for line in plain(text).splitlines()] for vm, own in carried.logs.items()
        }
        found = max((parse_megatron(lines) for lines in texts.values()), key=len, default=())
        reached = throughput(found, test.warmup)
        checks = []
        if carried.why:
            checks.append(of_run("megatron.run-failed", "unknown", carried.why, "the end of its log says why"))
        checks += left_of(carried.run)
        if found or not carried.why:
            checks += megatron_checks(found, test.iterations, test.warmup)
        own = megatron_baseline.expected_for(self.expected, test.name, gpus)
        tflops = reached.tflops if reached is not None else None
        if own is not None:
            checks += [check] if (check := megatron_gate(tflops, own, options.tolerance)) else []
        elif options.baseline is not None:
            text = f"the baseline has no '{test.name}' on {gpus} GPUs"
            checks.append(of_run("megatron.not-measured", "unknown", text, "learn it with --learn"))
        if options.min_tflops is not None:
            wanted = ExpectedThroughput(model=test.name, tflops=options.min_tflops, gpus=gpus)
            checks += [check] if (check := megatron_gate(tflops, wanted, 0.0)) else []
        tail = _tail(texts, carried) if carried.why or not found else ()
        return MegatronResult(nodes, test, gpus, found, reached, tuple(checks), own, None, tail)


def _tail(texts: Mapping[str, Sequence[str]], carried: Carried) -> tuple[str, ...]:
    """Return the last lines of the node that is why a run failed, else of the first."""
    named = next((vm for vm in texts if vm in carried.why), next(iter(texts), ""))
    return tuple(f"{named}: {line}" for line in [x for x in texts.get(named, ()) if x.strip()][-SHOWN_LINES:])
