"""Trials of a crossover: pairs of VMs measured before anything moves, and with the VMs on their other hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.app.benchmark_nccl import NcclRequest, Runner
from vsphere_ai.app.events import Answer, Emit, Event, Remark, Status
from vsphere_ai.benchmarks.trials import Trial
from vsphere_ai.connect.guest_ssh import GuestSsh, open_guests
from vsphere_ai.errors import StepFailed, VsphereAiError
from vsphere_ai.execution.actions.cancel import Withdrawn
from vsphere_ai.model.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from vsphere_ai.app.stop import Stop
    from vsphere_ai.connect.guest_ssh import GuestSettings

LOOK = 0.2
"""Seconds between two looks whether the operator has stopped the run."""
AGAIN = 2.0
"""Seconds between two tries to log in to a guest that boots."""
GPUS = ("nvidia-smi", "-L")


class Trials:
    """Measures trials on guests; each time they are logged in to anew: their VMs may have been powered off."""

    def __init__(self, request: NcclRequest, settings: GuestSettings, nodes: Mapping[str, Node], emit: Emit) -> None:
        self._request, self._settings, self._nodes, self._emit = request, settings, nodes, emit

    def measure(self, trials: Sequence[Trial]) -> dict[Trial, float | None]:
        """Measure trials now; an error where a guest cannot be reached."""
        nodes = self._of(trials)
        shells, failed = open_guests(nodes, self._settings)
        try:
            for error in failed.values():
                raise error
            return self._run(trials, shells, self._emit)
        finally:
            _close(shells)

    def measure_when_up(
        self, trials: Sequence[Trial], within: float, stop: Stop, say: Callable[[str], None]
    ) -> dict[Trial, float | None]:
        """Measure trials once their guests answer; what is not measured is None. `Withdrawn` when stopped."""
        lines: list[str] = []

        def emit(event: Event) -> None:
            if isinstance(event, Status | Answer):
                say(" ".join(event.text.split()))
            elif isinstance(event, Remark):
                lines.append(event.text)
                self._emit(event)

        shells = self._opened(self._of(trials), within, stop, say)
        done: Future[dict[Trial, float | None]] = Future()

        def work() -> None:
            try:
                done.set_result(self._run(trials, shells, emit))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=work, daemon=True, name="crossover").start()
        try:
            while not done.done():
                if stop.event.wait(LOOK):
                    raise Withdrawn
            return done.result()
        finally:
            _close(shells)

    def _of(self, trials: Sequence[Trial]) -> list[Node]:
        return [self._nodes[vm] for vm in dict.fromkeys(vm for trial in trials for vm in trial.vms)]

    def _run(self, trials: Sequence[Trial], shells: Mapping[str, GuestSsh], emit: Emit) -> dict[Trial, float | None]:
        runner = Runner(self._request, self._nodes, shells, emit)
        found: dict[Trial, float | None] = {}
        for trial in trials:  # one after the other: the pairs may share links
            found |= runner.round([trial])
        return found

    def _opened(
        self, nodes: Sequence[Node], within: float, stop: Stop, say: Callable[[str], None]
    ) -> dict[str, GuestSsh]:
        """Log in to guests, each of which may boot; `StepFailed` for one that does not answer in time."""
        started, shells, waiting = time.monotonic(), dict[str, GuestSsh](), list(nodes)
        while waiting:
            opened, failed = open_guests(waiting, replace(self._settings))
            for vm, shell in list(opened.items()):
                try:
                    ready = shell.run(GPUS, timeout=60.0).code == 0
                except VsphereAiError as error:
                    ready, failed[vm] = False, error
                if ready:
                    shells[vm] = shell
                else:
                    shell.close()
            waiting = [n for n in waiting if n.vm not in shells]
            waited = time.monotonic() - started
            if waiting and waited > within:
                _close(shells)
                first = waiting[0].vm
                why = failed[first].message if first in failed else "nvidia-smi finds no GPU in it"
                text = f"the guest of {first} did not answer within {within:.0f} s: {why}"
                raise StepFailed(text, "look at its console", rule="crossover.guest")
            if waiting:
                say(f"waiting for the guest of {', '.join(n.vm for n in waiting)}, {waited:.0f} s")
                if stop.event.wait(AGAIN):
                    _close(shells)
                    raise Withdrawn
        return shells


def _close(shells: Mapping[str, GuestSsh]) -> None:
    for shell in shells.values():
        shell.close()
