"""Taking back a request to enter maintenance mode, against a vCenter that only remembers."""

from __future__ import annotations

import threading

import pytest
from support.acting import Shells, on_clock
from support.estates import ESX1
from support.gates import LONG
from support.raising import refused

from vsphere_ai.errors import OutcomeUnknown, StepFailed, Unreachable
from vsphere_ai.execution.actions import cancel, context
from vsphere_ai.execution.actions.cancel import Withdrawn, enter_unless_stopped, leave_alone
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.model.facts import Facts

TASK, OTHER = "Task:task-1", "Task:task-2"


class Server:
    """A host with tasks: `enter` begins one that lasts until it is cancelled (or, when `stubborn`, gets through)."""

    def __init__(self, *, stubborn=False, cancel=()):
        self.stubborn, self.answers, self.cancelled = stubborn, list(cancel), []
        self.inside, self.running = False, set()
        self.ended = threading.Event()

    def read_objects(self, refs, paths):
        if list(paths) == ["Task"]:
            kind = {TASK: "HostSystem.enterMaintenanceMode", OTHER: "HostSystem.addPortGroup"}
            state = {r: "running" if r in self.running or r == OTHER else "error" for r in refs}
            return {r: Facts(r, {"info.descriptionId": kind[r], "info.state": state[r]}) for r in refs}
        return {ESX1.ref: Facts(ESX1.ref, {"recentTask": (OTHER, TASK), "runtime.inMaintenanceMode": self.inside})}

    def call(self, ref, method, args=None):
        assert method == "CancelTask"
        self.cancelled.append(ref)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.inside = self.stubborn
        self.running.discard(ref)
        self.ended.set()

    def enter(self):
        """Send the request, and wait for its end."""
        self.running.add(TASK)
        assert self.ended.wait(LONG), "nobody cancelled it"
        if not self.inside:
            raise StepFailed("RequestCanceled")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(cancel, "LOOK", 0.01)
    monkeypatch.setattr(cancel, "AGAIN", 0.02)


def made(server, *, stopped=False):
    context = Context(server, Shells(), lambda *_: (), {}, {})
    if stopped:
        context.stop.set()
    return context


def stop_when_running(context, server):
    def wait():
        while not server.running:
            pass
        context.stop.set()

    threading.Thread(target=wait, daemon=True).start()


def test_a_stop_cancels_the_one_task_and_withdraws_the_step():
    server = Server()
    context, said = made(server), []
    stop_when_running(context, server)
    with pytest.raises(Withdrawn):
        enter_unless_stopped(context, ESX1, server.enter, said.append)
    assert server.cancelled == [TASK]
    assert said == ["stopped: the host is asked not to enter maintenance mode"]


def test_a_host_that_got_there_first_is_done():
    server = Server(stubborn=True)
    context = made(server)
    stop_when_running(context, server)
    enter_unless_stopped(context, ESX1, server.enter, lambda _: None)
    assert server.inside


@pytest.mark.parametrize("error", [Unreachable("no answer"), OutcomeUnknown("lost"), StepFailed("busy")])
def test_cancelling_is_tried_again(error):
    server = Server(cancel=[error, error])
    context, said = made(server), []
    stop_when_running(context, server)
    with pytest.raises(Withdrawn):
        enter_unless_stopped(context, ESX1, server.enter, said.append)
    assert server.cancelled == [TASK] * 3
    assert error.message in said[0]


def test_without_a_stop_nothing_is_cancelled():
    server = Server()

    def refuse():
        raise StepFailed("the host refuses")

    with pytest.raises(StepFailed, match="refuses"):
        enter_unless_stopped(made(server), ESX1, refuse, lambda _: None)
    enter_unless_stopped(made(server), ESX1, lambda: None, lambda _: None)
    assert server.cancelled == []


def test_after_a_lost_answer_the_second_try_of_a_stopped_run_cancels_the_first():
    server = Server()
    server.running.add(TASK)
    with pytest.raises(Withdrawn):
        enter_unless_stopped(made(server, stopped=True), ESX1, lambda: pytest.fail("sent again"), lambda _: None)
    assert server.cancelled == [TASK]

    inside = Server(stubborn=True)
    inside.running.add(TASK)
    enter_unless_stopped(made(inside, stopped=True), ESX1, lambda: pytest.fail("sent again"), lambda _: None)


def test_a_lost_answer_is_looked_into_first():
    server = Server()
    context = made(server)

    def lose():
        context.stop.set()
        raise OutcomeUnknown("lost")

    with pytest.raises(OutcomeUnknown):
        enter_unless_stopped(context, ESX1, lose, lambda _: None)


def test_a_host_that_is_not_on_its_way_is_left_alone():
    server = Server()
    assert leave_alone(made(server), ESX1)
    assert server.cancelled == []
    server.inside = True
    assert not leave_alone(made(server), ESX1)


def test_a_task_that_does_not_end_is_asked_once_and_is_in_doubt(monkeypatch):
    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.now += seconds

    on_clock(monkeypatch, context, Clock())
    server = Server()
    server.running.add(TASK)
    server.call = lambda ref, method, args=None: server.cancelled.append(ref)
    with refused(OutcomeUnknown, "host.may-enter-maintenance"):
        leave_alone(made(server), ESX1)
    assert server.cancelled == [TASK]
