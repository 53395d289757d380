"""Runs of jobs on nodes: started over SSH and detached, asked how they stand, read, and stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.launch_control import close, logs, newest, opened, start, status, stop
from vsphere_ai.app.launch_job import LaunchRequest, job_nodes, load_job, new_run
from vsphere_ai.app.launch_mesh import make_mesh
from vsphere_ai.app.nodes import guest_settings
from vsphere_ai.app.nodes_checked import checked
from vsphere_ai.app.nodes_pci import placed_nodes
from vsphere_ai.app.session import EstateRequest
from vsphere_ai.connect.guest_ssh import GuestSsh, on_each
from vsphere_ai.errors import UsageError
from vsphere_ai.health.preflight import Wanted
from vsphere_ai.language.inventory import find_inventory
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.launchers import launch
from vsphere_ai.training.run import LogsResult, NodeRun, RunResult


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
    if job.has_host_topology:
        nodes = placed_nodes(nodes, settings)
    run = new_run(job)
    made = launch(job, request.mode, nodes, run)
    again = job.resumed()
    resumed = launch(again, request.mode, nodes, run) if again is not None else None
    shells = opened(nodes, settings)
    try:
        emit(Status(f"starting {run}"))
        start(made, shells, make_mesh(run, nodes, settings) if made.needs_mesh else None, resumed)
        return RunResult(run, nodes, on_each(shells.values(), lambda shell: status(shell, run)))
    finally:
        close(shells)


def _wanted(job: TrainingJob, nodes: Sequence[Node]) -> Wanted:
    """Return what the guests of a job are asked for."""
    count = job.processes_per_node if isinstance(job.processes_per_node, int) else 0
    shared = (str(job.checkpoint.dir),) if job.checkpoint else ()
    return Wanted(count, job.port, shared, gpus=any(node.gpus for node in nodes))


def run_status(request: RunRequest, emit: Emit = ignore) -> RunResult:
    """Return how a run stands on each of its nodes."""
    return _asked(request, emit, lambda shell, run, _: status(shell, run))


def stop_run(request: RunRequest, emit: Emit = ignore) -> RunResult:
    """Stop a run on all its nodes, and return how it stands then; `left` are processes that could not be ended."""
    return _asked(request, emit, stop)


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
        run = request.run or newest(shells[nodes[0].vm], job)
        return LogsResult(run, on_each(shells.values(), lambda shell: logs(shell, run)))
    finally:
        close(shells)


Work = Callable[[GuestSsh, str, TrainingJob], NodeRun]


def _asked(request: RunRequest, emit: Emit, work: Work) -> RunResult:
    job, nodes, shells = _reached(request, emit)
    try:
        run = request.run or newest(shells[nodes[0].vm], job)
        return RunResult(run, nodes, on_each(shells.values(), lambda shell: work(shell, run, job)))
    finally:
        close(shells)


def _reached(request: RunRequest, emit: Emit) -> tuple[TrainingJob, tuple[Node, ...], dict[str, GuestSsh]]:
    job = load_job(request.job)
    if request.run and not request.run.startswith(f"{job.training_job}-"):
        raise UsageError(f"'{request.run}' is no run of {job.training_job}", "see the runs with: launch status")
    nodes, _ = job_nodes(job, request.job, request.estate, emit)
    return job, nodes, opened(nodes, guest_settings(find_inventory(request.estate.inventory)))
