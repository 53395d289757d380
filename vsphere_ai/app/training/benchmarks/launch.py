"""Runs of benchmarks that are launched like jobs: started on all nodes, followed to their end, and stopped for sure."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from vsphere_ai.app.events import Emit, Remark, Status
from vsphere_ai.app.training.launch import control as launch_control
from vsphere_ai.benchmarks.launched import Carried, remaining, why_not_well
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh
from vsphere_ai.connect.secure_shell.guest_survey import AT_ONCE, GuestConnections
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.training.launch import Launch
from vsphere_ai.training.run import LaunchResult, NodeRun

PATIENCE = 3
"""Questions in a row that rank 0's node may leave without an answer."""
T = TypeVar("T")
SHORTEST, LONGEST = 0.2, 5.0
"""Seconds between two questions; they become longer as a run does."""


def run_name(benchmark: str) -> str:
    """Return a name for a run that no other has."""
    return f"{benchmark}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def carry_out(
    launches: Sequence[Launch], guests: GuestConnections, emit: Emit, *, within: float, look: Look | None = None
) -> tuple[Carried, ...]:
    """Start launches and follow them to their ends; launches stand for themselves, one that fails ends no other.

    Whatever ends this, the runs themselves, their deadline (`within` seconds), an error or a signal, their processes
    are ended on every node, and where GPUs still list one, that is said.
    """
    began = time.monotonic()
    following = [_Following(made, guests) for made in launches]
    try:
        emit(Status(f"starting {launches[0].run}"))
        _each(following, lambda one: one.start())
        while any(_each(following, lambda one: one.goes_on(time.monotonic() - began, within))):
            if look is not None:
                look(time.monotonic() - began)
            time.sleep(min(LONGEST, max(SHORTEST, (time.monotonic() - began) / 10)))
        return tuple(_each(following, lambda one: one.ended(emit)))
    except BaseException:
        emit(Status(f"stopping {launches[0].run}"))
        problems = [text for one in _each(following, lambda one: one.stopped()) for text in remaining(one)]
        for text in problems:
            emit(Remark("bench.left", text))
        if not problems:
            emit(Remark("bench.stopped", f"{launches[0].run}: its processes have ended, and no GPU lists one"))
        raise
    finally:
        emit(Status(""))


Look = Callable[[float], None]
"""What is called from time to time with the seconds since the start."""


def _each(every: Sequence[_Following], work: Callable[[_Following], T]) -> list[T]:
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(every))), thread_name_prefix="launch") as pool:
        return list(pool.map(work, every))


@dataclass
class _Following:
    """A launch that is followed to its end."""

    made: Launch
    guests: GuestConnections
    found: LaunchResult | None = None
    why: str = ""
    silent: int = 0

    @property
    def _vms(self) -> list[str]:
        return [each.node.vm for each in self.made.nodes]

    def start(self) -> None:
        """Start it; an error is why it did not end well, where other launches go on."""
        try:
            launch_control.start(self.made, self.guests)
        except VsphereAiError as error:
            self.why = error.message

    def goes_on(self, seconds: float, within: float) -> bool:
        """Ask how it stands, and return whether it goes on."""
        if self.why or (self.found is not None and _is_over(self.found) and not self.silent):
            return False
        self.found = self._on_each(lambda shell: launch_control.status(shell, self.made.run))
        head = self.found.head
        self.silent = self.silent + 1 if isinstance(head, VsphereAiError) else 0
        if isinstance(head, VsphereAiError) and self.silent >= PATIENCE:
            self.why = head.message
        elif not self.silent and _is_over(self.found):
            return False
        elif seconds > within:
            self.why = f"it did not end within {within:.0f} s"
        return not self.why

    def ended(self, emit: Emit) -> Carried:
        """Return what it wrote and how it stood at last; what goes on is stopped."""
        logs = self.guests.each(lambda shell: launch_control.logs(shell, self.made.run), self._vms)
        found = self.stopped() if self.why or self.found is None else self.found
        read = {vm: {} if isinstance(each, VsphereAiError) else each for vm, each in logs.items()}
        return Carried(found, read, self.why or why_not_well(found))

    def stopped(self) -> LaunchResult:
        """End its processes on every node."""
        return self._on_each(lambda shell: launch_control.stop(shell, self.made.run, self.made.job))

    def _on_each(self, work: Callable[[GuestSsh], NodeRun]) -> LaunchResult:
        nodes = tuple(each.node for each in self.made.nodes)
        return LaunchResult(self.made.run, nodes, self.guests.each(work, self._vms))


def _is_over(found: LaunchResult) -> bool:
    """Return whether every supervisor has said its last word, also where a process could not be ended."""
    every = found.found.values()
    return found.is_over or all(isinstance(n, NodeRun) and n.state == "ended" and not n.alive for n in every)
