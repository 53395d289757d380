"""Trials of a crossover: pairs of VMs measured before anything moves, and with the VMs on their other hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vsphere_ai.app.events import Emit, Event, OutputLine, Remark, Status
from vsphere_ai.app.training.benchmarks.guests import BenchmarkGuests, benchmark_guests, prepared
from vsphere_ai.app.training.benchmarks.nccl import NcclRequest, RoundRunner
from vsphere_ai.benchmarks.slow_part.trials import Trial
from vsphere_ai.connect.secure_shell.guest_survey import GuestConnections, GuestSurvey
from vsphere_ai.errors import StepFailed
from vsphere_ai.execution.actions.context import Withdrawn
from vsphere_ai.model.guest_probes import Answers, GuestCommand, GuestProbe
from vsphere_ai.model.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from vsphere_ai.app.events.stop import Stop
    from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings

LOOK = 0.2
"""Seconds between two looks whether the operator has stopped the run."""
AGAIN = 2.0
"""Seconds between two tries to log in to a guest that boots."""
_GPUS = GuestCommand("gpus", ("nvidia-smi", "-L"), 60.0)


def _why_not_ready(answers: Answers) -> str:
    gpus = answers[_GPUS.name]
    return gpus.failure or ("" if gpus.is_good else "nvidia-smi finds no GPU in it")


READY = GuestProbe((_GPUS,), _why_not_ready)
"""Why a guest that boots is not ready for a measurement; empty: it is."""


@dataclass(frozen=True)
class Booting:
    """How guests are waited for that may boot: up to `within` seconds, unless the run is stopped.

    `absent` returns the VMs that are not to be logged in to yet, and why; `say` takes lines of progress.
    """

    within: float
    stop: Stop
    say: Callable[[str], None]
    absent: Callable[[], Mapping[str, str]]


class Trials:
    """Measures trials on guests; each time they are logged in to anew: their VMs may have been powered off."""

    def __init__(self, request: NcclRequest, settings: GuestSettings, nodes: Mapping[str, Node], emit: Emit) -> None:
        self._request, self._settings, self._nodes, self._emit = request, settings, nodes, emit

    def measure(self, trials: Sequence[Trial]) -> dict[Trial, float | None]:
        """Measure trials now; an error where a guest cannot be reached."""
        with benchmark_guests("crossover", self._of(trials), self._settings, self._emit, meshed=True) as guests:
            return self._run(trials, guests)

    def measure_when_up(self, trials: Sequence[Trial], booting: Booting) -> dict[Trial, float | None]:
        """Measure trials once their guests answer; what is not measured is None. `Withdrawn` when stopped."""

        def emit(event: Event) -> None:
            if isinstance(event, Status | OutputLine):
                booting.say(" ".join(event.text.split()))
            elif isinstance(event, Remark):
                self._emit(event)

        nodes = self._of(trials)
        connections = self._opened(nodes, booting)
        done: Future[dict[Trial, float | None]] = Future()

        def work(guests: BenchmarkGuests) -> None:
            try:
                done.set_result(self._run(trials, guests))
            except BaseException as error:
                done.set_exception(error)

        try:
            with prepared("crossover", nodes, connections, self._settings, emit) as guests:
                threading.Thread(target=work, args=(guests,), daemon=True, name="crossover").start()
                while not done.done():
                    if booting.stop.event.wait(LOOK):
                        raise Withdrawn
                return done.result()
        finally:
            connections.close()

    def _of(self, trials: Sequence[Trial]) -> list[Node]:
        return [self._nodes[vm] for vm in dict.fromkeys(vm for trial in trials for vm in trial.vms)]

    def _run(self, trials: Sequence[Trial], guests: BenchmarkGuests) -> dict[Trial, float | None]:
        runner = RoundRunner(self._request, guests, guests.emit)
        found: dict[Trial, float | None] = {}
        for trial in trials:  # one after the other: the pairs may share links
            found |= runner.round([trial])
        return found

    def _opened(self, nodes: Sequence[Node], booting: Booting) -> GuestConnections:
        """Log in to guests, each of which may boot; `StepFailed` for one that does not answer in time."""
        started, ready = time.monotonic(), GuestConnections({})
        while True:
            why = dict(booting.absent())
            guests = GuestConnections.to((n for n in nodes if n.vm not in (*ready.shells, *why)), self._settings)
            for vm, reason in GuestSurvey(guests).ask(READY).items():
                if not reason:
                    ready.shells[vm] = guests.shells[vm]
                    continue
                why[vm] = reason if isinstance(reason, str) else reason.message
                if vm in guests.shells:
                    guests.shells[vm].close()
            if not why:
                return ready
            waited, names = time.monotonic() - started, ", ".join(sorted(why))
            booting.say(f"waiting for the guest of {names}, {waited:.0f} s")
            if waited > booting.within:
                ready.close()
                first = min(why)
                text = f"the guest of {first} did not answer within {booting.within:.0f} s: {why[first]}"
                raise StepFailed(text, "look at its console", rule="crossover.guest")
            if booting.stop.event.wait(AGAIN):
                ready.close()
                raise Withdrawn
