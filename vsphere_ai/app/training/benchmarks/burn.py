"""Burns of VMs: every GPU trains the same steps for a while; what it computes is compared, what it shows is judged."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import TypeAdapter

from vsphere_ai.app.estate.references import load
from vsphere_ai.app.estate.session import open_session
from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.benchmarks.burn_samples import Sampler
from vsphere_ai.app.training.benchmarks.history import FOLDER, keep, say_slower, set_of
from vsphere_ai.app.training.benchmarks.launch import LEFT_REMEDY, Carried, carry_out, own_nodes, remaining, run_name
from vsphere_ai.app.training.nodes.checked import checked
from vsphere_ai.app.training.nodes.listed import NodesRequest, NodesResult, guest_settings, read_nodes
from vsphere_ai.benchmarks.checks import of_run
from vsphere_ai.benchmarks.history import BenchmarkResult
from vsphere_ai.benchmarks.programs.burn import Burned, agreed, judge, read_report
from vsphere_ai.benchmarks.programs.training_results import BurnResult
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.errors import Storage, UsageError
from vsphere_ai.health.preflight import PreflightRequirements
from vsphere_ai.model.nodes import Node
from vsphere_ai.model.text import plain
from vsphere_ai.security.files import STATE, read_bytes, write_private
from vsphere_ai.security.state_dir import own_folder
from vsphere_ai.training.job import CONTROL_PORT, TrainingJob
from vsphere_ai.training.launch import RUNS, Launch, NodeFile
from vsphere_ai.training.launchers import launch
from vsphere_ai.training.on_node import burn_file

Number = Literal["bfloat16", "float16", "float32"]
PROGRAM = "burn.py"
LATE = 300.0
"""Seconds after its time in which a burn has to end."""
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
class BurnRequest:
    """Which VMs burn, and how."""

    nodes: NodesRequest
    options: BurnOptions = field(default_factory=BurnOptions)


def bench_burn(request: BurnRequest, emit: Emit = ignore) -> BurnResult:
    """Keep every GPU of VMs busy with a program whose results are known bit for bit, and judge what it computes.

    The guests need PyTorch. Each VM stands for itself: one that fails stops no other. Ends by itself when its time is
    over, also where this process is gone.
    """
    options = request.options
    playbook = load(request.nodes.playbook, request.nodes.estate, emit) if request.nodes.playbook else None
    with open_session(request.nodes.estate, playbook, emit) as session:
        read = read_nodes(session, request.nodes, playbook)
        settings, connect = guest_settings(session.inventory), session.shells
    nodes = read.nodes
    if options.preflight:
        listens = tuple((number, CONTROL_PORT) for number in range(len(nodes)))
        wanted = PreflightRequirements(listens=listens, python=options.python, packages=("torch",))
        nodes = checked((nodes, read.states), settings, wanted, emit, rule="bench.preflight")
    lacking = ", ".join(node.vm for node in nodes if not node.gpus)
    if lacking:
        raise UsageError(f"{lacking}: no GPU is known", "look at the VM's devices", rule="usage.gpus")
    guests = GuestConnections.to_all(nodes, settings)
    sampler = Sampler.of(replace(read, nodes=nodes), guests, connect)
    run, began = run_name("burn"), time.monotonic()
    pause = min(options.every, options.seconds / 4)
    due = pause

    def look(seconds: float) -> None:
        nonlocal due
        if seconds >= due:
            due = seconds + pause
            sampler.take(nodes)
        hot = max((s[-1].temperature or 0 for s in sampler.samples.values()), default=0)
        heat = f", {hot:g} °C at most" if hot else ""
        emit(Status(f"burn: {seconds / 60:.1f} of {options.minutes:g} min on {len(nodes)} VMs{heat}"))

    try:
        launches = [_launch(request, node, run) for node in nodes]
        carried = carry_out(launches, guests, emit, within=options.seconds + LATE, look=look)
    finally:
        sampler.close()
        guests.close()
    result = _judged(nodes, carried, sampler, time.monotonic() - began)
    _kept(read, request, result, emit)
    return result


def _launch(request: BurnRequest, node: Node, run: str) -> Launch:
    """Return a process for each GPU of a VM, which needs no other VM."""
    options = request.options
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


def _judged(nodes: tuple[Node, ...], carried: Sequence[Carried], sampler: Sampler, seconds: float) -> BurnResult:
    burned, of_vms = [], {}
    for node, own in zip(nodes, carried, strict=True):
        logs = own.logs.get(node.vm, {})
        for gpu in node.gpus:
            report = read_report(plain(logs.get(f"rank-{gpu.index}.log", "")).splitlines())
            samples = tuple(sampler.samples.get((node.vm, gpu.index), ()))
            why = "" if samples else sampler.why.get(node.vm, "")
            pci = gpu.host_pci
            burned.append(Burned(node.vm, gpu.index, node.host, pci, report, samples, sampler.side(node), why))
        checks = [of_run("bench.left", "fail", text, LEFT_REMEDY) for text in remaining(own.run)]
        refused = any(b.vm == node.vm and b.report is not None and b.report.refused for b in burned)
        if own.why and not refused:
            checks.append(of_run("burn.run-failed", "unknown", own.why, "read its log, and look for XIDs with health"))
        if checks:
            of_vms[node.vm] = tuple(checks)
    earlier = _earlier()
    result = BurnResult(nodes, judge(burned, earlier), of_vms, seconds)
    _remember(earlier, burned)
    return result


def _file() -> Path:
    return own_folder(FOLDER) / "burn.json"


def _earlier() -> dict[str, dict[str, int]]:
    """Return the digests on which GPUs agreed in earlier burns on this machine, with how many did, by configuration."""
    try:
        return TypeAdapter(dict[str, dict[str, int]]).validate_json(read_bytes(_file(), STATE))
    except (OSError, ValueError):
        return {}


def _remember(earlier: dict[str, dict[str, int]], burned: Sequence[Burned]) -> None:
    """Keep what two GPUs or more agree on, for burns of the same configuration to come."""
    for key, (digest, number) in agreed(burned).items():
        known = earlier.setdefault(key, {})
        known[digest] = max(number, known.get(digest, 0))
    try:
        write_private(_file(), json.dumps(earlier).encode())
    except OSError as error:
        raise Storage(f"{_file()}: {error.strerror}", "what was computed is not kept for later burns") from error


def _kept(read: NodesResult, request: BurnRequest, result: BurnResult, emit: Emit) -> None:
    """Add the median pace of a whole set that passed to its history."""
    name = set_of(read)
    speeds = [s for each in result.gpus if each.gpu.report is not None and (s := each.gpu.report.speed)]
    if not name or result.exit_code or not speeds:
        return
    made = BenchmarkResult(time.time(), name, "burn", request.options.name, len(speeds), 0, median(speeds), "steps/s")
    say_slower(keep(read.estate.about.instance, made), emit)
