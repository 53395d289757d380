"""Runs of jobs on nodes: started over SSH and detached, asked how they stand, read, and stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from vsphere_ai.app.estate.scope import inventory_of
from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.launch.control import logs, start, status, stop
from vsphere_ai.app.training.launch.job import LaunchRequest, fewest_of, job_nodes, load_job, new_run
from vsphere_ai.app.training.launch.mesh import make_mesh
from vsphere_ai.app.training.launch.secrets import job_secrets, mask_secrets
from vsphere_ai.app.training.launch.watch import GAP, RunRequest, progress_of, reached
from vsphere_ai.app.training.nodes.checked import checked, with_rails
from vsphere_ai.app.training.nodes.listed import guest_settings
from vsphere_ai.app.training.nodes.pci import placed_nodes
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.health.preflight import Logins, PreflightRequirements
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.launch import Launch, programs_of
from vsphere_ai.training.launchers import launch
from vsphere_ai.training.run import LaunchResult, LogsResult, NodeRun


def start_job(request: LaunchRequest, emit: Emit = ignore) -> LaunchResult:
    """Start a job on its nodes, detached, and return the run. Where a node cannot start, none goes on.

    Secrets of the job are fetched first: `NoPassword` where one is not there. `Unreachable` or `Denied` for a guest
    that cannot be reached, `StepFailed` for one on which it does not start.
    """
    job = load_job(request.job)
    secrets = job_secrets(job, request.job.parent)
    nodes, states = job_nodes(job, request.job, request.estate, emit, fewest=fewest_of(job, request.mode))
    settings = guest_settings(inventory_of(request.estate))
    if request.preflight:
        wanted = _wanted(launch(job, request.mode, nodes, job.training_job))
        nodes = checked((nodes, states), settings, wanted, emit, rule="launch.preflight")
    else:  # rails are those of the guests all the same; one that cannot be reached ends the start below
        nodes, _ = with_rails(nodes, settings)
    if job.has_host_topology:
        nodes = placed_nodes(nodes, settings, states)
    run = new_run(job)
    made = launch(job, request.mode, nodes, run)
    again = job.resumed()
    resumed = launch(again, request.mode, nodes, run) if again is not None else None
    with GuestConnections.to_all(nodes, settings) as guests:
        emit(Status(f"starting {run}"))
        start(made, guests, make_mesh(run, nodes, settings) if made.needs_mesh else None, resumed, secrets)
        return LaunchResult(run, nodes, guests.each(lambda shell: status(shell, run)))


def _wanted(made: Launch) -> PreflightRequirements:
    """Return what the guests of a job are asked for."""
    job = made.job
    count = job.processes_per_node if isinstance(job.processes_per_node, int) else 0
    folders = (job.checkpoint.dir if job.checkpoint else None, job.workdir, *job.shared)
    return PreflightRequirements(
        count,
        (*made.listens, (0, job.control_port)),
        tuple(dict.fromkeys(str(each) for each in folders if each is not None)),
        job.scripts,
        programs_of(made),
        job.python,
        gpus=any(each.node.gpus for each in made.nodes),
        logins=_logins(made),
    )


def _logins(made: Launch) -> Logins:
    if made.has_logins:
        return "mesh" if made.needs_mesh else "all" if made.logs_in_everywhere else "own"
    return ""


def run_status(request: RunRequest, emit: Emit = ignore) -> LaunchResult:
    """Return how a run stands on each of its nodes."""
    return _asked(request, emit, lambda shell, run, _: status(shell, run))


def watch_run(request: RunRequest, emit: Emit = ignore, gap: float = GAP) -> LaunchResult:
    """Return how a run stands, and while it goes on whether it gets on: by the steps in its logs, and by NCCL.

    NCCL is asked once, and again `gap` seconds later unless the steps come in time.
    """
    with reached(request, emit) as all_guests:
        run, guests = all_guests.of_run(request)
        result = LaunchResult(run, guests.nodes, guests.on_each(lambda shell: status(shell, run)))
        return result if result.is_over else replace(result, progress=progress_of(guests, result, emit, gap))


def stop_run(request: RunRequest, emit: Emit = ignore) -> LaunchResult:
    """Stop a run on all its nodes, and return how it stands then; `left` are processes that could not be ended."""
    return _asked(request, emit, stop)


def wait_for_run(request: RunRequest, emit: Emit = ignore, every: float = 2.0) -> LaunchResult:
    """Return how a run stands once no process of it runs any more."""
    while True:
        found = run_status(request, emit)
        if found.is_over:
            return found
        request = replace(request, run=found.run)
        time.sleep(every)


def run_logs(request: RunRequest, emit: Emit = ignore) -> LogsResult:
    """Return the ends of the logs of a run."""
    with reached(request, emit) as all_guests:
        mask_secrets(all_guests.job, request.job.parent, emit)
        run, guests = all_guests.of_run(request)
        return LogsResult(run, guests.on_each(lambda shell: logs(shell, run)))


def _asked(request: RunRequest, emit: Emit, work: Callable[[GuestSsh, str, TrainingJob], NodeRun]) -> LaunchResult:
    with reached(request, emit) as all_guests:
        run, guests = all_guests.of_run(request)
        return LaunchResult(run, guests.nodes, guests.on_each(lambda shell: work(shell, run, guests.job)))
