"""Results of nccl-tests, judged: checks of each run, its baseline, and published figures beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vsphere_ai.benchmarks.baseline import ExpectedBandwidth, compare, gate
from vsphere_ai.benchmarks.checks import about, of_run, or_passed
from vsphere_ai.benchmarks.nccl.nccl_checks import nccl_checks
from vsphere_ai.benchmarks.nccl.nccl_run import NcclRun
from vsphere_ai.benchmarks.perftest import PerftestRun
from vsphere_ai.benchmarks.programs.megatron import Throughput
from vsphere_ai.benchmarks.published import Figure, alike
from vsphere_ai.model.finding import Finding, Subject


@dataclass(frozen=True)
class BenchmarkContext:
    """What is known of runs beside their text: the number of ranks, the GPU (such as A100); None and empty if not."""

    ranks: int | None = None
    gpu: str = ""


@dataclass(frozen=True)
class ParsedRun:
    """A run of a file with what is to say of it; `published` are figures of the same operation, GPU and ranks."""

    file: str
    run: NcclRun
    checks: tuple[Finding, ...]
    published: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class ParsedOther:
    """What a file has of another benchmark: a run of perftest, or the iterations of a training run; with its checks."""

    file: str
    run: PerftestRun | Throughput
    checks: tuple[Finding, ...]


@dataclass(frozen=True)
class ParseResult:
    """The runs of all files; `missing` are measurements of the baseline that none of them has, `learned` a new one.

    `others` are runs of perftest and of Megatron.
    """

    runs: tuple[ParsedRun, ...]
    missing: tuple[Finding, ...] = ()
    learned: tuple[ExpectedBandwidth, ...] = ()
    others: tuple[ParsedOther, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is to say of each run, with its file, and what is missing; not known where there is no run at all."""
        findings = (*self._of_runs(), *self.missing)
        text = "no output of nccl-tests, perftest or Megatron was found"
        return findings or (of_run("bench.no-run", "unknown", text, "give the output of a run"),)

    def _of_runs(self) -> Iterator[Finding]:
        every = [(run.file, run.checks) for run in self.runs] + [(other.file, other.checks) for other in self.others]
        runs_of, number = Counter(file for file, _ in every), Counter[str]()
        for file, checks in every:
            number[file] += 1
            on = Subject("file", file, part=f"run {number[file]}" if runs_of[file] > 1 else "") if file else None
            own = about(on, checks) if on else checks
            yield from or_passed(own, "the run passed its checks", on)


def judge_runs(
    found: Sequence[tuple[str, NcclRun]],
    expected: Sequence[ExpectedBandwidth],
    tolerance: float,
    started: BenchmarkContext,
) -> ParseResult:
    """Judge runs, each with the name of its file; `tolerance` is the share by which one may be below a baseline."""
    below: dict[int, list[Finding]] = {}
    missing = []
    for comparison, run in compare([run for _, run in found], expected, started.ranks):
        check = gate(comparison, tolerance)
        if check and run is None:
            missing.append(check)
        elif check:
            below.setdefault(id(run), []).append(check)
    parsed = tuple(
        ParsedRun(file, run, (*below.get(id(run), ()), *nccl_checks(run, started.ranks)), _published(run, started))
        for file, run in found
    )
    return ParseResult(parsed, tuple(missing))


def _published(run: NcclRun, started: BenchmarkContext) -> tuple[Figure, ...]:
    names = {d.name for d in run.devices}
    gpu = started.gpu or (names.pop() if len(names) == 1 else "")
    ranks = run.declared_ranks or started.ranks
    return tuple(alike(run.collective.name, gpu, ranks)) if run.collective and ranks and gpu else ()
