"""Stop of a run: requested by a signal, a lost lock, a lost output or a caller; no further step is started then."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vsphere_ai.execution.runner import Runner


class Stop:
    """Stops a run in order when it is called, from any thread and from signal handlers; calling it again is harmless.

    `event` is set from then on; `number` is the signal that the run reports, 0 before; `why` is "" for the operator.
    """

    def __init__(self) -> None:
        self.event = threading.Event()
        self.number, self.why = 0, ""
        self._runner: Runner | None = None

    def __call__(self, number: int = signal.SIGTERM, why: str = "", *, report: bool = True) -> None:
        """Start no further step; the first `number` and `why` count. `report`: the run emits that it stops."""
        self.number, self.why = (self.number, self.why) if self.number else (number, why)
        self.event.set()
        if self._runner is not None:
            self._runner.stop(self.number, self.why, report=report)

    def attach(self, runner: Runner) -> None:
        """Stop this runner when a stop is requested, at once if that was before."""
        self._runner = runner
        if self.number:
            runner.stop(self.number, self.why)
