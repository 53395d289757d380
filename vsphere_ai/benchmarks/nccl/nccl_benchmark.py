"""Runs of nccl-tests as a benchmark: what is run, what came of it, and what the history of a set keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from vsphere_ai.benchmarks.baseline import TOLERANCE, ExpectedBandwidth
from vsphere_ai.benchmarks.benchmark import Benchmark, Measured
from vsphere_ai.benchmarks.checks import of_run, or_passed
from vsphere_ai.benchmarks.history import Trend
from vsphere_ai.benchmarks.nccl.nccl_command import NcclTest, ranks_of
from vsphere_ai.benchmarks.nccl.nccl_run import NcclRun
from vsphere_ai.benchmarks.results import ParseResult
from vsphere_ai.benchmarks.slow_part.layers import EVERYTHING, NIC, NO_NVLINK, NVLINK, SOCKET
from vsphere_ai.benchmarks.slow_part.pairs import Pair
from vsphere_ai.benchmarks.slow_part.search import SearchOutcome
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.benchmarks.slow_part.verdict import Culprit
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import counted

_REMEDIES = {
    NVLINK: "check NVLink and the GPUs: nvidia-smi nvlink -s -e",
    NO_NVLINK: "check PCIe link widths and the NUMA nodes of the VM",
    NIC: "check the NICs, their PCIe links and GPUDirect RDMA",
    SOCKET: "check CPUs, memory, PCIe and the control network",
}
"""Way of data -> what to look at where it is slow."""


@dataclass(frozen=True)
class NcclOptions:
    """How it is run: all VMs together, every pair (`pairwise`), a search (`bisect`), or each way of data (`layers`).

    `preflight`: guests are asked first, and nothing starts where something blocks it. `known` are bus
    bandwidths of pairs that need not be measured again, `pairs` those to measure, without any every pair. `slowdown`
    is the share to look for, `runs` the runs per trial, `timeout` the seconds of a run. `reference` is the bus
    bandwidth (GB/s) that a trial has to reach; without it a search takes the fastest trials for it.
    `learned` is a file for a baseline of what was measured. `live`: rows of the run of all VMs are events as they come.
    """

    pairwise: bool = False
    bisect: bool = False
    layers: bool = False
    preflight: bool = True
    slowdown: float = 0.25
    runs: int = 1
    known: Mapping[Pair, float] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    timeout: float = 600.0
    reference: float | None = None
    baseline: Path | None = None
    tolerance: float = TOLERANCE
    learned: Path | None = None
    live: bool = False


@dataclass(frozen=True)
class NcclResult:
    """What was run: `parsed` is the run of all VMs, `pairs` every pair, `found` the slow parts.

    `layers` are VMs and pairs on each way, in GB/s, `slow` the slow ones of these with their share of the others.
    `trials` and `rounds` count what was run. `outcome` is that of a search. `left` says what of the run is still there.
    `trend` compares the run of a whole set with its earlier ones. `last` is the last run whose output could be read.
    """

    nodes: tuple[Node, ...]
    parsed: ParseResult = field(default_factory=lambda: ParseResult(()))
    pairs: Mapping[Pair, float | None] = field(default_factory=dict)
    outcome: SearchOutcome | None = None
    found: tuple[Culprit, ...] = ()
    reference: float | None = None
    trials: int = 0
    rounds: int = 0
    failures: tuple[Finding, ...] = ()
    learned: tuple[ExpectedBandwidth, ...] = ()
    layers: Mapping[Trial, float | None] = field(default_factory=dict)
    slow: Mapping[Trial, float] = field(default_factory=dict)
    left: tuple[Finding, ...] = ()
    trend: Trend | None = None
    last: NcclRun | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is slow, wrong, not measured or left; that nothing is slow where everything was measured."""
        if self.layers:
            return or_passed((*self._of_ways(), *self._missing(self.layers), *self.left), "nothing is slow")
        if self.outcome is not None:
            return or_passed((*self._of_search(self.outcome), *self.left), "nothing is slow")
        if self.pairs:
            found = (each.finding for each in self.found)
            return or_passed((*found, *self._missing(self.pairs), *self.left), "nothing is slow")
        return (*self.parsed.findings, *self.left)

    def _missing(self, values: Mapping[Pair, float | None] | Mapping[Trial, float | None]) -> tuple[Finding, ...]:
        """Return what was not measured: each failure, or how many values are missing where none is known."""
        missing = [*values.values()].count(None)
        if not missing or self.failures:
            return self.failures
        return (of_run("nccl.not-measured", "unknown", f"{missing} of {len(values)} were not measured"),)

    def _of_ways(self) -> Iterator[Finding]:
        for trial, share in self.slow.items():
            text = f"{' and '.join(trial.vms)}, {trial.layer or EVERYTHING}: {share:.0%} of what others reach"
            yield of_run("nccl.slow-way", "fail", text, _REMEDIES.get(trial.layer, "find the part with --bisect"))
        alone = sum(len(trial.vms) > 1 and not trial.layer for trial in self.layers) < 2
        if alone and None not in self.layers.values():
            yield of_run("nccl.one-pair", "info", "with one pair there is nothing to compare it with")

    def _of_search(self, outcome: SearchOutcome) -> Iterator[Finding]:
        """Yield what a search found; a trial that failed counted as slow there, which is no result of its own.

        Without a reference no trial was measured: then nothing is known.
        """
        if outcome.reference is None:
            yield from self.failures or (of_run("nccl.not-measured", "unknown", "no trial was measured"),)
            return
        yield from (each.finding for each in self.found)
        yield from (replace(each, verdict="warn") for each in self.failures)
        if outcome.unresolved:
            text = "no healthy VM is left to compare them with, or slow only together"
            yield of_run("nccl.unresolved", "unknown", f"{', '.join(outcome.unresolved)}: {text}", "name more VMs")
        if outcome.transient:
            yield of_run("nccl.transient", "info", f"{counted(outcome.transient, 'group')} slow once, and not again")


@dataclass(frozen=True)
class NcclBenchmark(Benchmark[NcclResult]):
    """A run of nccl-tests on all VMs, on pairs of them, or as a search."""

    test: NcclTest = field(default_factory=NcclTest)
    options: NcclOptions = field(default_factory=NcclOptions)

    def requirements(self, nodes: Sequence[Node]) -> PreflightRequirements | None:
        """Return that nodes need GPUs, as many as a node has ranks."""
        if not self.options.preflight:
            return None
        return PreflightRequirements() if self.test.gpus is None else PreflightRequirements(self.test.gpus)

    def measured(self, result: NcclResult) -> Iterator[Measured]:
        """Yield the run of all VMs, or the median of all pairs; nothing where a pair was not measured."""
        options, run, nodes = self.options, result.last, {node.vm: node for node in result.nodes}
        if options.bisect or options.layers or run is None or run.collective is None or run.largest is None:
            return
        name, vms = run.collective.name, tuple(nodes)
        if not options.pairwise:
            if run.peak is not None:
                ranks = ranks_of(self.test, Trial(vms), nodes)
                yield Measured("nccl", name, ranks, run.largest, run.peak)
            return
        values = [value for value in result.pairs.values() if value is not None]
        if values and len(values) == len(result.pairs) and not (options.known or options.pairs):
            ranks = ranks_of(self.test, Trial(vms[:2]), nodes)
            yield Measured("nccl", f"{name}, median of pairs", ranks, run.largest, median(values))

    def with_trend(self, result: NcclResult, trend: Trend | None) -> NcclResult:
        """Return the result of all VMs with its trend."""
        return result if self.options.pairwise else replace(result, trend=trend)
