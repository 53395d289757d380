"""Return of VMs that a run has moved for a time: each to its host, with its devices, and powered as before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

from vsphere_ai.errors import Storage, VsphereAiError
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.execution.actions.relocation import back_of
from vsphere_ai.model.records.pending import Pending, Record, closed_by
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import MoveBack, PowerOff, PowerOn, Step

SHUTDOWN = 300
"""Seconds that a guest is given to shut down before its VM is powered off: it ran for a benchmark only."""
Report = Callable[[Step, VsphereAiError | None], None]
"""Takes each step that was carried out, and what went wrong with it."""


def power_off_again(vm: Target) -> PowerOff:
    """Return the step that switches a VM off which was moved while it was off, and powered on for a benchmark."""
    return PowerOff(target=vm, summary="power off for the way back", shutdown_timeout=SHUTDOWN, force=True)


class PutBack:
    """Brings VMs back in the order in which they leave room for each other: all off, each moved, all on."""

    def __init__(self, executor: StepExecutor, record: Record, report: Report) -> None:
        self._executor, self._record, self._report = executor, record, report
        self._numbers = count(1)
        self.failed: dict[Target, str] = {}
        """VMs that are not as before, and why."""

    def run(self) -> None:
        """Bring back what is pending as moved; what went wrong is in `failed`, and stays pending."""
        moved = [p for p in self._record.pending() if p.kind == "moved"]
        backs = [back_of(pending) for pending in reversed(moved)]
        for step in backs:
            self._tried(step.target, partial(self._switch_off, step))
        for step in backs:
            self._tried(step.target, partial(self._bring_back, step))
        off = [p.target for p in self._record.pending() if p.kind == "off"] if moved else []
        for vm in [vm for vm in off if vm.ref in {p.target.ref for p in moved}]:
            self._tried(vm, partial(self._do, PowerOn(target=vm, summary="power on")))

    def _switch_off(self, back: MoveBack) -> None:
        if not (back.live or self._executor.is_there(back)) and self._executor.runs(back.target):
            self._do(power_off_again(back.target), (Pending("off", back.target),))

    def _bring_back(self, back: MoveBack) -> None:
        if self._executor.is_there(back):
            self._record.resolve(*closed_by(back))
        else:
            self._do(back)

    def _do(self, step: Step, opens: tuple[Pending, ...] = ()) -> None:
        name = f"back-{next(self._numbers)}"
        self._record.begin(name, step, opens)
        try:
            self._executor.do(step, lambda _: None, name)
        except VsphereAiError as error:
            self._record.end(name, "failed", error.message)
            self._report(step, error)
            raise
        self._record.end(name, "done", closes=closed_by(step))
        self._report(step, None)

    def _tried(self, vm: Target, act: Callable[[], None]) -> None:
        """Do a part for one VM; once something went wrong with it, the rest is left as it is."""
        if vm in self.failed:
            return
        try:
            act()
        except Storage:
            raise
        except VsphereAiError as error:
            self.failed[vm] = error.message
