"""Nodes of a run that goes on: reached as far as they can be, and asked by logs and by NCCL whether the job gets on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from vsphere_ai.app.estate.scope import EstateRequest, inventory_of
from vsphere_ai.app.events import Emit, Status, ignore
from vsphere_ai.app.training.launch.control import newest, ras, status
from vsphere_ai.app.training.launch.job import job_nodes, load_job
from vsphere_ai.app.training.nodes.listed import guest_settings
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.errors import UsageError, VsphereAiError
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.progress import JobProgress, judged, needs_second, node_of
from vsphere_ai.training.ras import PORT, RasAnswer, read_answer
from vsphere_ai.training.run import LaunchResult, NodeRun

T = TypeVar("T")
JobRun = LaunchResult
"""How a run of a job stands, as every function that starts, watches or stops one returns it."""
GAP = 5.0
"""Seconds between two questions to NCCL."""
MOST_ASKED = 3
"""Nodes that are asked for NCCL, one after the other, until one answers: each knows all ranks."""


@dataclass(frozen=True)
class RunRequest:
    """A run of a job: by its name, else the newest that rank 0's node has."""

    job: Path
    run: str = ""
    estate: EstateRequest = field(default_factory=EstateRequest)


@dataclass(frozen=True)
class Reached:
    """The nodes of a job, with connections to those that can be reached, and errors of the others."""

    job: TrainingJob
    nodes: tuple[Node, ...]
    guests: GuestConnections

    def of_run(self, request: RunRequest) -> tuple[str, Reached]:
        """Return the run that is meant, and the nodes that it was started on: an elastic job may start without some."""
        if self.job.torchrun.elastic is None:
            return self._run_of(request), self
        run = request.run or max(self._newest(), default="") or self._run_of(request)
        found = self.on_each(lambda shell: status(shell, run))
        own = next((each.vms for each in found.values() if isinstance(each, NodeRun) and each.vms), ())
        by_vm = {node.vm: node for node in self.nodes}
        return run, replace(self, nodes=tuple(by_vm[vm] for vm in own if vm in by_vm) or self.nodes)

    def _newest(self) -> list[str]:
        """Return the newest run of each node that has one."""
        found = self.on_each(lambda shell: newest(shell, self.job))
        return [run for run in found.values() if isinstance(run, str)]

    def _run_of(self, request: RunRequest) -> str:
        """Return the run that is meant; the error of a guest where none can be asked for the newest."""
        if request.run:
            return request.run
        shell = next(iter(self.guests.shells.values()), None)
        if shell is None:
            raise next(iter(self.guests.failed.values()))
        return newest(shell, self.job)

    def on_each(self, work: Callable[[GuestSsh], T]) -> dict[str, T | VsphereAiError]:
        """Do something on every node that can be reached; return what it brought, or went wrong, by VM."""
        return self.guests.each(work, [node.vm for node in self.nodes])


@contextmanager
def reached(request: RunRequest, emit: Emit = ignore) -> Iterator[Reached]:
    """Log in to the nodes of a job, also where VMs of its set are off or cannot be reached."""
    job = load_job(request.job)
    if request.run and not request.run.startswith(f"{job.training_job}-"):
        raise UsageError(f"'{request.run}' is no run of {job.training_job}", "see the runs with: launch status")
    nodes, _ = job_nodes(job, request.job, request.estate, emit, fewest=None)
    with GuestConnections.to(nodes, guest_settings(inventory_of(request.estate))) as guests:
        yield Reached(job, nodes, guests)


def progress_of(found: Reached, result: LaunchResult, emit: Emit, gap: float) -> JobProgress:
    """Return whether a run gets on."""
    runs = {vm: each for vm, each in result.found.items() if isinstance(each, NodeRun)}
    clocks = {vm: each.steps for vm, each in runs.items() if each.steps}
    steps = found.job.steps
    address = str(dict(found.job.env).get("NCCL_RAS_ADDR", f"localhost:{PORT}"))
    emit(Status("asking NCCL about its ranks"))
    silence, answers = "", []
    for node in [n for n in found.nodes if n.vm in found.guests.shells and runs.get(n.vm, NodeRun()).pids][:MOST_ASKED]:
        answer = _answer(found.guests.shells[node.vm], address, found.nodes, runs)
        if not isinstance(answer, RasAnswer):
            silence = silence or answer
            continue
        answers = [answer]
        if needs_second(found.nodes, clocks, steps, answer):
            time.sleep(gap)
            again = _answer(found.guests.shells[node.vm], address, found.nodes, runs)
            answers += [again] if isinstance(again, RasAnswer) else []
        break
    emit(Status(""))
    return judged(found.nodes, clocks, steps, answers, "" if answers else silence)


def _answer(shell: GuestSsh, address: str, nodes: tuple[Node, ...], runs: Mapping[str, NodeRun]) -> RasAnswer | str:
    """Return what NCCL on a node answers, or why there is no answer about this run."""
    try:
        said = ras(shell, address)
    except VsphereAiError as error:
        return error.message
    if "text" not in said:
        return f"{shell.vm}: {said.get('fault', 'no answer')}"
    answer = read_answer(said["text"])
    if answer is None:
        return f"{shell.vm}: its answer cannot be read"
    named = [(node_of(nodes, p.host), p.pid) for p in answer.processes()]
    if named and not any(node and pid in runs.get(node.vm, NodeRun()).pids for node, pid in named):
        return f"{shell.vm}: it answers for processes that are not of this run"
    return answer
