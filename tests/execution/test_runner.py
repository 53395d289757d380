"""The runner with deeds that only remember: order, failure, stop, and what has to be put back."""

from __future__ import annotations

import threading
import time

import pytest
from support.estates import ESX1, ESX2, OFF, PCI, estate, guest, host, made, smi, vm, wants
from support.farms import DIRECT, FULL, MIG, farm
from support.gates import LONG
from support.judging import words

from vsphere_ai.errors import (
    Denied,
    DidNotReboot,
    GuestStillRuns,
    HostUnhealthy,
    NotVerified,
    OutcomeUnknown,
    StepFailed,
    Storage,
    Unreachable,
)
from vsphere_ai.execution import runner
from vsphere_ai.execution.runner import Runner
from vsphere_ai.language.playbooks.play import Rolling
from vsphere_ai.model.records.pending import NoRecord, Pending
from vsphere_ai.planning.outcome import failures

NO_SSH = ({"_typeName": "HostService", "key": "TSM-SSH", "running": False, "policy": "off"},)


class Executor:
    """Remembers (target, word) of every step; raises or waits where a test says so. `on`: whether VMs run."""

    on = True

    def __init__(self, plan, failing=None, during=None, already=()):
        self.done, self.put_back, self.already = [], [], already
        self.failing, self.during = failing or {}, during or {}
        self.lock = threading.Lock()
        self.homes = {p.step.target.ref: ESX1.ref for p in plan.steps if p.step.target.kind == "vm"}

    def before(self, step):
        return ""

    def is_so(self, step):
        return (step.target.name, words([step])[0]) in self.already

    def do(self, step, say, name=""):
        key = (step.target.name, words([step])[0])
        with self.lock:
            self.done.append(key)
        if key in self.during:
            self.during[key](say)
        if key in self.failing:
            raise self.failing[key]

    def was_refused(self, step, error):
        return type(error) in (StepFailed, Denied)

    def switch_ssh(self, target, *, running):
        self._put_back(("ssh", target.name, running))

    def power_on(self, target, say):
        say("42%")
        self._put_back(("power-on", target.name))

    def _put_back(self, what):
        if what in self.failing:
            raise self.failing[what]
        self.put_back.append(what)

    def out_of_service(self, hosts):
        return {}

    def runs(self, target):
        if isinstance(self.on, Exception):
            raise self.on
        return self.on

    def host_of(self, target):
        return self.homes.get(target.ref)


def go(plan, failing=None, during=None, *, parallel=8, already=(), record=None, failed=None):
    """Run a plan; return the run, the deeds and the events. `failed` is set once the run knows that a step has."""
    executor, events = Executor(plan, failing, during, already), []

    def heard(event):
        events.append(event)
        if failed and event.what == "failed":
            failed.set()

    return Runner(plan, executor, heard, parallel=parallel, record=record).run(), executor, events


def vms_only(count):
    """N running VMs with a change each, on a host nobody touches."""
    guests = [vm(n) for n in range(1, count + 1)]
    return made(estate(host(ESX1), *(guest(v, ESX1) for v in guests)), {v: wants(FULL) for v in guests})


def states(run):
    return {(o.planned.step.target.name, words([o.planned.step])[0]): o.state for o in run.outcomes}


# -- going well


def test_every_step_runs_once_after_what_it_waits_for():
    plan = farm()
    run, executor, _ = go(plan)
    order = {key: i for i, key in enumerate(executor.done)}
    names = {p.id: (p.step.target.name, words([p.step])[0]) for p in plan.steps}
    assert len(executor.done) == len(plan.steps)
    for planned in plan.steps:
        assert all(order[names[a]] < order[names[planned.id]] for a in planned.after)
    assert (run.exit_code, run.open, run.interrupted) == (0, (), False)
    assert run.count("done") == len(plan.steps)
    assert executor.put_back == []


def test_targets_that_were_read_back_are_verified():
    run, _, _ = go(farm())
    assert run.verified() == (ESX1, ESX2, vm(1), vm(2))


def test_an_empty_plan_ends_well():
    run, executor, events = go(made(estate(host(ESX1)), {}))
    assert (run.exit_code, run.outcomes, executor.done, events) == (0, (), [], [])


def test_targets_go_side_by_side():
    both = threading.Barrier(2, timeout=5)
    during = {(vm(n).name, "reconfigure"): lambda say: both.wait() for n in (1, 2)}
    run, _, _ = go(vms_only(2), during=during)
    assert run.exit_code == 0


def test_no_more_run_at_once_than_allowed():
    now, most, lock, both = [0], [0], threading.Lock(), threading.Barrier(2, timeout=30)

    def busy(say):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        both.wait()
        with lock:
            now[0] -= 1

    go(vms_only(6), during={(vm(n).name, "reconfigure"): busy for n in range(1, 7)}, parallel=2)
    assert most[0] == 2


def test_events_tell_start_progress_and_end():
    during = {(vm(1).name, "reconfigure"): lambda say: say("50%")}
    _, _, events = go(vms_only(1), during=during)
    own = [(e.what, e.text) for e in events if e.planned and words([e.planned.step]) == ["reconfigure"]]
    assert own == [("start", ""), ("progress", "50%"), ("done", "")]


def test_a_sign_of_life_while_nothing_happens(monkeypatch):
    monkeypatch.setattr(runner, "HEARTBEAT", 0.05)
    told = threading.Event()
    plan, events = vms_only(1), []
    executor = Executor(plan, during={(vm(1).name, "reconfigure"): lambda say: told.wait(10)})

    def emit(event):
        events.append(event)
        if event.what == "waiting":
            told.set()

    assert Runner(plan, executor, emit).run().exit_code == 0
    assert told.is_set()
    assert any(e.what == "waiting" and vm(1).name in e.text for e in events)


# -- failing


def test_a_failure_stops_what_depends_on_it_and_nothing_else():
    failing = {(vm(1).name, "reconfigure"): StepFailed("the profile is not available")}
    run, _, events = go(vms_only(2), failing)
    found = states(run)
    assert found[vm(1).name, "reconfigure"] == "failed"
    assert found[vm(1).name, "as-planned"] == found[vm(1).name, "power-on"] == "skipped"
    assert found[vm(2).name, "power-on"] == "done"
    assert run.exit_code == 1
    assert [o.error.message for o in failures(run.outcomes)] == ["the profile is not available"]
    assert any(e.what == "failed" and "not available" in e.text for e in events)
    assert run.verified() == (vm(2),)


def test_a_skipped_step_names_what_it_waited_for():
    failing = {(vm(1).name, "reconfigure"): StepFailed("no")}
    run, _, _ = go(vms_only(1), failing)
    reasons = {o.reason for o in run.outcomes if o.state == "skipped"}
    (reason,) = reasons
    assert reason.startswith(f"{vm(1).name}: reconfigure")


def test_a_vm_whose_change_was_refused_is_powered_on_again():
    failing = {(vm(1).name, "reconfigure"): StepFailed("no")}
    run, executor, events = go(vms_only(1), failing)
    assert executor.put_back == [("power-on", vm(1).name)]
    assert run.open == ()
    assert any(e.what == "reverted" and vm(1).name in e.text for e in events)


@pytest.mark.parametrize(
    ("word", "error", "code"),
    [
        ("reconfigure", OutcomeUnknown("the answer was lost"), 9),
        ("as-planned", NotVerified("it is not"), 1),
        ("power-on", StepFailed("no capacity"), 1),
    ],
)
def test_a_vm_whose_state_is_in_doubt_stays_off_and_is_named(word, error, code):
    run, executor, _ = go(vms_only(1), {(vm(1).name, word): error})
    assert run.exit_code == code
    assert executor.put_back == []
    assert len(run.open) == 1
    assert vm(1).name in run.open[0]
    assert "powered off" in run.open[0]


def test_an_unknown_outcome_is_never_called_done_or_failed():
    run, _, events = go(vms_only(1), {(vm(1).name, "reconfigure"): OutcomeUnknown("lost")})
    assert states(run)[vm(1).name, "reconfigure"] == "unknown"
    assert run.count("unknown") == 1
    assert any(e.what == "unknown" for e in events)


@pytest.mark.parametrize("on", [True, False, Unreachable("vCenter is away")], ids=["on", "off", "unknown"])
def test_a_guest_that_may_still_shut_down_is_not_forgotten(monkeypatch, on):
    monkeypatch.setattr(Executor, "on", on)
    record, name = Settled(), vm(1).name
    run, executor, _ = go(
        vms_only(2), {(name, "power-off"): GuestStillRuns("it did not shut down in 300 s")}, record=record
    )
    assert run.exit_code == 1
    if on is False:
        assert (run.open, executor.put_back, record.resolved) == ((), [("power-on", name)], [("off", name)])
    else:
        assert run.open == (f"{name} was asked to shut down and may do so yet: then vsphere-ai resume powers it on",)
        assert (executor.put_back, record.resolved) == ([], [])


def test_a_power_on_that_fails_at_the_end_leaves_the_vm_named():
    failing = {(vm(1).name, "reconfigure"): StepFailed("no"), ("power-on", vm(1).name): StepFailed("no host")}
    run, _, events = go(vms_only(1), failing)
    assert len(run.open) == 1
    assert any(e.what == "failed" and "no host" in e.text for e in events)


def test_a_bug_in_a_deed_does_not_leave_the_rest_without_a_word():
    run, executor, _ = go(vms_only(2), {(vm(1).name, "reconfigure"): ZeroDivisionError("oops")})
    assert run.exit_code == 70
    (failed,) = failures(run.outcomes)
    assert "ZeroDivisionError" in failed.error.message
    assert isinstance(failed.error.__cause__, ZeroDivisionError)
    assert ("power-on", vm(1).name) in executor.put_back
    assert states(run)[vm(2).name, "power-on"] == "done"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n  (vim.fault) {\n   msg = 'x'\n}", "ValueError: (vim.fault) {"),
        ("red \x1b[31m \u202e", "ValueError: red \N{REPLACEMENT CHARACTER}[31m \N{REPLACEMENT CHARACTER}"),
        ("long " * 500, f"ValueError: {('long ' * 500)[:300]}"),
        ("", "ValueError"),
    ],
)
def test_a_bug_is_told_in_one_harmless_line(text, said):
    run, *_ = go(vms_only(1), {(vm(1).name, "reconfigure"): ValueError(text)})
    (failed,) = failures(run.outcomes)
    assert failed.error.message == said


def test_the_most_serious_failure_gives_the_exit_code():
    failing = {(vm(1).name, "reconfigure"): StepFailed("a"), (vm(2).name, "reconfigure"): OutcomeUnknown("b")}
    assert go(vms_only(2), failing)[0].exit_code == 9


# -- hosts


LOST = HostUnhealthy("esx01 did not come back within 1800 s")


def test_a_host_that_does_not_come_back_stays_in_maintenance_and_is_named_with_its_vms():
    run, executor, _ = go(farm(), {("esx01", "host-back"): LOST})
    assert run.exit_code == 6
    assert executor.put_back == []
    text = "\n".join(run.open)
    assert "esx01 is still in maintenance mode" in text
    assert "govc host.maintenance.exit esx01" in text
    assert f"{vm(1).name} is powered off" in text
    assert f"{vm(2).name} is powered off" in text
    assert "esx02" not in {name for name, _ in executor.done}


def test_no_further_host_is_started_after_an_unhealthy_one_even_within_the_budget():
    begun, gone = threading.Event(), threading.Event()

    def reboot(_say):
        begun.set()
        assert gone.wait(LONG)

    during = {("esx01", "host-back"): lambda _: begun.wait(30), ("esx02", "reboot"): reboot}
    run, executor, _ = go(farm(4, 0, budget=2), {("esx01", "host-back"): LOST}, during, failed=gone)
    found = states(run)
    assert found["esx02", "exit-maintenance"] == "done"  # it was on its way: it is brought to the end
    assert found["esx03", "enter-maintenance"] == found["esx04", "enter-maintenance"] == "skipped"
    assert {name for name, _ in executor.done} == {"esx01", "esx02"}
    assert any("esx01" in o.reason for o in run.outcomes if o.planned.step.target.name == "esx04")


def test_vms_elsewhere_go_on_after_an_unhealthy_host():
    idle = host(ESX2, active="sharedDirect")
    begun, gone = threading.Event(), threading.Event()
    seen = estate(host(ESX1), idle, *(guest(vm(n), ESX2) for n in (1, 2)))
    plan = made(seen, {ESX1: wants(DIRECT)} | {vm(n): wants(FULL) for n in (1, 2)})

    def power_off(_say):
        begun.set()
        assert gone.wait(LONG)

    during = {("esx01", "host-back"): lambda _: begun.wait(30), (vm(1).name, "power-off"): power_off}
    run, _, _ = go(plan, {("esx01", "host-back"): LOST}, during, failed=gone)
    assert states(run)[vm(1).name, "power-on"] == states(run)[vm(2).name, "power-on"] == "done"


def test_ssh_that_we_started_is_stopped_when_the_window_breaks():
    run, executor, _ = go(
        farm(1, 0, config__service__service=NO_SSH), {("esx01", "UpdateGraphicsConfig"): StepFailed("no")}
    )
    assert executor.put_back == [("ssh", "esx01", False)]
    assert run.open == ()


def test_ssh_that_was_running_is_left_running():
    _, executor, _ = go(farm(1, 0), {("esx01", "gpus-answer"): HostUnhealthy("no GPU answers")})
    assert executor.put_back == []


# -- a window that fails before its reboot was sent

SMI = next(w for w in words([p.step for p in farm().steps]) if w.startswith("nvidia-smi"))
VMS = [("power-on", vm(1).name), ("power-on", vm(2).name)]
LEFT = "leave maintenance mode on esx01: no reboot was sent, nothing there needs it"


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("UpdateGraphicsConfig", StepFailed("no")),
        (SMI, StepFailed("no")),
        (SMI, Unreachable("no SSH session could be opened")),
        ("reboot", Denied("esx01 does not accept the SSH login of root")),
        ("reboot", StepFailed("esx01 refused to reboot")),
    ],
)
def test_a_window_that_fails_before_its_reboot_is_left_again(word, error):
    record = Settled()
    run, executor, events = go(farm(), {("esx01", word): error}, record=record)
    own = [done for name, done in executor.done if name == "esx01"]
    assert own[-2:] == ["exit-maintenance", "healthy"], "after the failing step, and seen to be well"
    assert own.index("exit-maintenance") > own.index(word)
    assert sorted(executor.put_back) == VMS
    assert run.open == ()
    assert run.put_back == (LEFT, f"power on {vm(1).name}", f"power on {vm(2).name}")
    assert LEFT in [e.text for e in events if e.what == "reverted"]
    assert set(record.resolved) == {(k, "esx01") for k in ("maintenance", "gate")} | {("off", n) for _, n in VMS}
    assert run.exit_code == error.exit_code, "it did fail all the same"


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("UpdateGraphicsConfig", OutcomeUnknown("lost")),
        (SMI, OutcomeUnknown("lost")),
        ("reboot", OutcomeUnknown("lost")),
        ("reboot", Unreachable("the connection broke")),
        ("host-back", HostUnhealthy("did not come back")),
        ("gpus-answer", Denied("no login")),
        ("as-planned", NotVerified("something else")),
    ],
)
def test_a_window_that_fails_later_or_in_doubt_is_not_left(word, error):
    run, executor, _ = go(farm(), {("esx01", word): error})
    assert ("esx01", "exit-maintenance") not in executor.done
    assert executor.put_back == []
    assert run.put_back == ()
    assert any("esx01 is still in maintenance mode" in line for line in run.open)


def test_a_host_that_was_seen_not_to_reboot_is_left_again():
    class Noting(Record):
        noted, resolved = (), ()

        def rebooted(self, host, *, did):
            self.noted += ((host.name, did),)

        def resolve(self, *pending):
            self.resolved += tuple((d.kind, d.target.name) for d in pending)

    record = Noting()
    run, executor, _ = go(farm(), {("esx01", "host-back"): DidNotReboot("did not go down within 300 s")}, record=record)
    assert ("esx01", "exit-maintenance") in executor.done
    assert (run.exit_code, run.open, sorted(executor.put_back)) == (6, (), VMS)
    assert record.noted == (("esx01", False),), "resume may reboot it"
    assert {("reboot", "esx01"), ("ssh-on", "esx01"), ("maintenance", "esx01")} <= set(record.resolved)


def test_a_window_without_a_reboot_that_is_not_as_planned_is_not_left():
    rolling = Rolling(evacuate="power_off")
    seen = estate(
        host(ESX1, active="sharedDirect", device=0x2331, probes=smi(dict.fromkeys(PCI, OFF))), guest(vm(1), ESX1)
    )
    plan = made(seen, {ESX1: wants(MIG, rolling=rolling)})
    assert (plan.impact.reboots, plan.impact.maintenance) == ((), (ESX1,))
    run, executor, _ = go(plan, {("esx01", "as-planned"): NotVerified("something else")})
    assert ("esx01", "exit-maintenance") not in executor.done
    assert any("esx01 is still in maintenance mode" in line for line in run.open)


def test_what_an_earlier_attempt_put_into_maintenance_stays_there():
    record = Record(Pending("maintenance", ESX1), Pending("gate", ESX1))
    run, executor, _ = go(farm(), {("esx01", "UpdateGraphicsConfig"): StepFailed("no")}, record=record)
    assert ("esx01", "exit-maintenance") not in executor.done
    assert any("esx01 is still in maintenance mode" in line for line in run.open)


def test_a_host_that_cannot_leave_is_named_with_its_vms():
    failing = {("esx01", "UpdateGraphicsConfig"): StepFailed("no"), ("esx01", "exit-maintenance"): StepFailed("busy")}
    run, executor, _ = go(farm(), failing)
    assert (executor.put_back, run.put_back) == ([], ())
    text = "\n".join(run.open)
    assert "esx01 is still in maintenance mode" in text
    assert f"{vm(1).name} is powered off" in text


def test_vms_that_went_off_before_another_one_failed_to_come_back():
    first = threading.Event()
    names = [(vm(n).name, "power-off") for n in (1, 2)]
    during = {names[0]: lambda say: first.set(), names[1]: lambda say: first.wait(30)}
    run, executor, _ = go(farm(), {names[1]: StepFailed("no")}, during)
    assert ("esx01", "enter-maintenance") not in executor.done
    assert executor.put_back == VMS[:1]
    assert run.put_back == (f"power on {vm(1).name}",)
    assert run.open == ()


def test_a_host_with_a_vm_that_cannot_be_powered_on_is_not_called_healthy():
    failing = {("esx01", "UpdateGraphicsConfig"): StepFailed("no"), VMS[1]: StepFailed("no GPU")}
    record = Settled()
    run, executor, _ = go(farm(), failing, record=record)
    assert ("esx01", "healthy") not in executor.done
    assert ("gate", "esx01") not in record.resolved
    assert run.open == (f"{vm(2).name} is powered off; it was running before",)


class Settled(NoRecord):
    """Remembers the pending actions that were resolved outside of a step."""

    def __init__(self):
        self.resolved = []

    def resolve(self, *pending):
        self.resolved += [(d.kind, d.target.name) for d in pending]


class Record(NoRecord):
    """Remembers the debts of every step that was begun; owes some from an earlier attempt."""

    full = ()
    """Words of steps whose end cannot be written down."""

    def __init__(self, *all_pending):
        self.earlier, self.opened, self.void, self.words = all_pending, [], [], {}

    def begin(self, id, step, opens):
        self.opened += [(d.kind, d.target.name) for d in opens]
        self.words[id] = words([step])[0]

    def end(self, id, state, error="", closes=()):
        if self.words[id] in self.full:
            raise Storage("the disk is full")
        if state != "done":
            self.void += [(d.kind, d.target.name) for d in closes]

    def pending(self):
        return self.earlier


def test_a_vm_that_somebody_switched_off_meanwhile_stays_off():
    record, name = Record(), vm(1).name
    run, executor, events = go(farm(), already={(name, "power-off")}, record=record)
    assert (run.exit_code, run.open, run.unstarted) == (0, (), 0)
    assert run.external_changes == (f"{name} was powered off by someone else during the run; left powered off",)
    own = [word for target, word in executor.done if target == name]
    assert own == ["reconfigure", "as-planned"], "it is changed all the same"
    assert ("off", name) not in record.opened
    assert {("off", vm(2).name), ("maintenance", "esx01")} <= set(record.opened)
    told = [words([e.planned.step])[0] for e in events if e.what == "skipped" and e.text == run.external_changes[0]]
    assert told == ["power-off", "power-on"]


def test_the_health_gate_does_not_ask_for_a_vm_that_stays_off(monkeypatch):
    asked = []
    executor = Executor(plan := farm(), already={(vm(1).name, "power-off")})
    done = executor.do
    executor.do = lambda step, *more: (asked.append(getattr(step, "vms", None)), done(step, *more))
    assert Runner(plan, executor, lambda _: None).run().exit_code == 0
    assert [[v.name for v in vms] for vms in asked if vms] == [[vm(2).name]]


def test_what_an_earlier_attempt_switched_is_ours():
    record = Record(Pending("off", vm(1)), Pending("ssh", ESX1))
    plan = farm(1, 1, config__service__service=NO_SSH)
    run, executor, _ = go(plan, already={(vm(1).name, "power-off"), ("esx01", "start-ssh")}, record=record)
    assert (run.exit_code, run.external_changes, run.count("done")) == (0, (), len(plan.steps))
    assert {(vm(1).name, "power-on"), ("esx01", "stop-ssh")} <= set(executor.done)


def test_ssh_that_somebody_started_meanwhile_runs_on_and_again_after_a_reboot():
    record = Record()
    run, executor, _ = go(farm(1, 0, config__service__service=NO_SSH), already={("esx01", "start-ssh")}, record=record)
    assert (run.exit_code, run.open, executor.put_back) == (0, (), [])
    assert run.external_changes == ("SSH of esx01 was started by someone else during the run; left running",)
    own = [word for target, word in executor.done if target == "esx01"]
    assert own.count("start-ssh") == 1
    assert own.index("start-ssh") > own.index("reboot"), "the reboot stops it"
    assert "stop-ssh" not in own
    assert ("ssh", "esx01") not in record.opened
    assert ("ssh-on", "esx01") in record.opened


def test_ssh_that_we_started_is_ours_also_when_a_boot_has_started_it():
    plan = farm(1, 0, config__service__service=NO_SSH)
    already = set()
    run, executor, _ = go(plan, during={("esx01", "reboot"): lambda say: already.add(("esx01", "start-ssh"))},
                       already=already)  # fmt: skip
    assert (run.exit_code, run.external_changes) == (0, ())
    assert ("esx01", "stop-ssh") in executor.done


def test_ssh_that_cannot_be_stopped_is_named():
    failing = {("esx01", "UpdateGraphicsConfig"): StepFailed("no"), ("ssh", "esx01", False): StepFailed("denied")}
    run, _, _ = go(farm(1, 0, config__service__service=NO_SSH), failing)
    assert any("SSH is still running on esx01" in line for line in run.open)


def test_vms_of_a_host_that_could_not_enter_maintenance_are_powered_on_again():
    run, executor, _ = go(farm(), {("esx01", "enter-maintenance"): StepFailed("a VM is in the way")})
    assert sorted(executor.put_back) == [("power-on", vm(1).name), ("power-on", vm(2).name)]
    assert run.open == ()


ENTER = ("esx01", "enter-maintenance")


def test_what_was_refused_is_not_owed():
    """Else `resume` would take it for ours when another user does it later, and reboot their host."""
    record = Record()
    go(farm(), {ENTER: StepFailed("a VM is in the way")}, record=record)
    assert ("maintenance", "esx01") in record.opened
    assert record.void == [("maintenance", "esx01"), ("gate", "esx01")]


def test_what_may_have_happened_stays_owed():
    record = Record()
    go(farm(), {ENTER: OutcomeUnknown("lost")}, record=record)
    assert record.void == []


def test_what_an_earlier_attempt_owes_stays_owed():
    record = Record(Pending("maintenance", ESX1), Pending("gate", ESX1))
    go(farm(), {ENTER: StepFailed("a VM is in the way")}, record=record)
    assert record.void == []


@pytest.mark.parametrize(
    ("word", "named"),
    [("reboot", "esx01 is still in maintenance mode"), ("enter-maintenance", None), ("power-off", None)],
)
def test_what_was_done_and_could_not_be_written_down_is_put_back_or_named(word, named):
    record = Record()
    record.full = (word,)
    run, executor, _ = go(farm(), record=record)
    assert run.exit_code == 8
    if named:
        assert any(named in line for line in run.open)
    elif word == "enter-maintenance":
        assert (("esx01", "exit-maintenance") in executor.done, run.open) == (True, ())
    else:
        off = [name for name, done in executor.done if done == word]
        assert off
        assert sorted(executor.put_back) == sorted(("power-on", name) for name in off)


def test_what_was_put_back_and_could_not_be_written_down_is_not_called_open():
    class Full(Record):
        def resolve(self, *pending):
            raise Storage("the disk is full")

    run, executor, events = go(farm(), {ENTER: StepFailed("a VM is in the way")}, record=Full())
    assert executor.put_back
    assert run.open == ()
    assert [e.text for e in events if "done, but not written down: the disk is full" in e.text]


# -- the operator stops it


def stopped(plan, at, number=2, *, after=0.0, **options):
    """Run a plan and stop it during a step, some seconds after that step began."""
    events, holder = [], []

    def stop(say):
        time.sleep(after)
        holder[0].stop(number)

    executor = Executor(plan, during={at: stop})
    holder.append(Runner(plan, executor, events.append, **options))
    return holder[0].run(), executor


def test_nothing_is_started_after_a_stop():
    run, executor = stopped(farm(), ("esx01", "exit-maintenance"))
    assert run.interrupted
    assert run.signal == 2
    assert "esx02" not in {name for name, _ in executor.done}
    assert {o.reason for o in run.outcomes if o.planned.step.target == ESX2} == {"stopped by the operator"}


def test_a_host_in_its_window_is_brought_to_its_end():
    run, executor = stopped(farm(), ("esx01", "reboot"))
    assert ("esx01", "exit-maintenance") in executor.done
    assert states(run)["esx01", "exit-maintenance"] == "done"
    assert run.open == ()


def test_a_vm_that_is_off_comes_back():
    run, _ = stopped(vms_only(1), (vm(1).name, "power-off"))
    assert states(run)[vm(1).name, "power-on"] == "done"
    assert run.open == ()


def test_a_vm_that_went_off_for_a_host_that_was_not_started_comes_back():
    run, executor = stopped(farm(1, 1), (vm(1).name, "power-off"))
    assert ("esx01", "enter-maintenance") not in executor.done
    assert executor.put_back == [("power-on", vm(1).name)]
    assert run.open == ()


def test_steps_that_wait_for_a_free_thread_are_not_started_either():
    run, executor = stopped(vms_only(5), (vm(1).name, "power-off"), parallel=1, after=0.2)
    assert {name for name, _ in executor.done} == {vm(1).name}
    assert run.count("skipped") == 4 * 4
    assert run.open == ()


def test_a_stop_before_anything_starts_nothing():
    plan, executor = vms_only(1), None
    executor = Executor(plan)
    runner = Runner(plan, executor, lambda event: None)
    runner.stop(15, "stopped because munich failed")
    run = runner.run()
    assert (executor.done, run.signal, run.exit_code, run.stopped) == ([], 15, 0, "stopped because munich failed")
    assert {(o.rule, o.reason) for o in run.outcomes} == {("run.stopped", run.stopped)}
