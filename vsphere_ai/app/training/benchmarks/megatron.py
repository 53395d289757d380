"""Runs of Megatron-LM with mock data on the guests of VMs: launched, read, judged and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.benchmarks.frame import BenchmarkPlace, VmBenchmark, carry_out_benchmark
from vsphere_ai.app.training.benchmarks.launch import carry_out, run_name
from vsphere_ai.app.training.benchmarks.parse import throughput_of
from vsphere_ai.app.training.launch.control import logs
from vsphere_ai.app.training.nodes.listed import NodesRequest
from vsphere_ai.benchmarks.baseline_file import baseline_text
from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.benchmarks.programs.megatron import parse_megatron
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput
from vsphere_ai.benchmarks.programs.megatron_benchmark import MegatronBenchmark, MegatronOptions
from vsphere_ai.benchmarks.programs.megatron_command import MegatronTest
from vsphere_ai.benchmarks.programs.training_results import MegatronResult
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.errors import UsageError, VsphereAiError
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import plain
from vsphere_ai.security.files import write_output

__all__ = ["MegatronOptions", "MegatronRequest", "MegatronResult", "MegatronTest", "bench_megatron"]


@dataclass(frozen=True)
class MegatronRequest:
    """Which VMs train what, and how it is judged."""

    nodes: NodesRequest
    test: MegatronTest = field(default_factory=MegatronTest)
    options: MegatronOptions = field(default_factory=MegatronOptions)


def bench_megatron(request: MegatronRequest, emit: Emit = ignore) -> MegatronResult:
    """Train a small model with mock data on VMs, detached as a job is, and judge what it reaches.

    The guests need Megatron-LM and PyTorch. `UsageError` where no VM is meant or guests are out of reach; `Refused`
    where something blocks a start.
    """
    about = MegatronBenchmark(request.test, request.options, _expected(request.options))
    return carry_out_benchmark(_Megatron(about), request.nodes, emit)


class _Megatron(VmBenchmark[MegatronResult]):
    """A training that is launched like a job."""

    def __init__(self, about: MegatronBenchmark) -> None:
        super().__init__(about)
        self._megatron = about

    def measure(self, place: BenchmarkPlace) -> MegatronResult:
        return train(self._megatron, place.nodes, place.guests, place.emit)

    def learn(self, result: MegatronResult) -> MegatronResult:
        """Write a baseline of a run that passed, where one is wanted."""
        _learn(self._megatron.options, result)
        return result


def train(about: MegatronBenchmark, nodes: Sequence[Node], guests: GuestConnections, emit: Emit) -> MegatronResult:
    """Run once on these nodes and return what it reached."""
    made = about.launch(nodes, run_name("megatron"))
    last = guests.shells[nodes[-1].vm]

    def look(_: float) -> None:
        found = parse_megatron(_lines(last, made.run))
        emit(Status(f"iteration {found[-1].number} of {about.test.iterations}" if found else f"{made.run} starts"))

    (carried,) = carry_out([made], guests, emit, within=about.options.timeout, look=look)
    return about.result(tuple(nodes), carried)


def _lines(shell: GuestSsh, run: str) -> list[str]:
    try:
        return [line for text in logs(shell, run).values() for line in plain(text).splitlines()]
    except VsphereAiError:
        return []


def _expected(options: MegatronOptions) -> tuple[ExpectedThroughput, ...]:
    if options.learned is not None and options.learned.exists():
        raise UsageError(f"{options.learned} is there already", "name another file, or remove it")
    if options.baseline is None:
        return ()
    return throughput_of(options.baseline)


def _learn(options: MegatronOptions, result: MegatronResult) -> None:
    """Write a baseline of a run that passed, where one is wanted."""
    if options.learned is None:
        return
    tflops = result.reached.tflops if result.reached is not None else None
    if tflops is None or not is_passed(result.findings):
        raise UsageError("there is nothing to learn: the run did not pass", "correct what failed, and run it again")
    made = ExpectedThroughput(model=result.test.name, tflops=round(tflops, 2), gpus=result.gpus)
    write_output(options.learned, baseline_text(megatron=[made]))
