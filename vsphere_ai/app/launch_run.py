"""Runs of jobs on nodes: started over SSH and detached, asked how they stand, read, and stopped."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.launch_job import LaunchRequest, job_nodes, load_job, new_run
from vsphere_ai.app.launch_mesh import Mesh, make_mesh
from vsphere_ai.app.launch_node import ARGV, program
from vsphere_ai.app.nodes import guest_settings
from vsphere_ai.app.nodes_checked import checked
from vsphere_ai.app.session import EstateRequest
from vsphere_ai.connect.guest_ssh import GuestSettings, GuestSsh, on_each, open_guests
from vsphere_ai.errors import StepFailed, Unreachable, UsageError, VsphereAiError
from vsphere_ai.health.preflight import Wanted
from vsphere_ai.language.inventory import find_inventory
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.launch import RUNS, Launch, NodeLaunch, Process
from vsphere_ai.training.launchers import launch
from vsphere_ai.training.run import LogsResult, NodeRun, RunResult

T = TypeVar("T")
_ASK = 60.0
"""Seconds that a question to a node may take."""
MOST_LOG = 256 * 1024


@dataclass(frozen=True)
class RunRequest:
    """A run of a job: by its name, else the newest that rank 0's node has."""

    job: Path
    run: str = ""
    estate: EstateRequest = field(default_factory=EstateRequest)


def start_job(request: LaunchRequest, emit: Emit = ignore) -> RunResult:
    """Start a job on its nodes, detached, and return the run. Where a node cannot start, none goes on.

    `Unreachable` or `Denied` for a guest that cannot be reached, `StepFailed` for one on which it does not start.
    """
    job = load_job(request.job)
    nodes, states = job_nodes(job, request.job, request.estate, emit)
    settings = guest_settings(find_inventory(request.estate.inventory))
    if request.preflight:
        nodes = checked((nodes, states), settings, _wanted(job, nodes), emit, rule="launch.preflight")
    run = new_run(job)
    made = launch(job, request.mode, nodes, run)
    again = job.resumed()
    resumed = launch(again, request.mode, nodes, run) if again is not None else None
    shells = _opened(nodes, settings)
    try:
        emit(Status(f"starting {run}"))
        specs = _specs(made, resumed, make_mesh(run, nodes, settings) if made.needs_mesh else None)
        head, *others = (shells[node.vm] for node in nodes)
        found = on_each([head], lambda shell: _started(shell, specs[shell.vm]))
        if not _faults(found):
            found |= on_each(others, lambda shell: _started(shell, specs[shell.vm]))
        if faults := _faults(found):
            _on_all(shells, lambda shell: _stopped(shell, run, job))
            raise next(iter(faults.values()))
        return RunResult(run, nodes, _on_all(shells, lambda shell: _status(shell, run)))
    finally:
        _close(shells)


def _wanted(job: TrainingJob, nodes: Sequence[Node]) -> Wanted:
    """Return what the guests of a job are asked for."""
    count = job.processes_per_node if isinstance(job.processes_per_node, int) else 0
    shared = (str(job.checkpoint.dir),) if job.checkpoint else ()
    return Wanted(count, job.port, shared, gpus=any(node.gpus for node in nodes))


def run_status(request: RunRequest, emit: Emit = ignore) -> RunResult:
    """Return how a run stands on each of its nodes."""
    return _asked(request, emit, lambda shell, run, _: _status(shell, run))


def stop_run(request: RunRequest, emit: Emit = ignore) -> RunResult:
    """Stop a run on all its nodes, and return how it stands then; `left` are processes that could not be ended."""
    return _asked(request, emit, _stopped)


def wait_for_run(request: RunRequest, emit: Emit = ignore, every: float = 2.0) -> RunResult:
    """Return how a run stands once no process of it runs any more."""
    while True:
        found = run_status(request, emit)
        if found.is_over:
            return found
        request = replace(request, run=found.run)
        time.sleep(every)


def run_logs(request: RunRequest, emit: Emit = ignore) -> LogsResult:
    """Return the ends of the logs of a run."""
    job, nodes, shells = _reached(request, emit)
    try:
        run = request.run or _newest(shells[nodes[0].vm], job)
        spec: dict[str, JsonValue] = {"runs": RUNS, "run": run, "most": MOST_LOG}
        return LogsResult(run, _on_all(shells, lambda shell: _ask(shell, "logs", spec, TypeAdapter(dict[str, str]))))
    finally:
        _close(shells)


Work = Callable[[GuestSsh, str, TrainingJob], NodeRun]


def _asked(request: RunRequest, emit: Emit, work: Work) -> RunResult:
    job, nodes, shells = _reached(request, emit)
    try:
        run = request.run or _newest(shells[nodes[0].vm], job)
        return RunResult(run, nodes, _on_all(shells, lambda shell: work(shell, run, job)))
    finally:
        _close(shells)


def _reached(request: RunRequest, emit: Emit) -> tuple[TrainingJob, tuple[Node, ...], dict[str, GuestSsh]]:
    job = load_job(request.job)
    if request.run and not request.run.startswith(f"{job.training_job}-"):
        raise UsageError(f"'{request.run}' is no run of {job.training_job}", "see the runs with: launch status")
    nodes, _ = job_nodes(job, request.job, request.estate, emit)
    return job, nodes, _opened(nodes, guest_settings(find_inventory(request.estate.inventory)))


def _opened(nodes: Sequence[Node], settings: GuestSettings) -> dict[str, GuestSsh]:
    shells, failed = open_guests(nodes, settings)
    if failed:
        _close(shells)
        raise next(iter(failed.values()))
    return shells


def _on_all(shells: Mapping[str, GuestSsh], work: Callable[[GuestSsh], T]) -> dict[str, T | VsphereAiError]:
    return on_each(shells.values(), work)


def _close(shells: Mapping[str, GuestSsh]) -> None:
    for shell in shells.values():
        shell.close()


def _faults(found: Mapping[str, object]) -> dict[str, VsphereAiError]:
    return {vm: each for vm, each in found.items() if isinstance(each, VsphereAiError)}


def _specs(made: Launch, resumed: Launch | None, mesh: Mesh | None) -> dict[str, dict[str, JsonValue]]:
    """Return the orders to the supervisor of each node, by the names of the VMs."""
    job, first = made.job, made.nodes[0].node
    orders = [_processes(each, job, n) for n, each in enumerate(made.nodes)]
    again = [_processes(each, job, n) for n, each in enumerate(resumed.nodes)] if resumed else None
    shared: dict[str, JsonValue] = {
        "run": made.run,
        "folder": f"{RUNS}/{made.run}",
        "nodes": len(made.nodes),
        "head": [first.address, job.control_port],
        "token": secrets.token_hex(32),
        "workdir": job.workdir,
        "grace": job.grace,
        "done_when": job.done_when,
        "checkpoint": job.checkpoint.dir if job.checkpoint else None,
        "authorized": mesh.line if mesh else None,
    }
    found: dict[str, dict[str, JsonValue]] = {}
    for number, each in enumerate(made.nodes):
        spec = {**shared, "node": number, "processes": orders[number], "resumed": again[number] if again else None}
        files = (*each.files, *(mesh.files if mesh and number == 0 else ()))
        spec["files"] = [{"name": f.name, "text": f.text, "executable": f.executable} for f in files]
        if number == 0:
            spec |= {"every": _without_commands(orders), "every_resumed": _without_commands(again or ())}
        found[each.node.vm] = spec
    return found


def _processes(each: NodeLaunch, job: TrainingJob, number: int) -> list[JsonValue]:
    return [
        {"name": p.name, "argv": list(p.argv), "env": dict(p.env), "order": _order(p, job, number)}
        for p in each.processes
    ]


def _order(process: Process, job: TrainingJob, number: int) -> int:
    """Return when a process is started: by the launcher's rounds, and within one by the job's `start`."""
    later = {"together": False, "head_first": number > 0, "head_last": number == 0}[job.start]
    return 2 * process.order + int(later)


def _without_commands(nodes: Sequence[Sequence[JsonValue]]) -> list[JsonValue]:
    return [[{"name": p["name"], "order": p["order"]} for p in own if isinstance(p, dict)] for own in nodes]


def _started(shell: GuestSsh, spec: Mapping[str, JsonValue]) -> None:
    done = shell.run(ARGV, stdin=program("supervisor", "start", spec), timeout=_ASK)
    if done.code:
        help = "look at the guest: is there a python3 of version 3.8 or later?"
        raise StepFailed(f"{shell.vm}: the job does not start: {done.shown}", help, rule="launch.start")


def _status(shell: GuestSsh, run: str) -> NodeRun:
    return _ask(shell, "status", {"runs": RUNS, "run": run}, TypeAdapter(NodeRun))


def _stopped(shell: GuestSsh, run: str, job: TrainingJob) -> NodeRun:
    within = job.grace + 30
    spec: dict[str, JsonValue] = {"runs": RUNS, "run": run, "within": within}
    return _ask(shell, "stop", spec, TypeAdapter(NodeRun), within + _ASK)


def _newest(shell: GuestSsh, job: TrainingJob) -> str:
    found = _ask(shell, "runs", {"runs": RUNS, "job": job.training_job}, TypeAdapter(list[str]))
    if not found:
        raise UsageError(f"{shell.vm} has no run of {job.training_job}", "start it with: launch MODE -f FILE")
    return found[-1]


def _ask(
    shell: GuestSsh, function: str, spec: Mapping[str, JsonValue], form: TypeAdapter[T], within: float = _ASK
) -> T:
    """Ask a node; what it answers is read with bounds, as anything of a guest."""
    done = shell.run(ARGV, stdin=program("asking", function, spec), timeout=within)
    if done.code:
        raise StepFailed(f"{shell.vm}: {done.shown}", "look at the guest", rule="launch.node")
    try:
        return form.validate_json(done.out)
    except ValidationError:
        raise Unreachable(f"{shell.vm}: its answer cannot be read", "look at the guest", rule="launch.node") from None
