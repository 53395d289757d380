"""Runs a plan: each step as soon as what it waits for has ended well, several targets side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from graphlib import TopologicalSorter
from typing import Any, get_args

from vsphere_ai.errors import (
    HostUnhealthy,
    NoRoom,
    OutcomeUnknown,
    Storage,
    VsphereAiError,
)
from vsphere_ai.execution.actions.cancel import Withdrawn
from vsphere_ai.execution.actions.executor import Executor
from vsphere_ai.execution.availability import Availability
from vsphere_ai.execution.cleanup import Cleanup
from vsphere_ai.execution.external_changes import WORDS as EXTERNAL
from vsphere_ai.execution.external_changes import ExternalChanges
from vsphere_ai.execution.outcome import Event, Outcome, Run, State
from vsphere_ai.execution.rollout import Rollout
from vsphere_ai.execution.run_end import Ended
from vsphere_ai.model.pending import NoRecord, Pending, Record, closed_by, opened_by
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Lifecycle, PendingKind, Step
from vsphere_ai.model.text import safe
from vsphere_ai.planning.planner import Plan
from vsphere_ai.planning.schedule import PlannedStep
from vsphere_ai.security.redaction import untrusted

HEARTBEAT = 8.0  # seconds; an operator never waits more than 10 s for a sign of life
STOPPED = "stopped by the operator"
STOPPING = "finishing what is in flight, starting nothing new; again to leave at once"
LONGEST = 300  # characters of the text of an error nobody thought of


class Runner:
    """Runs one plan once. `stop` (from a signal handler) lets what is in flight end and starts nothing more."""

    def __init__(
        self,
        plan: Plan,
        executor: Executor,
        emit: Callable[[Event], None],
        *,
        parallel: int = 8,
        record: Record | None = None,
    ) -> None:
        self._plan, self._executor, self._emit, self._parallel = plan, executor, emit, parallel
        self._record = record or NoRecord()
        self._steps = {p.id: p for p in plan.steps}
        self._starts_ssh = {p.step.target for p in plan.steps if _is(p, "start-ssh")}
        self._own_ssh = {p.step.target for p in plan.steps if _is(p, "stop-ssh")}
        self._external = ExternalChanges(self._record, executor.is_so)
        self._rollout = Rollout(plan)
        self._availability = Availability(executor.out_of_service, self._rollout)
        self._told: dict[str, str] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._owed: dict[PendingKind, set[Target]] = {k: set() for k in get_args(PendingKind)}
        self._earlier = {(d.kind, d.target) for d in self._record.pending()}
        self._owing = threading.Lock()
        self.signalled = 0
        self._unsaid = False  # that it was stopped
        self._last_sign = time.monotonic()

    def stop(self, number: int, *, tell: bool = True) -> None:
        """Start no further step, because this signal came; called from a signal handler.

        Nothing is said here: the signal may have interrupted its own thread in the middle of a line.
        """
        self.signalled = number
        self._unsaid = self._unsaid or tell

    def run(self) -> Run:
        """Run every step whose predecessors ended well; then put back what was changed for the run only."""
        started = time.monotonic()
        sorter = TopologicalSorter({p.id: p.after for p in self._plan.steps})
        sorter.prepare()
        with ThreadPoolExecutor(self._parallel, thread_name_prefix="step") as pool, self._availability:
            running: dict[Future[Outcome], str] = {}
            held: list[str] = []  # hosts whose turn it is, but as many are out of service as may be
            while sorter.is_active():
                self._say_what_is_unsaid()
                ready = sorted([*held, *sorter.get_ready()])
                held = []
                for name in ready:
                    blocker = self._blocker(name)
                    if blocker:
                        self._skip(name, *blocker, sorter)
                        continue
                    try:
                        begins = self._has_room(name, None if running else len(self._outcomes))
                    except VsphereAiError as error:
                        self._give_up(name, error, sorter)
                        continue
                    if begins:
                        self._rollout.begins(name)
                        running[pool.submit(self._do, self._steps[name])] = name
                    else:
                        held.append(name)
                if running or self._availability.looking():
                    self._collect(running, sorter)
                elif held == ready:  # nothing in flight will make room
                    self._nothing_moves(held, sorter)
        self._say_what_is_unsaid()
        cleanup = Cleanup(self._executor, self._record, self._external, self._say)
        opened = cleanup.settle(Ended(self._plan, self._outcomes, self._owed, self._earlier))
        outcomes, number = tuple(self._outcomes[p.id] for p in self._plan.steps), self.signalled
        self._say_what_is_unsaid()
        return Run(self._plan, outcomes, time.monotonic() - started, number, opened, tuple(cleanup.put_back))

    def _has_room(self, name: str, quiet: int | None) -> bool:
        down = self._down()
        if self._rollout.full(name, down):
            return False
        if self._availability.is_there(name, down, quiet=quiet):
            return True
        reason = self._availability.why_not(name)
        if reason and reason != self._told.get(name):
            self._told[name] = reason
            self._say(
                Event(
                    "waiting",
                    text=f"{self._steps[name].step.target.name} has to wait: {reason}",
                    rule="rollout.over-budget",
                )
            )
        return False

    def _nothing_moves(self, held: list[str], sorter: TopologicalSorter[str]) -> None:
        """Give one of the held up; where all wait for hosts that may come back by themselves, wait a little."""
        for name in held:
            full, error = self._rollout.full(name, self._down()), self._availability.refuses(name)
            if full:
                held.remove(name)
                return self._skip(name, "rollout.over-budget", full, sorter)
            if error is not None:
                held.remove(name)
                self._rollout.halt(name, error.message)
                return self._give_up(name, error, sorter)
        time.sleep(0.2)
        if time.monotonic() - self._last_sign > HEARTBEAT:
            self._say(Event("waiting", text="; ".join(dict.fromkeys(map(self._availability.why_not, held)))))
        return None

    def _give_up(self, name: str, error: VsphereAiError, sorter: TopologicalSorter[str]) -> None:
        self._end(Outcome(self._steps[name], "failed", error=error))
        sorter.done(name)

    def _skip(self, name: str, rule: str, reason: str, sorter: TopologicalSorter[str]) -> None:
        self._availability.forget(name)
        self._end(Outcome(self._steps[name], "skipped", reason=reason, rule=rule))
        sorter.done(name)

    def _down(self) -> set[Target]:
        """Return the hosts that are out of service for this run, or may be: the answer to a step was lost."""
        with self._owing:
            down = self._owed["maintenance"] | self._owed["reboot"]
        return down | {o.planned.step.target for o in self._outcomes.values() if o.state == "unknown"}

    def _collect(self, running: dict[Future[Outcome], str], sorter: TopologicalSorter[str]) -> None:
        awaited: list[Future[Any]] = [*running, *self._availability.looking()]
        wait(awaited, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in [f for f in running if f.done()]:
            name = running.pop(future)
            self._end(future.result())
            sorter.done(name)
        if time.monotonic() - self._last_sign > HEARTBEAT and running:
            names = ", ".join(sorted({self._steps[n].step.target.name for n in running.values()}))
            self._say(Event("waiting", text=f"still working on {names}"))

    def _blocker(self, name: str) -> tuple[str, str] | None:
        """Return id and text of why a step is skipped; None when it may start."""
        planned = self._steps[name]
        for earlier in planned.after:
            outcome = self._outcomes[earlier]
            if not outcome.well and earlier not in planned.behind:
                step = outcome.planned.step
                return outcome.rule or "step.blocked", outcome.reason or f"{step.target.name}: {step.summary}"
        refusal = self._rollout.refusal(name)
        if refusal:
            return "rollout.halted", refusal
        return ("run.stopped", STOPPED) if self.signalled and not self._finishes(name) else None

    def _finishes(self, name: str) -> bool:
        """After a stop, a target that is in the middle of its window is brought to the window's end."""
        target = self._steps[name].step.target
        left = self._external.is_left("off", target)  # its host's window ends after it, too
        return left or any(target in self._owed[kind] for kind in ("maintenance", "off", "gate"))

    def _do(self, planned: PlannedStep) -> Outcome:
        started = time.monotonic()
        if self.signalled and not self._finishes(planned.id):  # it waited for a free thread when the signal came
            return Outcome(planned, "skipped", reason=STOPPED, rule="run.stopped")
        self._say(Event("start", planned))
        step, took_effect = planned.step, False
        all_pending: tuple[Pending, ...] = ()
        try:
            all_pending = self._pending_of(step)
            left = self._external.why_left(step, all_pending)
            if left:
                return self._leave(planned, left, started)
            step, remark = self._external.without(step)
            self._record.begin(planned.id, step, all_pending)
            self._executor.do(step, lambda text: self._progress(planned, text, started), planned.id)
            took_effect = True
            self._record.end(planned.id, "done", closes=closed_by(step))
        except Withdrawn:
            with suppress(Storage):
                self._record.end(planned.id, "skipped", STOPPED, closes=all_pending)
            return Outcome(planned, "skipped", time.monotonic() - started, reason=STOPPED, rule="run.stopped")
        except VsphereAiError as error:
            return self._broken(planned, error, started, all_pending)
        except Exception as error:  # a bug must not leave a host half-way without a word
            wrapped = VsphereAiError(_first_line(error), "this is a bug in vsphere-ai, please report it")
            wrapped.__cause__ = error
            return self._broken(planned, wrapped, started, all_pending)
        finally:
            if took_effect:  # also when that could not be written down: it has to be put back all the same
                self._count(all_pending, closed_by(step))
        return Outcome(planned, "done", time.monotonic() - started, reason=remark)

    def _count(self, all_pending: Collection[Pending], paid: Collection[Pending]) -> None:
        with self._owing:
            for pending in all_pending:
                self._owed[pending.kind].add(pending.target)
            for pending in paid:
                self._owed[pending.kind].discard(pending.target)

    def _leave(self, planned: PlannedStep, why: str, started: float) -> Outcome:
        self._record.begin(planned.id, planned.step, ())
        self._record.end(planned.id, "skipped", why)
        kind = next(k for k in EXTERNAL if self._external.is_left(k, planned.step.target))
        rule = f"external.{kind}"
        return Outcome(planned, "skipped", time.monotonic() - started, reason=why, left=True, rule=rule)

    def _pending_of(self, step: Step) -> tuple[Pending, ...]:
        own = step.target in self._own_ssh and not self._external.is_left("ssh", step.target)
        again = step.target in self._starts_ssh and not own
        return opened_by(step, own_ssh=own, restarts_ssh=again, detail=self._executor.before(step))

    def _broken(
        self, planned: PlannedStep, error: VsphereAiError, started: float, all_pending: Collection[Pending]
    ) -> Outcome:
        state: State = "unknown" if isinstance(error, OutcomeUnknown) else "failed"
        # what was refused is not owed: kept, the debt would make ours what somebody else does there later
        void: tuple[Pending, ...] = ()
        if all_pending and self._executor.was_refused(planned.step, error):
            void = tuple(d for d in all_pending if not self._owes(d))
        with suppress(Storage):  # a journal that fails is what stopped us, then
            self._record.end(planned.id, state, error.message, closes=void)
        return Outcome(planned, state, time.monotonic() - started, error)

    def _owes(self, pending: Pending) -> bool:
        """Tell whether another step has made the same debt: of this run, or of an earlier attempt."""
        with self._owing:
            return pending.target in self._owed[pending.kind] or (pending.kind, pending.target) in self._earlier

    def _progress(self, planned: PlannedStep, text: str, started: float) -> None:
        self._say(Event("progress", planned, text, time.monotonic() - started))

    def _end(self, outcome: Outcome) -> None:
        self._outcomes[outcome.planned.id] = outcome
        unhealthy = isinstance(outcome.error, HostUnhealthy) and not isinstance(outcome.error, NoRoom)
        self._rollout.ended(outcome.planned, well=outcome.well, started=outcome.state != "skipped", unhealthy=unhealthy)
        text = outcome.error.message if outcome.error else outcome.reason
        rule = outcome.error.rule if outcome.error else outcome.rule
        self._say(Event(outcome.state, outcome.planned, text, outcome.seconds, rule))

    def _say_what_is_unsaid(self) -> None:
        if self._unsaid:
            self._unsaid = False
            self._say(Event("stopping", text=STOPPING))

    def _say(self, event: Event) -> None:
        if event.what != "progress":
            self._last_sign = time.monotonic()
        self._emit(event)


def _first_line(error: Exception) -> str:
    """Say what an error is: some libraries put a whole object, over many lines, into its text."""
    line = next(iter(untrusted(str(error)).strip().splitlines()), "")
    return safe(f"{type(error).__name__}: {line[:LONGEST]}".removesuffix(": "))


def _is(planned: PlannedStep, action: str) -> bool:
    return isinstance(planned.step, Lifecycle) and planned.step.action == action
