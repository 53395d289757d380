"""Runner of a plan: starts each step once the steps that it waits for have ended well, several targets side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from graphlib import TopologicalSorter
from queue import Empty, SimpleQueue
from typing import Any

from vsphere_ai.errors import OutcomeUnknown, Storage, VsphereAiError
from vsphere_ai.execution.actions.context import Withdrawn
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.execution.availability import Availability
from vsphere_ai.execution.cleanup import Cleanup
from vsphere_ai.execution.run_budget import RunBudget
from vsphere_ai.execution.run_state import STOPPED, Reason, RunState
from vsphere_ai.model.records.pending import NoRecord, Pending, Record, closed_by
from vsphere_ai.model.text import safe
from vsphere_ai.planning.outcome import Outcome, RunEvent, RunOutcome, State
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.scheduling.step_order import PlannedStep
from vsphere_ai.security.exceptions import without_secrets
from vsphere_ai.security.redaction import untrusted

HEARTBEAT = 8.0  # seconds; an operator never waits more than 10 s for a sign of life
STOPPING = "finishing what is in flight, starting nothing new; again to leave at once"
FULL = "as many hosts of the fleet are out of service as may be at once"
LONGEST = 300  # characters of the text of an unexpected error


class Runner:
    """Runs one plan once. `stop` (from a signal handler) lets what is in flight end and starts nothing more."""

    def __init__(
        self,
        plan: Plan,
        executor: StepExecutor,
        emit: Callable[[RunEvent], None],
        *,
        parallel: int = 8,
        record: Record | None = None,
    ) -> None:
        self._executor, self._emit, self._parallel = executor, emit, parallel
        self._record = record or NoRecord()
        self._budget: RunBudget | None = None
        self._state = RunState(plan, self._record.pending())
        self._availability = Availability(executor.out_of_service, self._state)
        self._sorter: TopologicalSorter[str] = TopologicalSorter({p.id: p.after for p in plan.steps})
        self._running: dict[Future[Outcome], str] = {}
        self._ended: SimpleQueue[Future[Outcome]] = SimpleQueue()
        self._reported: dict[str, str] = {}  # step -> why its host has to wait, as reported last
        self._unreported = False  # that the run was stopped
        self._last_sign = time.monotonic()

    def stop(self, number: int, why: str = "", *, report: bool = True) -> None:
        """Start no further step, because this signal came, or for another reason; called from a signal handler.

        No event is emitted here: the signal may have interrupted its own thread in the middle of a line.
        """
        self._state.signal, self._state.stopped = number, (STOPPED[0], why or STOPPED[1])
        self._unreported = self._unreported or report

    def share(self, budget: RunBudget) -> None:
        """Take hosts out of service only as this budget, which other runs share, has room for them."""
        self._budget = budget

    def run(self) -> RunOutcome:
        """Run every step whose predecessors ended well; then revert what was changed for the run only."""
        started = time.monotonic()
        self._sorter.prepare()
        if self._budget is not None:
            self._budget.begin(self._record)
        with ThreadPoolExecutor(self._parallel, thread_name_prefix="step") as pool, self._availability:
            held: list[str] = []  # steps that would take a host out of service while too many are
            while self._sorter.is_active():
                self._report_stop()
                ready = sorted([*held, *self._sorter.get_ready()])
                held = [name for name in ready if not self._start(name, pool)]
                if self._running or self._availability.reading():
                    self._collect()
                elif held and held == ready:  # nothing in flight brings a host back
                    self._give_up_one(held)
        self._report_stop()
        state, cleanup = self._state, Cleanup(self._executor, self._record, self._state, self._say)
        left = cleanup.run()
        if self._budget is not None:
            self._budget.end(self._record, state)
        outcomes, signal = tuple(state.outcomes[p.id] for p in state.plan.steps), state.signal
        self._report_stop()
        seconds, why = time.monotonic() - started, state.stopped[1]
        return RunOutcome(state.plan, outcomes, seconds, signal, left, tuple(cleanup.put_back), why)

    def _start(self, name: str, pool: ThreadPoolExecutor) -> bool:
        """Start or end a step; False when it has to wait for hosts out of service."""
        blocker = self._state.blocker(name)
        if blocker:
            self._skip(name, blocker)
            return True
        try:
            if self._has_to_wait(name):
                return False
        except VsphereAiError as error:
            self._end(Outcome(self._state.steps[name], "failed", error=error))
            return True
        self._state.begin(name)
        future = pool.submit(self._do, self._state.steps[name])
        self._running[future] = name
        future.add_done_callback(self._ended.put)
        return True

    def _has_to_wait(self, name: str) -> bool:
        if self._state.waits_for(name):
            return True
        if self._budget is not None and not self._budget.take(name, self._state):
            self._availability.forget(name)  # its cluster is read again when there is room
            return True
        if self._availability.allows(name, ended=None if self._running else len(self._state.outcomes)):
            return False
        reason = self._availability.reason(name)
        if self._budget is not None and reason:  # it is kept while the cluster is read for the first time
            self._budget.give(name, self._state)
        if reason and reason != self._reported.get(name):
            self._reported[name] = reason
            text = f"{self._state.steps[name].step.target.name} has to wait: {reason}"
            self._say(RunEvent("waiting", text=text, rule="rollout.over-budget"))
        return True

    def _give_up_one(self, held: list[str]) -> None:
        """Give one of the held steps up; where all wait for hosts that may come back by themselves, wait a little."""
        full = self._budget.refusal() if self._budget is not None else None
        for name in held:
            reason, error = self._state.waits_for(name), self._availability.refusal(name) or full
            if not reason and error is None:
                continue
            held.remove(name)
            if reason:
                return self._skip(name, ("rollout.over-budget", reason))
            if error is not None:
                self._state.halt(name, error.message)
                return self._end(Outcome(self._state.steps[name], "failed", error=error))
        time.sleep(0.2)
        if time.monotonic() - self._last_sign > HEARTBEAT:
            reasons = dict.fromkeys(self._availability.reason(name) or FULL for name in held)
            self._say(RunEvent("waiting", text="; ".join(reasons)))
        return None

    def _skip(self, name: str, why: Reason) -> None:
        self._availability.forget(name)
        rule, reason = why
        self._end(Outcome(self._state.steps[name], "skipped", reason=reason, rule=rule))

    def _collect(self) -> None:
        reads = self._availability.reading()
        if reads:
            awaited: list[Future[Any]] = [*self._running, *reads]
            wait(awaited, timeout=1.0, return_when=FIRST_COMPLETED)
        with suppress(Empty):  # what it costs does not grow with the steps that are under way
            self._collect_one(self._ended.get(block=not reads, timeout=1.0))
            while True:
                self._collect_one(self._ended.get_nowait())
        if time.monotonic() - self._last_sign > HEARTBEAT and self._running:
            names = ", ".join(sorted({self._state.steps[n].step.target.name for n in self._running.values()}))
            self._say(RunEvent("waiting", text=f"still working on {names}"))

    def _collect_one(self, future: Future[Outcome]) -> None:
        del self._running[future]
        self._end(future.result())

    def _do(self, planned: PlannedStep) -> Outcome:
        if self._state.is_stopped(planned.id):  # it waited for a free thread when the signal came
            return _skipped(planned, self._state.stopped)
        started = time.monotonic()
        self._say(RunEvent("start", planned))
        opens: tuple[Pending, ...] = ()
        try:
            opens = self._state.opened_by(planned.step, self._executor.before(planned.step))
            external = self._state.external(planned.step, opens, self._executor.is_so)
            if external:
                self._record.begin(planned.id, planned.step, ())
                self._record.end(planned.id, "skipped", external[1])
                return _skipped(planned, external, time.monotonic() - started, external=True)
            step, remark = self._state.without_external(planned.step)
            self._record.begin(planned.id, step, opens)
            self._executor.do(step, lambda text: self._progress(planned, text, started), planned.id)
            # also when that cannot be written down: it has to be reverted all the same
            self._state.change(opens, closed_by(step))
            self._record.end(planned.id, "done", closes=closed_by(step))
        except Withdrawn:
            with suppress(Storage):
                self._record.end(planned.id, "skipped", self._state.stopped[1], closes=opens)
            return _skipped(planned, self._state.stopped, time.monotonic() - started)
        except VsphereAiError as error:
            return self._failed(planned, error, started, opens)
        except Exception as error:  # a bug must not leave a host half-way without a word
            wrapped = VsphereAiError(_first_line(error), "this is a bug in vsphere-ai, please report it")
            wrapped.__cause__ = error
            return self._failed(planned, wrapped, started, opens)
        return Outcome(planned, "done", time.monotonic() - started, reason=remark)

    def _failed(
        self, planned: PlannedStep, error: VsphereAiError, started: float, opens: tuple[Pending, ...]
    ) -> Outcome:
        state: State = "unknown" if isinstance(error, OutcomeUnknown) else "failed"
        # what was refused is not pending: kept, it would make ours what someone else does there later
        refused = bool(opens) and self._executor.was_refused(planned.step, error)
        void = [p for p in opens if refused and not self._state.is_pending(p)]
        without_secrets(error)
        with suppress(Storage):  # a journal that fails is what stopped us, then
            self._record.end(planned.id, state, error.message, closes=void)
        return Outcome(planned, state, time.monotonic() - started, error)

    def _progress(self, planned: PlannedStep, text: str, started: float) -> None:
        self._say(RunEvent("progress", planned, text, time.monotonic() - started))

    def _end(self, outcome: Outcome) -> None:
        self._state.end(outcome)
        text = outcome.error.message if outcome.error else outcome.reason
        rule = outcome.error.rule if outcome.error else outcome.rule
        self._say(RunEvent(outcome.state, outcome.planned, text, outcome.seconds, rule))
        self._sorter.done(outcome.planned.id)
        if self._budget is not None:
            self._budget.settle(self._record, self._state, outcome.planned.id)

    def _report_stop(self) -> None:
        if self._unreported:
            self._unreported = False
            self._say(RunEvent("stopping", text=STOPPING))

    def _say(self, event: RunEvent) -> None:
        if event.what != "progress":
            self._last_sign = time.monotonic()
        self._emit(event)


def _skipped(planned: PlannedStep, why: Reason, seconds: float = 0.0, *, external: bool = False) -> Outcome:
    rule, reason = why
    return Outcome(planned, "skipped", seconds, reason=reason, external=external, rule=rule)


def _first_line(error: Exception) -> str:
    """Return the type and first line of an error: some libraries put a whole object, over many lines, into its text."""
    line = next(iter(untrusted(str(error)).strip().splitlines()), "")
    return safe(f"{type(error).__name__}: {line[:LONGEST]}".removesuffix(": "))
