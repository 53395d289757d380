"""Scaling of VMs: the same benchmark on 1, 2, 4 … of them, and the step at which efficiency falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vsphere_ai.app.events import Emit, OutputLine, Status, ignore
from vsphere_ai.app.training.benchmarks.frame import BenchmarkPlace, VmBenchmark, carry_out_benchmark
from vsphere_ai.app.training.benchmarks.guests import BenchmarkGuests, prepared
from vsphere_ai.app.training.benchmarks.megatron import train
from vsphere_ai.app.training.benchmarks.nccl import NcclRequest, RoundRunner
from vsphere_ai.app.training.nodes.listed import NodesRequest
from vsphere_ai.benchmarks.checks import is_passed
from vsphere_ai.benchmarks.nccl.nccl_benchmark import NcclOptions
from vsphere_ai.benchmarks.nccl.nccl_command import NcclTest
from vsphere_ai.benchmarks.programs.megatron_benchmark import MegatronBenchmark, MegatronOptions
from vsphere_ai.benchmarks.programs.megatron_command import MegatronTest
from vsphere_ai.benchmarks.programs.scale_benchmark import ScaleBenchmark, ScaleOptions, missing_size
from vsphere_ai.benchmarks.programs.training_results import ScaleResult
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import counted

__all__ = ["ScaleOptions", "ScaleRequest", "bench_scale"]
ALL_REDUCE = NcclTest(least="1G", most="1G")
"""What `nccl` measures: an all-reduce of one large size."""


@dataclass(frozen=True)
class ScaleRequest:
    """Which VMs, in the order in which they are added; `test` is what `megatron` trains."""

    nodes: NodesRequest
    options: ScaleOptions = field(default_factory=ScaleOptions)
    test: MegatronTest = field(default_factory=MegatronTest)


def bench_scale(request: ScaleRequest, emit: Emit = ignore) -> ScaleResult:
    """Run a benchmark on 1, 2, 4 … VMs and on all of them.

    `UsageError` for fewer VMs than two sizes need; `Refused` where something blocks a start.
    """
    return carry_out_benchmark(_Scale(request), request.nodes, emit)


class _Scale(VmBenchmark[ScaleResult]):
    """The measurement of one size after the other, on guests that stay logged in to."""

    def __init__(self, request: ScaleRequest) -> None:
        self._scale = ScaleBenchmark(request.options)
        super().__init__(self._scale)
        self._request = request

    def measure(self, place: BenchmarkPlace) -> ScaleResult:
        request, nodes, sizes = self._request, place.nodes, self._scale.sizes(place.nodes)
        if request.options.what == "nccl":
            with prepared("nccl", nodes, place.guests, place.settings, place.emit) as meshed:
                values, checks = _nccl(request, meshed, sizes, place.emit)
            checks += meshed.left
        else:
            values, checks = _megatron(request, nodes, place.guests, sizes, place.emit)
        return self._scale.result(nodes, values, checks)


def _nccl(
    request: ScaleRequest, guests: BenchmarkGuests, sizes: Sequence[int], emit: Emit
) -> tuple[dict[int, float], list[Finding]]:
    """Return the bus bandwidth of each size times its VMs: what all of them move, linear where it stays the same."""
    test = NcclTest(least=ALL_REDUCE.least, most=ALL_REDUCE.most, suffix=request.options.suffix)
    options = NcclOptions(timeout=request.options.timeout)
    runner = RoundRunner(NcclRequest(request.nodes, test, options), guests, emit)
    values, checks = {}, []
    for size in sizes:
        trial = Trial(tuple(guests.nodes)[:size])
        found = [v for _ in range(request.options.runs) if (v := runner.round([trial])[trial]) is not None]
        if found:
            values[size] = max(found) * size
        else:
            checks.append(missing_size(size, runner.failures[-1].message))
    return values, checks


def _megatron(
    request: ScaleRequest, nodes: tuple[Node, ...], guests: GuestConnections, sizes: Sequence[int], emit: Emit
) -> tuple[dict[int, float], list[Finding]]:
    """Return the samples per second of each size, with as many samples per GPU on each."""
    about = MegatronBenchmark(request.test, MegatronOptions(timeout=request.options.timeout))
    values, checks = {}, []
    for size in sizes:
        found = []
        for _ in range(request.options.runs):
            emit(Status(f"megatron on {size} of {counted(len(nodes), 'VM')}"))
            result = train(about, nodes[:size], guests, emit)
            samples = result.reached.samples if result.reached is not None else None
            if samples is None or not is_passed(result.findings):
                why = next((c.message for c in result.checks if c.verdict in ("fail", "unknown")), "not measured")
                checks.append(missing_size(size, why))
                break
            found.append(samples)
        if found:
            values[size] = max(found)
        shown = f"{values[size]:10.1f} samples/s" if size in values else "not measured"
        emit(OutputLine(f"{counted(size, 'VM'):>7}  {shown:>20}"))
    return values, checks
