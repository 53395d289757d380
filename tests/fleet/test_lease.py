"""Leases: never two workers that may send at once, whatever comes late, is lost, or stands still."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vsphere_ai.errors import UsageError
from vsphere_ai.fleet.lease import LEASE, CoordinatorLease, LeaseTimings, WorkerLease, terms

TERMS = LeaseTimings(lease=8.0, margin=1.0)
SECONDS = st.sampled_from([0.0, 0.25, 1.0, 3.5, 4.0, 8.0, 9.0, 9.25, 20.0])
SHORT = st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0])
WORKERS = st.integers(0, 2)


@dataclass
class Message:
    """A question under way: when it was asked by the worker's clock, its epoch (0: for a lease), and the answer."""

    asked: float
    epoch: int
    answer: int | None = None


@dataclass
class Worker:
    """A worker whose clock shows another time, and goes a little slower or faster."""

    offset: float
    rate: float
    epoch: int = 0
    held: WorkerLease | None = None
    sent: list[Message] = field(default_factory=list)

    def now(self, true):
        return self.offset + true * self.rate


class Leases(RuleBasedStateMachine):
    """A coordinator, three workers, and a net that delays, loses and swaps messages."""

    def __init__(self):
        super().__init__()
        self.now, self.lease = 0.0, CoordinatorLease(TERMS)
        self.workers = [Worker(0, 1), Worker(1000, 1.01), Worker(-50, 0.99)]
        self.coordinators = 1

    @rule(seconds=SECONDS)
    def pass_time(self, seconds):
        self.now += seconds

    @rule(who=WORKERS, renews=st.booleans())
    def ask(self, who, renews):
        worker = self.workers[who]
        epoch = worker.epoch if renews and worker.held and not worker.held.lost else 0
        worker.sent.append(Message(worker.now(self.now), epoch))

    @rule(who=WORKERS, which=st.integers(0, 3))
    def arrive(self, who, which):
        """One of the questions reaches the coordinator, which answers with an epoch, or 0 for no."""
        waiting = [m for m in self.workers[who].sent if m.answer is None]
        if not waiting:
            return
        message = waiting[which % len(waiting)]
        if message.epoch:
            message.answer = message.epoch if self.lease.renew(message.epoch, self.now) else 0
        elif not self.lease.wait(self.now):
            message.answer = self.lease.grant(self.now)
        else:
            message.answer = 0

    @rule(who=WORKERS, which=st.integers(0, 3), lost=st.booleans())
    def return_(self, who, which, lost):
        """An answer reaches its worker, or is lost."""
        worker = self.workers[who]
        answered = [m for m in worker.sent if m.answer is not None]
        if not answered:
            return
        message = answered[which % len(answered)]
        worker.sent.remove(message)
        if lost:
            return
        if not message.epoch and message.answer:
            if message.answer > worker.epoch:
                worker.epoch, worker.held = message.answer, WorkerLease(TERMS, message.asked)
        elif message.epoch == worker.epoch and worker.held:
            if message.answer:
                worker.held.renewed(message.asked)
            else:
                worker.held.lost = True

    @rule(who=WORKERS, renews=st.booleans(), before=SHORT, after=SHORT)
    def ask_and_have(self, who, renews, before, after):
        """A question and its answer, in the usual order."""
        self.ask(who, renews)
        self.now += before
        self.arrive(who, len([m for m in self.workers[who].sent if m.answer is None]) - 1)
        self.now += after
        self.return_(who, len([m for m in self.workers[who].sent if m.answer is not None]) - 1, False)

    @rule(who=WORKERS)
    def give_back(self, who):
        worker = self.workers[who]
        if worker.held is not None:
            worker.held.lost = True
            self.lease.release(worker.epoch)

    @rule()
    def coordinator_starts_anew(self):
        """It knows the epoch and that someone has it; not when that one has renewed it."""
        held = self.lease.until is not None
        self.lease = CoordinatorLease(TERMS, self.lease.epoch, self.now + TERMS.lease if held else None)

    @invariant()
    def one_may_send(self):
        sending = [w.epoch for w in self.workers if w.held and w.held.may_send(w.now(self.now))]
        assert len(sending) <= 1
        assert all(epoch == self.lease.epoch for epoch in sending)


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)


def test_a_worker_stops_before_another_may_begin_and_waits_for_no_answer_after_that():
    held = WorkerLease(TERMS, 100.0)
    assert held.may_send(103.9)
    assert not held.may_send(104.0)
    assert not held.over(104.0), "a renewal may still come"
    held.renewed(103.5)
    assert held.may_send(107.0)
    assert held.over(111.5)
    held.renewed(90.0)
    assert held.asked == 103.5, "an answer that was overtaken"


def test_a_late_renewal_counts_where_no_other_came_between():
    lease = CoordinatorLease(TERMS)
    first = lease.grant(0.0)
    assert lease.wait(8.9) > 0
    assert not lease.wait(9.0)
    assert lease.renew(first, 20.0)
    assert lease.wait(20.0) == 9.0
    second = lease.grant(40.0)
    assert not lease.renew(first, 40.0)
    lease.release(first)
    assert lease.wait(40.0), "only its holder gives it back"
    lease.release(second)
    assert not lease.wait(40.0)


def test_times_come_from_the_environment(monkeypatch):
    assert terms() == LeaseTimings()
    monkeypatch.setenv(LEASE, "12.5")
    assert terms().lease == 12.5
    for wrong in ("soon", "0", "-3", "nan", "inf"):
        monkeypatch.setenv(LEASE, wrong)
        with pytest.raises(UsageError, match=LEASE):
            terms()
