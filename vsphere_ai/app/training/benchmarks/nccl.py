"""Runs of nccl-tests on the guests of VMs: all at once, in pairs, or as a search for the slow part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median

from vsphere_ai.app.events import BenchmarkRow, Emit, OutputLine, Remark, Status, ignore
from vsphere_ai.app.training.benchmarks.frame import BenchmarkPlace, VmBenchmark, carry_out_benchmark
from vsphere_ai.app.training.benchmarks.guests import BenchmarkGuests, prepared
from vsphere_ai.app.training.benchmarks.parse import baseline_of, require_new, write_baseline
from vsphere_ai.app.training.node_program.processes import MARK
from vsphere_ai.app.training.nodes.listed import NodesRequest
from vsphere_ai.benchmarks.baseline import ExpectedBandwidth, learn
from vsphere_ai.benchmarks.checks import is_passed, of_run
from vsphere_ai.benchmarks.nccl.nccl_benchmark import NcclBenchmark, NcclOptions, NcclResult
from vsphere_ai.benchmarks.nccl.nccl_command import NcclTest, command, ranks_of
from vsphere_ai.benchmarks.nccl.nccl_run import NcclRun
from vsphere_ai.benchmarks.nccl.nccl_text import NcclTextReader, parse_text
from vsphere_ai.benchmarks.results import BenchmarkContext, ParseResult, judge_runs
from vsphere_ai.benchmarks.slow_part.layers import RUNS, measure_layers, separate, slow_ways
from vsphere_ai.benchmarks.slow_part.pairs import in_rounds, measure_pairs, rounds_of_pairs, slow_ends
from vsphere_ai.benchmarks.slow_part.search import search
from vsphere_ai.benchmarks.slow_part.trials import Judge, Search, T, Trial, together
from vsphere_ai.benchmarks.slow_part.verdict import Culprit, accused
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh, GuestTimedOut
from vsphere_ai.errors import UsageError, VsphereAiError
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import plain
from vsphere_ai.training.nccl_env import nccl_settings

__all__ = ["NcclOptions", "NcclRequest", "NcclResult", "NcclTest", "bench_nccl"]
LARGEST_LINE = 1 << 17
LARGEST = 64 * 1024 * 1024
"""Bytes of output of a run that are read."""


@dataclass(frozen=True)
class NcclRequest:
    """Which VMs run what, and how."""

    nodes: NodesRequest
    test: NcclTest = field(default_factory=NcclTest)
    options: NcclOptions = field(default_factory=NcclOptions)


def bench_nccl(request: NcclRequest, emit: Emit = ignore) -> NcclResult:
    """Run nccl-tests over SSH in the guests. Needs Open MPI and nccl-tests there, on all VMs.

    `UsageError` where no VM is meant, or guests cannot be reached by the inventory; a guest that is out of reach is an
    error before anything runs.
    """
    options = request.options
    if options.pairwise + options.bisect + options.layers > 1:
        raise UsageError(
            "--pairwise, --bisect and --transports exclude each other",
            "give one of --pairwise, --bisect and --transports",
        )
    expected = baseline_of(options.baseline)
    if options.learned:
        require_new(options.learned)
        if not options.pairwise and options.runs < RUNS:
            request = replace(request, options=replace(options, runs=RUNS))
    return carry_out_benchmark(_Nccl(request, expected), request.nodes, emit)


class _Nccl(VmBenchmark[NcclResult]):
    """Runs of nccl-tests by mpirun, with logins between the VMs for that time."""

    def __init__(self, request: NcclRequest, expected: Sequence[ExpectedBandwidth]) -> None:
        super().__init__(NcclBenchmark(request.test, request.options))
        self._request, self._expected = request, expected
        self._done: list[tuple[int, NcclRun]] = []

    def measure(self, place: BenchmarkPlace) -> NcclResult:
        with prepared("nccl", place.nodes, place.guests, place.settings, place.emit) as guests:
            runner = RoundRunner(self._request, guests, place.emit)
            result = self._measured(runner, place.nodes)
        self._done = runner.done
        return replace(result, left=guests.left, last=runner.last)

    def _measured(self, runner: RoundRunner, nodes: Sequence[Node]) -> NcclResult:
        options = self._request.options
        if options.pairwise:
            return _pairwise(runner, nodes, self._expected)
        if options.bisect:
            return _bisect(runner, nodes)
        return _layers(runner, nodes) if options.layers else _together(runner, nodes, self._expected)

    def learn(self, result: NcclResult) -> NcclResult:
        """Write a baseline of the runs that passed, where one is wanted; a search measures none for it."""
        options = self._request.options
        if options.learned is None or options.bisect or options.layers:
            return result
        numbers = sorted({ranks for ranks, _ in self._done})
        found = (learn([run for ranks, run in self._done if ranks == own], own) for own in numbers)
        return replace(result, learned=write_baseline(options.learned, tuple(chain(*found))))


@dataclass
class RoundRunner:
    """Carries out the rounds of a search on real guests; the runs of a round are started at the same time."""

    request: NcclRequest
    guests: BenchmarkGuests
    emit: Emit
    rounds: int = 0
    trials: int = 0
    failures: list[Finding] = field(default_factory=list)
    last: NcclRun | None = None
    done: list[tuple[int, NcclRun]] = field(default_factory=list)
    """The runs that passed their checks, with their ranks."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by the names of their VMs."""
        return self.guests.nodes

    def carry_out(self, running: Search[T]) -> T:
        """Carry out a search to its end, and return what it found."""
        try:
            trials = next(running)
            while True:
                trials = running.send(self.round(trials))
        except StopIteration as done:
            found: T = done.value
            return found

    def round(self, trials: Sequence[Trial]) -> dict[Trial, float | None]:
        """Run the trials of a round and return their bus bandwidths; None where one was not measured."""
        self.rounds += 1
        self.trials += len(trials)
        self.emit(Status(f"round {self.rounds}: {len(trials)} trials"))
        by_head: dict[str, list[Trial]] = {}
        for trial in trials:
            by_head.setdefault(trial.vms[0], []).append(trial)

        def work(shell: GuestSsh) -> list[float | None]:
            return [self._trial(trial) for trial in by_head[shell.vm]]

        answers = self.guests.on_each(by_head, work)
        self.emit(Status(""))
        found: dict[Trial, float | None] = {}
        for vm, own in by_head.items():
            answer = answers[vm]
            if isinstance(answer, VsphereAiError):
                self._failed(own[0], answer.message)
                answer = [None] * len(own)
            found.update(zip(own, answer, strict=True))
        for trial in trials:
            value = found[trial]
            shown = f"{value:8.2f} GB/s" if value is not None else "not measured"
            self.emit(OutputLine(f"round {self.rounds:>2}  {shown:>13}  {_named(trial)}"))
        return found

    def _trial(self, trial: Trial) -> float | None:
        """Return the median of the runs of a trial; None where one of them was not measured, or is wrong."""
        found = [self._run(trial) for _ in range(trial.runs)]
        known = [value for value in found if value is not None]
        return median(known) if len(known) == len(found) else None

    def _run(self, trial: Trial) -> float | None:
        request = self.request
        settings = {**self._settings(trial), MARK: self.guests.run_name}
        argv = command(request.test, trial, self.nodes, settings, self.guests.agent)
        seen = self._live() if request.options.live and len(trial.vms) == len(self.nodes) else None
        try:
            done = self.guests.run(trial.vms, argv, timeout=request.options.timeout, most=LARGEST, seen=seen)
        except GuestTimedOut as error:
            self._failed(trial, error.message)
            return None
        # the log of NCCL goes to the output too, errors of mpirun to the error output
        runs = parse_text([*plain(done.out).splitlines(), *plain(done.err).splitlines()])
        ranks = ranks_of(request.test, trial, self.nodes)
        judged = judge_runs([("", run) for run in runs], (), 0.0, BenchmarkContext(ranks))
        self.last = runs[0] if len(runs) == 1 else None
        bad = [c for each in judged.runs for c in each.checks if c.verdict in ("fail", "unknown")]
        # TCP instead of RDMA is a slow result, and not a missing one
        wrong = [c for c in bad if c.rule not in ("nccl.socket",)]
        if done.code or len(runs) != 1 or not is_passed(wrong):
            self._failed(trial, wrong[0].message if wrong else done.shown or f"mpirun ended with {done.code}")
            return None
        self.done.append((ranks, runs[0]))
        return runs[0].peak

    def _live(self) -> Callable[[bytes], None]:
        """Return what reads the output of a run piece by piece, and emits its rows."""
        reader, left, shown = NcclTextReader(), b"", 0

        def seen(piece: bytes) -> None:
            nonlocal left, shown
            *lines, left = (left + piece)[-LARGEST_LINE:].split(b"\n")
            for line in lines:
                reader.feed(plain(line.decode("utf-8", "replace")))
            rows = [row for run in reader.runs for row in run.rows]
            for row in rows[shown:]:
                best = max(row.measures, key=lambda m: m.busbw.value)
                values = best.time.value, best.algbw.value, best.busbw.value
                self.emit(BenchmarkRow(row.size, *values, is_first=not shown))
                shown += 1

        return seen

    def _settings(self, trial: Trial) -> dict[str, str]:
        """Return the variables of NCCL that are the same for every VM of a trial."""
        nodes = [self.nodes[vm] for vm in trial.vms]
        each = [{s.name: s.value for s in nccl_settings(node, nodes=nodes) if s.value is not None} for node in nodes]
        return {name: value for name, value in each[0].items() if all(own.get(name) == value for own in each)}

    def _failed(self, trial: Trial, text: str) -> None:
        message = f"{_named(trial)}: {text}"
        self.failures.append(of_run("nccl.run-failed", "unknown", message))
        self.emit(Remark("nccl.run-failed", message))

    def result(self, **more: object) -> NcclResult:
        """Return a result with what was run."""
        counts = {"trials": self.trials, "rounds": self.rounds, "failures": tuple(self.failures)}
        return NcclResult(tuple(self.nodes.values()), **counts, **more)  # type: ignore[arg-type]


def _named(trial: Trial) -> str:
    few = ", ".join(trial.vms) if len(trial.vms) < 5 else f"{trial.vms[0]} … {trial.vms[-1]} ({len(trial.vms)} VMs)"
    rails = f", rails {', '.join(map(str, trial.rails))}" if trial.rails else ""
    gpus = f", GPUs {', '.join(map(str, trial.gpus))}" if trial.gpus else ""
    return f"{few}{rails}{gpus}{f' ({trial.why})' if trial.why else ''}"


def _together(runner: RoundRunner, nodes: Sequence[Node], expected: Sequence[ExpectedBandwidth]) -> NcclResult:
    trial = Trial(tuple(node.vm for node in nodes), runs=runner.request.options.runs)
    values = runner.round([trial])
    runs = [("", runner.last)] if runner.last else []
    started = BenchmarkContext(ranks_of(runner.request.test, trial, runner.nodes))
    # a baseline may also have figures of pairs
    own = [e for e in expected if e.ranks in (None, started.ranks)]
    expected = own or expected
    parsed = judge_runs(runs, expected, runner.request.options.tolerance, started)
    missing = (*parsed.missing, *runner.failures)
    return runner.result(parsed=ParseResult(parsed.runs, missing), reference=values[trial])


def _judge(options: NcclOptions) -> Judge:
    return Judge(options.slowdown, options.runs, options.reference)


def _pairwise(runner: RoundRunner, nodes: Sequence[Node], expected: Sequence[ExpectedBandwidth] = ()) -> NcclResult:
    options = runner.request.options
    judge = _judge(options)
    if expected and judge.reference is None:
        judge.reference = _expected_of_a_pair(runner, nodes, expected)
    rounds = in_rounds(options.pairs) if options.pairs else rounds_of_pairs([node.vm for node in nodes])
    pairs = runner.carry_out(measure_pairs(rounds, judge, options.known))
    bad, slow = slow_ends(pairs, judge)
    # a pair that is slow alone may be so by chance
    chance = [pair for pair in slow if pairs[pair] is not None and pair not in options.known]
    if chance:
        pairs |= runner.carry_out(measure_pairs(in_rounds(chance), replace(judge, runs=RUNS * judge.runs)))
        bad, slow = slow_ends(pairs, judge)
    of = {node.vm: node for node in nodes}
    found = [_slow_vm(of[vm]) for vm in bad]
    for one, other in slow:
        text = f"{one} and {other} are slow with each other only"
        found.append(Culprit("link", text, "check the links between their hosts", ends=(one, other)))
    return runner.result(pairs=pairs, found=tuple(found), reference=judge.reference)


def _expected_of_a_pair(runner: RoundRunner, nodes: Sequence[Node], expected: Sequence[ExpectedBandwidth]) -> float:
    """Return the figure of a baseline for two VMs; `UsageError` where it has none."""
    test = runner.request.test
    ranks = ranks_of(test, Trial(tuple(node.vm for node in nodes[:2])), runner.nodes)
    own = [e.busbw for e in expected if e.operation == test.operation and e.ranks in (None, ranks)]
    if not own:
        words = f"the baseline has no figure of {test.operation} on {ranks} ranks"
        raise UsageError(words, "learn one: --pairwise --learn FILE")
    return own[0]


def _slow_vm(node: Node) -> Culprit:
    where = f"{node.vm} on {node.host}" if node.host else node.vm
    return Culprit("vm", f"{where} is slow with every healthy VM", "find the part with --bisect", node.vm, node.host)


def _bisect(runner: RoundRunner, nodes: Sequence[Node]) -> NcclResult:
    judge = _judge(runner.request.options)
    outcome = runner.carry_out(search(nodes, judge))
    bad = {layer.vm for layer in outcome.vms}
    bad |= {*outcome.unresolved, *(vm for link in outcome.links for end in (link.one, link.other) for vm in end.vms)}
    healthy = [node.vm for node in nodes if node.vm not in bad]
    of = {node.vm: node for node in nodes}
    searches = []
    for at, layer in enumerate(outcome.vms):
        own = healthy[3 * at : 3 * at + 3]
        searches.append(separate(layer, of[layer.vm], own if len(own) == 3 else healthy[:3], judge))
    outcome = replace(outcome, vms=tuple(runner.carry_out(together(searches))))
    return runner.result(outcome=outcome, found=accused(outcome, nodes), reference=outcome.reference)


def _layers(runner: RoundRunner, nodes: Sequence[Node]) -> NcclResult:
    if len(nodes) < 2:
        raise UsageError(f"layers are measured between two VMs, and {len(nodes)} is named", "name more VMs")
    alone = [node.vm for node in nodes if len(node.gpus) > 1]
    judge = _judge(runner.request.options)
    found = runner.carry_out(measure_layers([node.vm for node in nodes], alone, judge))
    return runner.result(layers=found, slow=slow_ways(found, judge))
