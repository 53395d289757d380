"""What `resume` waits for before it reads anything: evidence where there is some, time only where there is none."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from support.acting import Clock, on_clock
from support.journals import act, create
from support.raising import refused

from vsphere_ai.app.events import Remark, ignore
from vsphere_ai.app.runs import quiesce, unfinished_tasks
from vsphere_ai.errors import OutcomeUnknown, Unreachable
from vsphere_ai.execution.actions import context
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.records.pending import Pending
from vsphere_ai.model.state import Target

HOST, OTHER = Target("host", "esx01", "HostSystem:host-1"), Target("host", "esx02", "HostSystem:host-2")
BOOT = "2026-01-01T00:00:00+00:00"


def rules_of(events):
    return [e.rule for e in events if isinstance(e, Remark)]


class Executor:
    """Remembers what it was to do. `rebooted`: every host it waits for has been down."""

    def __init__(self, *, rebooted=False):
        self.booted, self.waits, self.rebooted = [], [], rebooted

    def remember_boot(self, host, booted, sent):
        self.booted.append((host, booted, sent))

    def has_rebooted(self, host):
        return self.rebooted and host in [h for h, _, _ in self.waits]

    def do(self, step, say):
        limits = {"timeout": step.timeout, "unless_never_down": step.unless_never_down}
        self.waits.append((step.target, step.until, limits))


def ordered(record, target, seconds):
    """Note that a target was told to go down so many seconds ago; None = never."""
    if seconds is not None:
        record.sending(target)
        with sqlite3.connect(record.path) as db:
            at = datetime.now(UTC) - timedelta(seconds=seconds)
            db.execute("update pending set sent = ? where sent is not null", (at.isoformat(timespec="milliseconds"),))
    return record


def a_run(*, sent_before=None, timeout=900):
    """A run that was cut off in a reboot; its command left so many seconds ago, or never."""
    step = {"target": vars(HOST), "until": "host-back", "timeout": timeout}
    record = create({"what": "play.yml", "approved": {"steps": [{"target": vars(HOST)}, step]}})
    record.begin(
        "s1", act(HOST, "reboot", "reboot (over SSH)"), (Pending("reboot", HOST, BOOT), Pending("ssh-on", HOST))
    )
    return ordered(record, HOST, sent_before)


def test_a_command_that_never_left_is_not_waited_for():
    record, executor = a_run(), Executor()
    quiesce._await_reboots(None, executor, record, ignore)
    assert executor.waits == []
    assert [d.kind for d in record.pending()] == ["ssh-on"]


@pytest.mark.parametrize(("sent_before", "watched"), [(0, 120), (100, 20), (3600, 15), (-50, 120)])
def test_the_time_since_it_left_counts(sent_before, watched):
    record, executor = a_run(sent_before=sent_before), Executor()
    (left,) = (o.sent for o in record.ever_pending() if o.sent)
    quiesce._await_reboots(None, executor, record, ignore)
    ((host, until, options),) = executor.waits
    assert (host, until, options["timeout"]) == (HOST, "host-back", 900)
    assert watched - 3 <= options["unless_never_down"] <= watched
    assert executor.booted == [(HOST, BOOT, left)]
    assert [d.kind for d in record.pending()] == ["ssh-on"]


@pytest.mark.parametrize(("sent_before", "timeout"), [(0, 60), (110, 1), (3600, 5)])
def test_a_host_is_not_given_up_before_it_is_known_whether_it_went_down(sent_before, timeout):
    record, executor = a_run(sent_before=sent_before, timeout=timeout), Executor()
    quiesce._await_reboots(None, executor, record, ignore)
    ((_, _, options),) = executor.waits
    assert options["timeout"] >= options["unless_never_down"] + 10


def test_what_was_settled_is_not_waited_for():
    record, executor = a_run(sent_before=1), Executor()
    record.resolve(Pending("reboot", HOST))
    quiesce._await_reboots(None, executor, record, ignore)
    assert executor.waits == []


@pytest.mark.parametrize("ended", ["begun", "unknown", "failed"])
@pytest.mark.parametrize("rebooted", [True, False])
def test_a_reboot_that_is_seen_is_written_down_as_done(ended, rebooted):
    record = a_run(sent_before=1)
    if ended != "begun":
        record.end("s1", ended, "it broke off")
    quiesce._await_reboots(None, Executor(rebooted=rebooted), record, ignore)
    (step,) = record.steps()
    assert (step.state, bool(step.ended)) == (("done", True) if rebooted else (ended, ended != "begun"))
    assert bool(step.error) == (ended != "begun" and not rebooted)


@pytest.mark.parametrize("rebooted", [True, False])
def test_a_reboot_that_is_seen_is_the_restart_that_a_change_waits_for(rebooted):
    """Two boots within a minute: from the times alone, nobody could tell that the host has restarted since."""
    record = a_run(sent_before=1)
    for host in (HOST, OTHER):
        record.add_pending(Pending("restart", host, BOOT))
    quiesce._await_reboots(None, Executor(rebooted=rebooted), record, ignore)
    left = {(d.kind, d.target) for d in record.pending()} - {("ssh-on", HOST)}
    assert left == {("restart", OTHER), *(() if rebooted else [("restart", HOST)])}


def test_a_step_of_another_kind_or_host_stays_as_it_ended():
    record = a_run(sent_before=1)
    record.begin("s2", act(HOST, "enter-maintenance", "enter maintenance mode"), ())
    record.begin("s3", act(OTHER, "reboot", "reboot (over SSH)"), ())
    quiesce._await_reboots(None, Executor(rebooted=True), record, ignore)
    assert [s.state for s in record.steps()] == ["done", "begun", "begun"]


def test_a_host_the_plan_does_not_wait_for_has_half_an_hour():
    assert quiesce._patience(a_run(), OTHER) == 1800


class Tasks:
    """A vCenter that shows these tasks of the host, in the order they were queued in; other ones at the next look."""

    def __init__(self, *looks):
        self.looks, self.asked = list(looks), 0

    def service(self, name):
        return None

    def read(self, target, path):
        assert (target, path) == (HOST, "recentTask")
        self.asked += 1
        self.now = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return {path: [f"Task:{name}" for name in self.now]}

    def read_objects(self, refs, paths):
        number = {ref: at for at, ref in enumerate(refs)}
        return {
            ref: Facts(
                ref, {"info.descriptionId": f"HostSystem.{ref[5:]}", "info.queueTime": f"2026-01-01T00:00:0{at}"}
            )
            for ref, at in number.items()
        }

    @property
    def vcenter(self):
        return self


ENTER, REBOOT = "enterMaintenanceMode", "reboot"


def an_order(*, via="api", task=ENTER):
    """A run that was cut off between the note that an order to reboot is about to be sent, and the call."""
    reboot = {"target": vars(HOST), "action": "reboot", "via": via}
    wait = {"target": vars(HOST), "until": "host-back", "timeout": 900}
    record = create({"what": "play.yml", "approved": {"steps": [reboot, wait]}})
    record.begin("s1", act(HOST, "enter-maintenance", "enter maintenance mode"), ())
    if task:
        record.submitted("s1", f"Task:{task}")
    record.begin("s2", act(HOST, "reboot", "reboot"), (Pending("reboot", HOST, BOOT),))
    record.sending(HOST)
    return record


@pytest.mark.parametrize(
    ("looks", "waits"),
    [
        ([(ENTER,)], False),
        ([(ENTER, REBOOT)], True),
        ([(REBOOT, ENTER)], False),  # of a window before
        ([(ENTER,), (ENTER,), (ENTER, REBOOT)], True),  # it was still on its way
        ([()], True),  # nobody knows whether this account sees tasks there
    ],
)
def test_a_reboot_is_waited_for_unless_vcenter_has_no_task_of_it(looks, waits, monkeypatch):
    said = []
    monkeypatch.setattr(quiesce, "EVENTS_LAG", 2.0)
    record, executor = an_order(), Executor()
    quiesce._await_reboots(Tasks(*looks), executor, record, said.append)
    assert bool(executor.waits) is waits
    assert ("reboot.never-sent" in rules_of(said)) is not waits
    assert record.pending() == ()


@pytest.mark.parametrize("more", [{"via": "ssh"}, {"task": ""}])
def test_without_a_task_to_look_for_a_reboot_is_waited_for(more):
    tasks, executor = Tasks((ENTER,)), Executor()
    quiesce._await_reboots(tasks, executor, an_order(**more), ignore)
    assert (tasks.asked, len(executor.waits)) == (0, 1)


VM = Target("vm", "train-01", "VirtualMachine:vm-1")


class Guest:
    """Says of a VM that it runs, so many times, then that it is off."""

    def __init__(self, times):
        self.times, self.looks = times, 0
        self.vcenter = History(None)

    def read(self, target, path):
        assert (target, path) == (VM, "runtime.powerState")
        self.looks += 1
        return {path: "poweredOn" if self.looks <= self.times else "poweredOff"}


def a_shutdown(*, sent_before=None, timeout=300):
    """A run that was cut off while a guest shut down; it was told to so many seconds ago, or never."""
    steps = [{"target": vars(VM), "argv": []},
             {"target": vars(VM), "action": "power-off", "shutdown_timeout": timeout}]  # fmt: skip
    record = create({"what": "play.yml", "approved": {"steps": steps}})
    record.begin("s1", act(VM, "power-off", "shut down"), (Pending("off", VM),))
    return ordered(record, VM, sent_before)


def test_a_guest_that_was_asked_to_shut_down_is_waited_for():
    said = []
    guest, record = Guest(2), a_shutdown(sent_before=0)
    quiesce._await_guests(guest, record, said.append)
    assert guest.looks == 3
    assert said == [Remark("wait.guest", f"train-01: waiting for its guest, which run {record.id} asked to shut down")]


@pytest.mark.parametrize(
    ("sent_before", "timeout", "most"), [(None, 300, 0), (400, 300, 0), (0, 30, 61), (700, 900, 0)]
)
def test_a_guest_is_waited_for_as_long_as_it_was_given(sent_before, timeout, most, monkeypatch):
    on_clock(monkeypatch, context, Clock())
    guest = Guest(1000)
    quiesce._await_guests(guest, a_shutdown(sent_before=sent_before, timeout=timeout), ignore)
    assert (guest.looks > 0, guest.looks <= most) == (most > 0, True)


class History:
    """A vCenter whose events are these, or cannot be read."""

    def __init__(self, events, ahead=0.0):
        self.events, self.ahead, self.filter = events, timedelta(seconds=ahead), None

    def service(self, name):
        return None if self.events is None else "EventManager:EventManager"

    def now(self):
        return datetime.now(UTC) + self.ahead

    def call(self, ref, method, args):
        assert (ref, method) == ("EventManager:EventManager", "QueryEvents")
        self.filter = args["filter"]
        if isinstance(self.events, Exception):
            raise self.events
        return self.events


def task_event(operation, state):
    return {"_typeName": "TaskEvent", "info": {"descriptionId": f"VirtualMachine.{operation}", "state": state}}


@pytest.mark.parametrize(
    ("events", "waits"),
    [
        ((), False),
        ((task_event("reconfigure", "success"), {"_typeName": "VmPoweredOnEvent"}), False),
        ((task_event("shutdownGuest", "error"),), False),
        ((task_event("shutdownGuest", "success"),), True),
        (({"_typeName": "VmGuestShutdownEvent"},), True),
        (Unreachable("away"), True),
        (None, True),
    ],
)
def test_a_guest_is_waited_for_unless_vcenters_events_show_that_nobody_told_it(events, waits, monkeypatch):
    clock = Clock()
    on_clock(monkeypatch, context, clock)
    guest, began = Guest(1000), clock.now
    monkeypatch.setattr(quiesce, "_since", lambda sent: clock.now - began)
    guest.vcenter = History(events, ahead=3600)
    quiesce._await_guests(guest, a_shutdown(sent_before=0, timeout=60), ignore)
    assert clock.now - began == pytest.approx(60 if waits else quiesce.EVENTS_LAG, abs=5)
    if events is not None:  # asked by vCenter's clock
        asked = datetime.fromisoformat(guest.vcenter.filter["time"]["beginTime"]) - datetime.now(UTC)
        assert timedelta(minutes=59) < asked < timedelta(minutes=61)


def test_a_vm_that_the_run_powered_on_again_is_not_going_down():
    """It was killed before it saw the end of that; the order to shut down was carried out before."""
    guest, record = Guest(1000), a_shutdown(sent_before=0)
    record.end("s1", "done")
    record.begin("s2", act(VM, "power-on", "power on"), ())
    quiesce._await_guests(guest, record, ignore)
    assert guest.looks == 0


def test_a_vm_that_was_seen_off_and_runs_is_not_going_down():
    """Powered on to put it back, and the answer to that was lost."""
    guest, record = Guest(1000), a_shutdown(sent_before=0)
    record.end("s1", "done")
    quiesce._await_guests(guest, record, ignore)
    assert guest.looks == 0


def test_of_twins_the_one_that_was_seen_off_is_told_apart():
    twin = Target("vm", VM.name, "VirtualMachine:vm-2")
    steps = [{"target": vars(each)} for each in (VM, twin)]
    record = create({"what": "play.yml", "approved": {"steps": steps}})
    for number, each in enumerate((VM, twin)):
        record.begin(f"s{number}", act(each, "power-off", "shut down"), (Pending("off", each),))
        record.sending(each)
    record.end("s1", "done")
    assert [o.pending.target for o in quiesce.requested_shutdowns(record)] == [VM]


# -- tasks


class VCenter:
    """Shows tasks in states that follow one another, and which of them are the latest of an object."""

    def __init__(self, recent=None, **tasks):
        self.recent, self.tasks, self.looks, self.calls = recent or {}, tasks, 0, []

    def read_objects(self, refs, paths):
        found = {}
        for ref in refs:
            kind, _, name = ref.partition(":")
            if kind == "Task":
                assert "info.state" in paths[kind]
                states = self.tasks[name]
                if states[0] is not None:
                    found[ref] = Facts(ref, {"info.state": states[0], "info.descriptionId": f"VirtualMachine.{name}"})
                    self.tasks[name] = states[1:] or states
            else:
                found[ref] = Facts(ref, {"name": ref, "recentTask": self.recent.get(ref, ())})
        return found

    def call(self, ref, method, args=None):
        self.calls.append((ref, method))


class World:
    """What deeds act through, as far as waiting needs it. Hosts are in maintenance mode or not."""

    def __init__(self, vcenter, *, inside=False):
        self.vcenter, self.inside = vcenter, inside

    def read(self, target, path):
        return self.vcenter.read_objects([target.ref], {})[target.ref]

    def in_maintenance(self, host):
        return self.inside


def a_change(*, ended="", task="Task:reconfigure"):
    """A run that was cut off in a change of a VM, which vCenter had made a task, or not yet."""
    record = create({"what": "play.yml", "approved": {"steps": [{"target": vars(VM)}]}})
    record.begin("s1", act(VM, "power-on", "power on"), ())
    if task:
        record.submitted("s1", task)
    if ended:
        record.end("s1", ended)
    return record


@pytest.mark.parametrize("ended", ["", "unknown"])
@pytest.mark.parametrize("noted", [True, False])
def test_a_task_of_the_run_is_waited_for(ended, noted):
    said = []
    task = "Task:reconfigure"
    vcenter = VCenter({VM.ref: [task]}, reconfigure=["queued", "running", "success"])
    if noted:
        vcenter.recent = {}
    unfinished_tasks.await_tasks(World(vcenter), a_change(ended=ended, task=task if noted else ""), said.append)
    assert vcenter.tasks["reconfigure"] == ["success"]
    assert rules_of(said) == ["wait.task"]
    assert "the task reconfigure (reconfigure) is still under way" in said[0].text


@pytest.mark.parametrize(
    "sent_to",
    [
        {"do": "clone", "source": "VirtualMachine:vm-7"},
        {"do": "clusterrules", "cluster": "ClusterComputeResource:domain-c7"},
        {"do": "invoke", "on": "VmwareDistributedVirtualSwitch:dvs-7", "method": "ReconfigureDvs_Task"},
        {"do": "invoke", "on": "", "path": "networkFolder", "method": "CreateDVS_Task"},
    ],
)
def test_a_task_that_was_not_noted_is_found_where_its_request_was_sent_to(sent_to):
    """A VM that is to be made has no tasks yet, and those of a switch are not listed at its datacenter."""
    record = create({"what": "play.yml", "approved": {"steps": [{"target": vars(VM), "summary": "do", **sent_to}]}})
    record.begin("s1", act(VM, "power-on", "do"), ())
    at = sent_to.get("source") or sent_to.get("cluster") or sent_to["on"] or "Folder:group-n7"
    vcenter = VCenter({at: ["Task:theirs"]}, theirs=["running", "success"])
    vcenter.resolve_path = lambda ref, path: "Folder:group-n7"
    said = []
    unfinished_tasks.await_tasks(World(vcenter), record, said.append)
    assert vcenter.tasks["theirs"] == ["success"]
    assert rules_of(said) == ["wait.task"]


@pytest.mark.parametrize("ended", ["done", "failed", "skipped"])
def test_a_step_that_was_seen_to_end_is_not_asked_about(ended):
    vcenter = VCenter({VM.ref: ["Task:reconfigure"]}, reconfigure=["running"])
    unfinished_tasks.await_tasks(World(vcenter), a_change(ended=ended), ignore)


def test_a_task_that_vcenter_has_forgotten_has_ended():
    unfinished_tasks.await_tasks(World(VCenter(reconfigure=[None])), a_change(), ignore)


def test_nothing_is_planned_beside_a_task_that_does_not_end(monkeypatch):
    monkeypatch.setattr(unfinished_tasks, "LONGEST_TASK", 0.3)
    record = a_change()
    with refused(OutcomeUnknown, "outcome.unknown", "train-01", record.id):
        unfinished_tasks.await_tasks(World(VCenter(reconfigure=["running"])), record, ignore)


# -- maintenance mode


def an_entry(task="Task:own"):
    """A run that was cut off while a host was to enter maintenance mode."""
    record = create({"what": "play.yml", "approved": {"steps": [{"target": vars(HOST)}]}})
    all_pending = (Pending("maintenance", HOST), Pending("gate", HOST), Pending("off", VM))
    record.begin("s1", act(HOST, "enter-maintenance", "enter maintenance mode"), all_pending)
    if task:
        record.submitted("s1", task)
    return record


def entering(**tasks):
    """A vCenter in which these tasks bring a host into maintenance mode."""
    vcenter = VCenter({HOST.ref: [f"Task:{name}" for name in tasks]}, **tasks)
    read = vcenter.read_objects

    def read_objects(refs, paths):
        found = read(refs, paths)
        return {r: replace(f, properties={**f.properties, "info.descriptionId": "HostSystem.enterMaintenanceMode"})
                for r, f in found.items()}  # fmt: skip

    vcenter.read_objects = read_objects
    return vcenter


def test_a_host_that_another_user_brings_into_maintenance_mode_is_not_changed():
    """Our own order failed before the run was killed, so the host is not ours to call back or to reboot."""
    vcenter, record = entering(own=["error"], foreign=["running"]), an_entry()
    quiesce._stay_out(World(vcenter), record)
    assert vcenter.calls == []
    assert [d.kind for d in record.pending()] == ["off"]


@pytest.mark.parametrize("task", ["Task:own", ""])
def test_our_own_order_is_called_back(task):
    vcenter, record = entering(own=[*["running"] * 4, "error"]), an_entry(task)
    quiesce._stay_out(World(vcenter), record)
    assert vcenter.calls == [("Task:own", "CancelTask")]
    assert [d.kind for d in record.pending()] == ["maintenance", "gate", "off"], "what became of it is read afterwards"


# -- SSH


@pytest.mark.parametrize(
    ("kind", "detail", "rule", "what"),
    [("ssh-on", "", "ssh.not-started", "SSH"), ("service", "ntpd", "service.not-started", "ntpd")],
)
def test_a_host_that_does_not_answer_keeps_its_pending_action_and_holds_up_no_other(kind, detail, rule, what):
    said = []

    class Away(Executor):
        def switch_ssh(self, host, *, running):
            self.waits.append(host)
            if host == HOST:
                raise Unreachable("it is notResponding")

        def start_service(self, host, key):
            assert key == "ntpd"
            self.switch_ssh(host, running=True)

    record, executor = create(), Away()
    for host in (HOST, OTHER):
        record.add_pending(Pending(kind, host, detail))
    assert quiesce._start_again(executor, record, said.append) == (Pending(kind, HOST, detail),)
    assert executor.waits == [HOST, OTHER]
    assert record.pending() == (Pending(kind, HOST, detail),)
    assert said == [Remark(rule, f"{what} of esx01 cannot be started again: it is notResponding")]
