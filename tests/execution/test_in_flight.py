"""How many tasks are sent at a time once vCenter refuses some: half, then one more for each round that ends well."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from vsphere_ai.errors import Conflict, OutcomeUnknown, VimFault
from vsphere_ai.execution.actions import in_flight
from vsphere_ai.execution.actions.in_flight import InFlight, is_refusal

BUSY = "A general system error occurred: too many concurrent operations"


def fault(text=BUSY, name="SystemError", task=""):
    made = VimFault(text, "", {"_typeName": name})
    made.task = task
    return made


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (fault(), True),
        (fault("The maximum number of concurrent tasks is reached"), True),
        (fault("limit of 2000 outstanding requests exceeded"), True),
        (fault(task="Task:task-1"), False),
        (fault("A general system error occurred: internal error"), False),
        (fault("too many devices", "TooManyDevices"), False),
        (fault("no", "TooManyConcurrentNativeClones", "Task:task-1"), True),
        (fault("busy", "ResourceInUse"), False),
        (fault("busy", "TaskInProgress"), False),
        (Conflict("too many concurrent operations", ""), False),
        (OutcomeUnknown("UpgradeVM_Task: sent, but the answer was lost (it is no SOAP: no healthy upstream)"), False),
    ],
)
def test_what_is_a_refusal(error, refused):
    assert is_refusal(error) is refused


class Farm:
    """A vCenter that takes so many tasks at once; steps are sent as far as the limit lets them, refused ones again."""

    def __init__(self, room, steps, parallel):
        self.room, self.running, self.done, self.refused = room, [], 0, 0
        self.limit, self.said = InFlight(), []
        self.waiting, self.parallel, self.peaks = deque(range(steps)), parallel, []

    def round(self):
        """Send what may be sent; let all that was taken end well."""
        sent = []
        while self.waiting and len(sent) < self.parallel and self.limit._may_begin():
            step, one = self.waiting.popleft(), self.limit.one(self.said.append)
            one.__enter__()
            sent.append((step, one))
        self.peaks.append(len(sent))
        for step, one in sent[self.room :]:
            self.refused += 1
            self.waiting.append(step)
            assert not one.__exit__(VimFault, fault(), None)
        for _, one in sent[: self.room]:
            self.done += 1
            one.__exit__(None, None, None)

    def run(self):
        rounds = 0
        while self.waiting:
            self.round()
            rounds += 1
            assert rounds < 1000
        return rounds


def test_everything_is_done_once_and_what_is_in_flight_stays_near_what_vcenter_takes():
    farm = Farm(room=8, steps=500, parallel=64)
    rounds = farm.run()
    assert farm.done == 500
    assert farm.peaks[:4] == [64, 32, 16, 9]
    assert max(farm.peaks[4:]) <= 10
    assert rounds <= 1.7 * 500 / 8
    assert len(farm.said) == 1
    assert BUSY in farm.said[0]


def test_a_limit_of_one_still_gets_everything_done():
    farm = Farm(room=1, steps=20, parallel=8)
    farm.run()
    assert farm.done == 20
    assert farm.limit.most >= 1


def test_without_a_refusal_there_is_no_limit():
    farm = Farm(room=64, steps=200, parallel=64)
    assert farm.run() == 4
    assert (farm.limit.most, farm.refused, farm.said) == (None, 0, [])


def test_other_errors_change_nothing():
    limit = InFlight()
    with pytest.raises(VimFault), limit.one(print):
        raise fault("in use", "ResourceInUse")
    assert (limit.most, limit._now) == (None, 0)


def test_what_waits_begins_as_soon_as_another_has_ended():
    limit, entered, go_on = InFlight(), threading.Event(), threading.Event()
    limit.most = 1

    def first():
        with limit.one(print):
            entered.set()
            go_on.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    entered.wait(10)
    threading.Timer(0.05, go_on.set).start()
    with limit.one(print):
        assert go_on.is_set()
    thread.join()


def test_a_task_that_takes_hours_does_not_hold_up_the_others_for_as_long(monkeypatch):
    monkeypatch.setattr(in_flight, "LONGEST", 0.05)
    limit = InFlight()
    limit.most = 1
    with limit.one(print), limit.one(print):
        assert limit._now == 2
