"""The state of a run: events go in; hosts out of service, failures, pending actions and reasons come out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.estates import ESX1, ESX2, ESX3, vm
from support.farms import farm

from vsphere_ai.errors import DidNotReboot, HostUnhealthy, NoRoom, NotVerified, OutcomeUnknown, StepFailed
from vsphere_ai.execution.run_state import RunState
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.steps import (
    AsPlanned,
    EnterMaintenance,
    ExitMaintenance,
    Healthy,
    HostBack,
    PowerOff,
    PowerOn,
    Reboot,
)
from vsphere_ai.planning.outcome import Outcome


def step_of(plan, target, kind):
    return next(p for p in plan.steps if p.step.target == target and isinstance(p.step, kind))


def ended(state, target, kind, how="done", error=None):
    state.end(Outcome(step_of(state.plan, target, kind), how, error=error))


def refused(step, error):
    return False


def entry(state, host):
    return next(id_ for id_, each in state.rollout.entries.items() if each == host)


def blocker(state, id):
    """What keeps a step from starting once all it waits for has ended; what has not is done."""
    for each in state.steps[id].after:
        if each not in state.outcomes:
            state.end(Outcome(state.steps[each], "done"))
    return state.blocker(id)


def begun(plan, *hosts):
    state = RunState(plan)
    for host in hosts:
        state.begin(entry(state, host))
        state.change(opens=[Pending("maintenance", host), Pending("gate", host)])
    return state


def test_a_host_is_out_of_service_from_its_first_pending_action_until_all_are_closed():
    state = begun(farm(), ESX1)
    assert state.down() == {ESX1}
    state.change(opens=[Pending("reboot", ESX1)], closes=[Pending("maintenance", ESX1)])
    assert state.down() == {ESX1}
    state.change(closes=[Pending("reboot", ESX1)])
    assert state.down() == set()
    assert state.pending("gate") == [ESX1]


def test_a_host_whose_outcome_is_unknown_counts_as_out_of_service():
    state = RunState(farm())
    ended(state, ESX1, EnterMaintenance, "unknown", OutcomeUnknown("lost"))
    assert state.down() == {ESX1}


def test_the_next_host_waits_until_the_one_before_is_back():
    state = begun(farm(), ESX1)
    assert state.waits_for(entry(state, ESX2)) == "esx01 is out of service, and no more hosts may be at once"
    ended(state, ESX1, Healthy)
    assert state.waits_for(entry(state, ESX2)) != "", "it ended, and is still in maintenance mode"
    state.change(closes=[Pending("maintenance", ESX1)])
    assert state.waits_for(entry(state, ESX2)) == ""


def test_a_host_that_has_begun_does_not_wait_for_itself():
    state = begun(farm(), ESX1)
    assert state.waits_for(entry(state, ESX1)) == ""


def test_more_failures_than_allowed_start_no_further_host():
    state = begun(farm(), ESX1)
    ended(state, ESX1, ExitMaintenance, "failed", StepFailed("no"))
    first = step_of(state.plan, vm(1), PowerOff).id
    assert state.blocker(first) == ("rollout.halted", "something failed on esx01 already")
    text = "esx01 failed, and max_fail is 0, so no further host is started"
    assert blocker(state, entry(state, ESX2)) == ("rollout.halted", text)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (HostUnhealthy("two GPUs are missing"), "esx01 is not healthy"),
        (NoRoom("no further host is started"), "esx01 failed, and max_fail is 0"),
    ],
)
def test_a_host_that_was_not_started_is_not_called_unhealthy(error, why):
    state = begun(farm(3))
    ended(state, ESX1, Healthy, "failed", error)
    rule, text = blocker(state, entry(state, ESX3))
    assert (rule, text) == ("rollout.halted", f"{why}, so no further host is started")


def test_what_is_read_of_the_cluster_counts_beside_the_hosts_of_the_run():
    state = begun(farm(3, budget=2), ESX1)
    assert state.over_budget(ESX2, {}) == ""
    reason = state.over_budget(ESX2, {ESX3.ref: "in maintenance mode"})
    assert reason.startswith("esx03 is in maintenance mode, esx01 is out of service for this run, and max_unavailable")
    assert state.over_budget(ESX2, {ESX1.ref: "in maintenance mode"}) == "", "one of the run's counts once"
    down = {ESX2.ref: "notResponding", ESX3.ref: "notResponding"}
    assert state.over_budget(ESX2, down) == "", "it is out of service already"


def test_after_a_stop_maintenance_that_has_begun_is_ended():
    state = begun(farm(), ESX1)
    state.signal = 15
    assert not state.is_stopped(step_of(state.plan, ESX1, ExitMaintenance).id)
    assert state.is_stopped(entry(state, ESX2))
    assert state.blocker(step_of(state.plan, vm(1), PowerOff).id) == ("run.stopped", "stopped by the operator")


def test_what_someone_else_has_switched_is_neither_switched_nor_switched_back():
    state = RunState(farm())
    off, on = step_of(state.plan, vm(1), PowerOff).step, step_of(state.plan, vm(1), PowerOn).step
    text = "train-01 was powered off by someone else during the run; left powered off"
    assert state.external(off, (Pending("off", vm(1)),), lambda _: True) == ("external.off", text)
    assert state.external(on, (), lambda _: True) == ("external.off", text)
    gate, remark = state.without_external(step_of(state.plan, ESX1, Healthy).step)
    assert [v.name for v in gate.vms] == ["train-02"]
    assert remark == "without train-01, left powered off"
    assert state.without_external(on) == (on, "")


@pytest.mark.parametrize("earlier", [False, True])
def test_what_the_run_has_switched_itself_is_its_own_when_it_is_looked_at_again(earlier):
    pending = Pending("off", vm(1))
    state = RunState(farm(), [pending] if earlier else ())
    off = step_of(state.plan, vm(1), PowerOff).step
    assert state.external(off, (pending,), lambda _: earlier) is None
    assert state.external(off, (pending,), lambda _: True) is None
    assert state.is_pending(pending) is earlier


def test_a_renamed_target_of_an_earlier_attempt_is_the_same():
    before = Pending("maintenance", replace(ESX1, name="old"))
    state = RunState(farm(), [before])
    assert state.is_pending(Pending("maintenance", ESX1))
    assert not state.may_leave_maintenance(ESX1, refused)


@pytest.mark.parametrize(
    ("kind", "how", "error", "may"),
    [
        (EnterMaintenance, "failed", StepFailed("a VM is in the way"), True),
        (Reboot, "failed", StepFailed("refused"), False),
        (Reboot, "done", None, False),
        (AsPlanned, "failed", NotVerified("it shows something else"), False),
        (AsPlanned, "unknown", OutcomeUnknown("lost"), False),
        (HostBack, "failed", DidNotReboot("it did not go down"), True),
    ],
)
def test_a_host_leaves_maintenance_mode_only_where_nothing_is_uncertain(kind, how, error, may):
    state = begun(farm(), ESX1)
    if kind is HostBack:
        ended(state, ESX1, Reboot)
    ended(state, ESX1, kind, how, error)
    assert state.may_leave_maintenance(ESX1, refused) is may
    assert state.not_rebooted() == ([ESX1] if kind is HostBack else [])


@pytest.mark.parametrize(
    ("kind", "how", "error", "uncertain"),
    [
        (PowerOff, "failed", StepFailed("no"), False),
        (PowerOn, "failed", StepFailed("no"), True),
        (AsPlanned, "failed", NotVerified("no"), True),
        (PowerOff, "unknown", OutcomeUnknown("lost"), True),
        (PowerOn, "skipped", None, False),
    ],
)
def test_a_vm_is_uncertain_when_its_change_may_not_be_what_was_planned(kind, how, error, uncertain):
    state = RunState(farm())
    ended(state, vm(1), kind, how, error)
    assert state.is_uncertain(vm(1)) is uncertain
