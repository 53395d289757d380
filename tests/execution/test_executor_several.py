"""One of several calls of the same kind on one target: what is left there tells which of them took effect."""

from __future__ import annotations

import pytest
from support.acting import VM, Clock, Server, Shells, on_clock
from support.raising import refused

from vsphere_ai.errors import OutcomeUnknown, StepFailed, VimFault
from vsphere_ai.execution.actions import context
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.model.facts import CommandOutput
from vsphere_ai.model.state import FieldChange
from vsphere_ai.model.steps import Invoke, Shell
from vsphere_ai.planning.planner import PlanItem

LOST = OutcomeUnknown("sent, but the answer was lost")
ITEM = PlanItem(VM, "port_groups", (FieldChange("two vlan", None, 8),))


def made(name, method="AddDVPortgroup_Task"):
    return Invoke(target=VM, summary=f"create {name}", kinds=("port_groups",), method=method)


ONE, TWO = made("one"), made("two")


class Answers(Server):
    """Answers calls with each of the given errors in turn, then well."""

    def __init__(self, *errors):
        super().__init__({})
        self.errors = list(errors)

    def run_task(self, ref, method, args=None, *, timeout, progress=None):
        super().run_task(ref, method, args, timeout=timeout, progress=progress)
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    on_clock(monkeypatch, context, clock)
    return clock


def acting(server, again, shells=None):
    """Deeds on a target where the kind is not as planned yet, and `again` are the steps that are left."""
    given = list(again)

    def left(_target):
        return given.pop(0) if len(given) > 1 else given[0]

    return StepExecutor(Context(server, shells or Shells(), lambda *_: (ITEM,), {}, {}, again=left))


@pytest.mark.parametrize(
    ("left", "calls"),
    [
        ((TWO,), 1),  # the other one is still to come
        ((made("one", "ReconfigureDVPortgroup_Task"), TWO), 1),  # it is there, and something else of it is to come
        ((ONE, TWO), 2),
        (None, 2),  # nobody can tell: as long as the kind is not as planned it may not have happened
    ],
)
def test_the_first_of_two_is_adopted_when_only_the_second_is_left(clock, left, calls):
    server = Answers(LOST)
    acting(server, [left]).do(ONE, print)
    assert len(server.calls) == calls
    assert (sum(clock.pauses) < 5) == (calls == 1)


@pytest.mark.parametrize("fault", ["DuplicateName", "AlreadyExists"])
def test_what_is_found_made_when_it_is_sent_again_is_adopted(fault):
    server = Answers(LOST, VimFault("there is one", "", {"_typeName": fault}))
    executor = StepExecutor(
        Context(
            server, Shells(), lambda *_: (ITEM,), {}, {}, again=lambda _: (TWO,) if len(server.calls) > 1 else (ONE,)
        )
    )
    executor.do(ONE, print)
    assert len(server.calls) == 2


def test_a_name_that_somebody_else_took_is_no_success():
    server = Answers(VimFault("there is one", "", {"_typeName": "DuplicateName"}))
    with refused(StepFailed, "fault.DuplicateName"):
        acting(server, [(TWO,)]).do(ONE, print)
    server = Answers(LOST, VimFault("there is one", "", {"_typeName": "DuplicateName"}))
    with refused(StepFailed, "fault.DuplicateName"):
        acting(server, [(ONE, TWO)]).do(ONE, print)


def test_commands_are_told_apart_by_their_words():
    first, second = (
        Shell(target=VM, summary="set", kinds=("port_groups",), argv=("esxcli", "network", "nic", "set", "-n", n))
        for n in ("vmnic1", "vmnic2")
    )
    for left, ran in (((second,), 1), ((first, second), 2)):
        shells = Shells(LOST, CommandOutput(0, ""))
        acting(Answers(), [left], shells).do(first, print)
        assert len(shells.ran) == ran
