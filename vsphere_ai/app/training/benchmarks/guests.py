"""Guests during a benchmark over SSH: they log in to each other with a key of the run, and nothing of it stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from vsphere_ai.app.events import Emit, Remark, Status
from vsphere_ai.app.training.benchmarks.launch import run_name
from vsphere_ai.app.training.launch import control as launch_control
from vsphere_ai.app.training.launch.mesh import Mesh, make_mesh
from vsphere_ai.app.training.node_program.processes import MARK
from vsphere_ai.benchmarks.launched import left_of
from vsphere_ai.connect.secure_shell.guest_ssh import Done, GuestSettings, GuestSsh
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections
from vsphere_ai.errors import StepFailed, VsphereAiError
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.launch import RUNS
from vsphere_ai.training.launchers.mpi import CONFIG_FILE
from vsphere_ai.training.run import LaunchResult, NodeRun

T = TypeVar("T")


@dataclass
class BenchmarkGuests:
    """The guests of a benchmark: commands in them carry its name, by which they are found and ended on every VM.

    `agent` is the command with which mpirun logs in to other VMs; `left` what could not be ended, as checks.
    """

    run_name: str
    nodes: Mapping[str, Node]
    guests: GuestConnections
    emit: Emit
    agent: str = ""
    left: tuple[Finding, ...] = ()
    is_stopped: bool = field(default=False, init=False)

    def run(
        self,
        vms: Sequence[str],
        argv: Sequence[str],
        *,
        timeout: float,
        most: int,
        seen: Callable[[bytes], None] | None = None,
    ) -> Done:
        """Run a command in the first of several VMs; where it ends badly, what it left on all of them is ended."""
        if self.is_stopped:
            raise StepFailed("the benchmark was stopped", "start it again", rule="bench.stopped")
        done = None
        try:
            marked = ("env", f"{MARK}={self.run_name}", *argv)
            done = self.guests.shells[vms[0]].run(marked, timeout=timeout, most=most, seen=seen)
            return done
        finally:
            if done is None or done.code:
                self.end(vms)

    def on_each(self, vms: Iterable[str], work: Callable[[GuestSsh], T]) -> dict[str, T | VsphereAiError]:
        """Do something in several VMs at once; an interruption ends the commands that are waited for."""
        return self.guests.each(work, vms, interrupted=self._interrupted)

    def _interrupted(self) -> None:
        self.is_stopped = True
        self.emit(Status(f"stopping {self.run_name}"))
        self.end(list(self.nodes))

    def end(self, vms: Sequence[str]) -> LaunchResult:
        """End its processes on some VMs, and return what is left there."""
        return self._on(vms, lambda shell: launch_control.end(shell, self.run_name))

    def clear(self) -> LaunchResult:
        """End its processes on all VMs, and remove its folder and its key there."""
        found = self._on(list(self.nodes), lambda shell: launch_control.clear(shell, self.run_name))
        self.left = left_of(found)
        for each in self.left:
            self.emit(Remark("bench.left", each.message))
        return found

    def _on(self, vms: Sequence[str], work: Callable[[GuestSsh], NodeRun]) -> LaunchResult:
        return LaunchResult(self.run_name, tuple(self.nodes[vm] for vm in vms), self.guests.each(work, vms))


@contextmanager
def benchmark_guests(
    benchmark: str, nodes: Sequence[Node], settings: GuestSettings, emit: Emit, *, meshed: bool = False
) -> Iterator[BenchmarkGuests]:
    """Log in to guests for a benchmark, and end everything of it after; the error of the first that is out of reach.

    `meshed`: each of them can log in to the others for that time.
    """
    with (
        GuestConnections.to_all(nodes, settings) as guests,
        prepared(benchmark, nodes, guests, settings if meshed else None, emit) as ready,
    ):
        yield ready


@contextmanager
def prepared(
    benchmark: str, nodes: Sequence[Node], guests: GuestConnections, settings: GuestSettings | None, emit: Emit
) -> Iterator[BenchmarkGuests]:
    """End everything of a benchmark after it on guests that are logged in to; with `settings` they can meet."""
    run = run_name(benchmark)
    mesh = make_mesh(run, nodes, settings, heads=nodes) if settings and len(nodes) > 1 else None
    found = BenchmarkGuests(run, {node.vm: node for node in nodes}, guests, emit)
    try:
        _prepare(found, mesh)
        yield found
        found.clear()
    except BaseException:
        found.is_stopped = True
        found.clear()
        if not found.left:
            emit(Remark("bench.stopped", f"{run}: its processes have ended, and no GPU lists one"))
        raise
    finally:
        emit(Status(""))


def _prepare(found: BenchmarkGuests, mesh: Mesh | None) -> None:
    """Make the folder of the run on all VMs, with its key; the error of the first that does not take it."""
    answers = found.guests.each(lambda s: launch_control.prepare(s, found.run_name, mesh), found.nodes)
    for answer in answers.values():
        if isinstance(answer, VsphereAiError):
            raise answer
    found.agent = "" if mesh is None else f"ssh -F {RUNS}/{found.run_name}/{CONFIG_FILE}"
