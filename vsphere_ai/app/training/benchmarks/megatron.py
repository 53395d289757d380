"""Runs of Megatron-LM with mock data on the guests of VMs: launched, read, judged and kept."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.benchmarks.history import keep, say_slower, set_of
from vsphere_ai.app.training.benchmarks.launch import LEFT_REMEDY, Carried, carry_out, own_nodes, remaining, run_name
from vsphere_ai.app.training.launch.control import logs
from vsphere_ai.app.training.nodes.checked import checked
from vsphere_ai.app.training.nodes.listed import NodesRequest, NodesResult, guest_settings, read_nodes
from vsphere_ai.benchmarks.baseline import TOLERANCE
from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.history import BenchmarkResult, Trend
from vsphere_ai.benchmarks.programs import megatron_baseline
from vsphere_ai.benchmarks.programs.megatron import (
    megatron_checks,
    megatron_gate,
    parse_megatron,
    throughput,
)
from vsphere_ai.benchmarks.programs.megatron_baseline import ExpectedThroughput
from vsphere_ai.benchmarks.programs.megatron_command import MegatronTest
from vsphere_ai.benchmarks.programs.training_results import MegatronResult
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings, GuestSsh
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.errors import UsageError, VsphereAiError
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.language.yaml_files.document import require, text_of
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import plain
from vsphere_ai.security.files import write_output
from vsphere_ai.training.job import CONTROL_PORT, DEFAULT_PORT, TrainingJob
from vsphere_ai.training.launchers import launch

__all__ = ["MegatronOptions", "MegatronRequest", "MegatronResult", "MegatronTest", "bench_megatron"]
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
    expected = _expected(request.options)
    playbook = load(request.nodes.playbook, request.nodes.estate, emit) if request.nodes.playbook else None
    with open_session(request.nodes.estate, playbook, emit) as session:
        read = read_nodes(session, request.nodes, playbook)
        settings = guest_settings(session.inventory)
    nodes = ready(request, read, settings, emit)
    with GuestConnections.to_all(nodes, settings) as guests:
        result = train(request, nodes, guests, emit, expected)
    trend = _kept(read, result)
    say_slower(trend, emit)
    _learn(request.options, result)
    return MegatronResult(**{**vars(result), "trend": trend})


def ready(request: MegatronRequest, read: NodesResult, settings: GuestSettings, emit: Emit) -> tuple[Node, ...]:
    """Return the nodes, whose guests were asked where that is wanted."""
    if not request.options.preflight:
        return read.nodes
    listens, test = ((0, request.options.port), (0, CONTROL_PORT)), request.test
    wanted = PreflightRequirements(listens=listens, scripts=(test.script,), python=test.python, packages=("torch",))
    return checked((read.nodes, read.states), settings, wanted, emit, rule="bench.preflight")


def train(
    request: MegatronRequest,
    nodes: Sequence[Node],
    guests: GuestConnections,
    emit: Emit,
    expected: Sequence[ExpectedThroughput] = (),
) -> MegatronResult:
    """Run once on these nodes and return what it reached."""
    test, options = request.test, request.options
    gpus = sum(len(node.gpus) for node in nodes)
    if not gpus or any(not node.gpus for node in nodes):
        lacking = ", ".join(node.vm for node in nodes if not node.gpus)
        raise UsageError(f"{lacking}: no GPU is known", "look at the VM's devices", rule="usage.gpus")
    job = TrainingJob(
        training_job="megatron",
        nodes=own_nodes(nodes),
        script=test.script,
        args=test.arguments(gpus),
        python=test.python,
        workdir=test.folder,
        env=(("CUDA_DEVICE_MAX_CONNECTIONS", "1"),),
        port=options.port,
    )
    made = launch(job, "torchrun", nodes, run_name("megatron"))
    last = guests.shells[nodes[-1].vm]

    def look(_: float) -> None:
        found = parse_megatron(_lines(last, made.run))
        emit(Status(f"iteration {found[-1].number} of {test.iterations}" if found else f"{made.run} starts"))

    (carried,) = carry_out([made], guests, emit, within=options.timeout, look=look)
    return _judged(request, tuple(nodes), gpus, carried, expected)


def _lines(shell: GuestSsh, run: str) -> list[str]:
    try:
        return [line for text in logs(shell, run).values() for line in plain(text).splitlines()]
    except VsphereAiError:
        return []


def _judged(
    request: MegatronRequest,
    nodes: tuple[Node, ...],
    gpus: int,
    carried: Carried,
    expected: Sequence[ExpectedThroughput],
) -> MegatronResult:
    """Return the result of a run; Megatron logs on the last rank, so that one node has the iterations."""
    test, options = request.test, request.options
    texts = {
        vm: [line for text in own.values() for line in plain(text).splitlines()] for vm, own in carried.logs.items()
    }
    found = max((parse_megatron(lines) for lines in texts.values()), key=len, default=())
    reached = throughput(found, test.warmup)
    checks = []
    if carried.why:
        checks.append(of_run("megatron.run-failed", "unknown", carried.why, "the end of its log says why"))
    checks += [of_run("bench.left", "fail", text, LEFT_REMEDY) for text in remaining(carried.run)]
    if found or not carried.why:
        checks += megatron_checks(found, test.iterations, test.warmup)
    own = megatron_baseline.expected_for(expected, test.name, gpus)
    tflops = reached.tflops if reached is not None else None
    if own is not None:
        checks += [check] if (check := megatron_gate(tflops, own, options.tolerance)) else []
    elif options.baseline is not None:
        text = f"the baseline has no '{test.name}' on {gpus} GPUs"
        checks.append(of_run("megatron.not-measured", "unknown", text, "learn it with --learn"))
    if options.min_tflops is not None:
        wanted = ExpectedThroughput(test.name, options.min_tflops, gpus)
        checks += [check] if (check := megatron_gate(tflops, wanted, 0.0)) else []
    tail = _tail(texts, carried) if carried.why or not found else ()
    return MegatronResult(nodes, test, gpus, found, reached, tuple(checks), own, None, tail)


def _tail(texts: Mapping[str, Sequence[str]], carried: Carried) -> tuple[str, ...]:
    """Return the last lines of the node that is why a run failed, else of the first."""
    named = next((vm for vm in texts if vm in carried.why), next(iter(texts), ""))
    return tuple(f"{named}: {line}" for line in [x for x in texts.get(named, ()) if x.strip()][-SHOWN_LINES:])


def _expected(options: MegatronOptions) -> tuple[ExpectedThroughput, ...]:
    if options.learned is not None and options.learned.exists():
        raise UsageError(f"{options.learned} is there already", "name another file, or remove it")
    if options.baseline is None:
        return ()
    require(options.baseline, "baseline")
    return megatron_baseline.read(text_of(options.baseline), str(options.baseline))


def _learn(options: MegatronOptions, result: MegatronResult) -> None:
    """Write a baseline of a run that passed, where one is wanted."""
    if options.learned is None:
        return
    tflops = result.reached.tflops if result.reached is not None else None
    if result.exit_code or tflops is None:
        raise UsageError("there is nothing to learn: the run did not pass", "correct what failed, and run it again")
    made = ExpectedThroughput(result.test.name, round(tflops, 2), result.gpus)
    write_output(options.learned, megatron_baseline.text_of([made]))


def _kept(read: NodesResult, result: MegatronResult) -> Trend | None:
    """Add the result of a whole set that was measured to its history."""
    name = set_of(read)
    if not name or result.exit_code or result.reached is None:
        return None
    value = result.reached.tflops or result.tokens
    if value is None:
        return None
    unit = "TFLOP/s" if result.reached.tflops else "tokens/s"
    made = BenchmarkResult(time.time(), name, "megatron", result.test.name, result.gpus, 0, value, unit)
    return keep(read.estate.about.instance, made)
