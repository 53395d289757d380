"""Scaling of VMs: the same benchmark on 1, 2, 4 … of them, and the step at which efficiency falls."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, OutputLine, Status, ignore
from vsphere_ai.app.training.benchmarks.guests import BenchmarkGuests, prepared
from vsphere_ai.app.training.benchmarks.history import keep, say_slower, set_of
from vsphere_ai.app.training.benchmarks.megatron import MegatronOptions, MegatronRequest, train
from vsphere_ai.app.training.benchmarks.nccl import NcclOptions, NcclRequest, RoundRunner
from vsphere_ai.app.training.nodes.checked import checked
from vsphere_ai.app.training.nodes.listed import NodesRequest, NodesResult, guest_settings, read_nodes
from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.history import BenchmarkResult, Trend
from vsphere_ai.benchmarks.nccl.nccl_command import NcclTest
from vsphere_ai.benchmarks.programs.megatron_command import MegatronTest
from vsphere_ai.benchmarks.programs.scaling import LEAST, counts, falls, scaling, scaling_checks
from vsphere_ai.benchmarks.programs.training_results import ScaleResult, What
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.errors import UsageError
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import counted

ALL_REDUCE = NcclTest(least="1G", most="1G")
"""What `nccl` measures: an all-reduce of one large size."""


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
class ScaleRequest:
    """Which VMs, in the order in which they are added; `test` is what `megatron` trains."""

    nodes: NodesRequest
    options: ScaleOptions = field(default_factory=ScaleOptions)
    test: MegatronTest = field(default_factory=MegatronTest)


def bench_scale(request: ScaleRequest, emit: Emit = ignore) -> ScaleResult:
    """Run a benchmark on 1, 2, 4 … VMs and on all of them.

    `UsageError` for fewer VMs than two sizes need; `Refused` where something blocks a start.
    """
    options = request.options
    playbook = load(request.nodes.playbook, request.nodes.estate, emit) if request.nodes.playbook else None
    with open_session(request.nodes.estate, playbook, emit) as session:
        read = read_nodes(session, request.nodes, playbook)
        settings = guest_settings(session.inventory)
    sizes = counts(len(read.nodes), least=2 if options.what == "nccl" else 1)
    if len(sizes) < 2:
        text = f"{counted(len(read.nodes), 'VM')}: {options.what} is compared on two numbers of VMs at least"
        raise UsageError(text, "name more VMs")
    nodes = read.nodes
    if options.preflight:
        nodes = checked((nodes, read.states), settings, PreflightRequirements(), emit, rule="bench.preflight")
    with GuestConnections.to_all(nodes, settings) as guests:
        if options.what == "nccl":
            with prepared("nccl", nodes, guests, settings, emit) as meshed:
                values, checks = _nccl(request, meshed, sizes, emit)
            checks += meshed.left
        else:
            values, checks = _megatron(request, nodes, guests, sizes, emit)
    result = _judged(request, nodes, values, checks)
    trend = _kept(read, result)
    say_slower(trend, emit)
    return ScaleResult(**{**vars(result), "trend": trend})


def _judged(
    request: ScaleRequest, nodes: tuple[Node, ...], values: Mapping[int, float], checks: Sequence[Finding]
) -> ScaleResult:
    scales = scaling(values)
    step = falls(scales, [node.vm for node in nodes])
    found = [*checks, *scaling_checks(scales, request.options.least)]
    unit = "GB/s" if request.options.what == "nccl" else "samples/s"
    return ScaleResult(nodes, request.options.what, unit, scales, step, tuple(found))


def _missing(size: int, why: str) -> Finding:
    return of_run(
        "scale.not-measured", "unknown", f"{counted(size, 'VM')}: {why}", "a size that was not measured is no pass"
    )


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
            checks.append(_missing(size, runner.failures[-1].message))
    return values, checks


def _megatron(
    request: ScaleRequest, nodes: tuple[Node, ...], guests: GuestConnections, sizes: Sequence[int], emit: Emit
) -> tuple[dict[int, float], list[Finding]]:
    """Return the samples per second of each size, with as many samples per GPU on each."""
    options = MegatronOptions(timeout=request.options.timeout)
    values, checks = {}, []
    for size in sizes:
        found = []
        for _ in range(request.options.runs):
            emit(Status(f"megatron on {size} of {counted(len(nodes), 'VM')}"))
            result = train(MegatronRequest(request.nodes, request.test, options), nodes[:size], guests, emit)
            samples = result.reached.samples if result.reached is not None else None
            if result.exit_code or samples is None:
                why = next((c.message for c in result.checks if c.verdict in ("fail", "unknown")), "not measured")
                checks.append(_missing(size, why))
                break
            found.append(samples)
        if found:
            values[size] = max(found)
        shown = f"{values[size]:10.1f} samples/s" if size in values else "not measured"
        emit(OutputLine(f"{counted(size, 'VM'):>7}  {shown:>20}"))
    return values, checks


def _kept(read: NodesResult, result: ScaleResult) -> Trend | None:
    """Add the efficiency of a whole set to its history, where every size was measured."""
    name = set_of(read)
    if not name or not result.scales or result.scales[-1].vms != len(result.nodes):
        return None
    last = result.scales[-1]
    gpus = sum(len(node.gpus) for node in result.nodes)
    made = BenchmarkResult(time.time(), name, "scale", result.what, gpus, 0, last.efficiency, "of linear")
    return keep(read.estate.about.instance, made)
