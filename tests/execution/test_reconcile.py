"""Lost answers, busy targets and foreign changes: what is sent again, what is waited for, what is left to people."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from support.acting import VM, Clock, Server, Shells, executor, on_clock
from support.estates import ESX1, pvrdma_device, vgpu_device
from support.raising import refused

from vsphere_ai.errors import (
    ConcurrentChange,
    Conflict,
    Denied,
    OutcomeUnknown,
    OutOfSight,
    StepFailed,
    Unreachable,
    VimFault,
)
from vsphere_ai.execution.actions import context, task_progress
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.model.facts import CommandOutput, Facts
from vsphere_ai.model.state import FieldChange
from vsphere_ai.model.steps import Invoke, Reboot, Reconfigure, Shell
from vsphere_ai.model.three_way import holds
from vsphere_ai.planning.planner import PlanItem

LEFT = PlanItem(VM, "vgpu", (FieldChange("profiles", (), ("a",)),))
LOST = OutcomeUnknown("sent, but the answer was lost")
UPGRADE = Invoke(target=VM, summary="", kinds=("vgpu",), method="UpgradeVM_Task")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    on_clock(monkeypatch, context, clock)
    monkeypatch.setattr(task_progress, "time", clock)
    return clock


class Busy(Server):
    """A server that refuses calls with each of the given errors in turn; tasks run for as many looks as given."""

    def __init__(self, *refusals, readings=({},), tasks=()):
        super().__init__(*readings)
        self.refusals, self.tasks = list(refusals), list(tasks)
        self.looks = 0

    def read_objects(self, refs, paths):
        if list(paths) == ["Task"]:
            self.looks += 1
            state = "running" if self.looks <= len(self.tasks) else "success"
            return {r: Facts(r, {"info.state": state}) for r in refs}
        found = super().read_objects(refs, paths)
        if self.tasks:
            found = {r: Facts(r, {**f.properties, "recentTask": self.tasks[:1]}) for r, f in found.items()}
        return found

    def run_task(self, ref, method, args=None, *, timeout, progress=None):
        super().run_task(ref, method, args, timeout=timeout, progress=progress)
        if self.refusals and (error := self.refusals.pop(0)):
            raise error


def acting(server, *left):
    """Deeds whose reading back finds each of `left` in turn (the last one stays)."""
    given = list(left)

    def read_back(target, but_last):
        return given.pop(0) if len(given) > 1 else given[0]

    return executor(server, left=read_back)


def fault(name):
    return VimFault(f"refused: {name}", "", {"_typeName": name})


# -- lost answers


def test_an_effect_that_is_there_is_adopted(clock):
    server = Busy(LOST)
    acting(server, (LEFT,), (LEFT,), ()).do(UPGRADE, print)
    assert len(server.calls) == 1
    assert 0 < sum(clock.pauses) < 15


def test_what_did_not_happen_is_done_again_after_a_calm_time(clock):
    server = Busy(LOST)
    acting(server, (LEFT,)).do(UPGRADE, print)
    assert len(server.calls) == 2
    assert 15 <= sum(clock.pauses) < 20


def test_a_running_task_is_waited_for_before_anything_is_done_again(clock):
    server = Busy(LOST, tasks=["Task:task-9"] * 20)
    said = []
    acting(server, (LEFT,)).do(UPGRADE, said.append)
    assert "task-9 is still running on vm1" in " ".join(said).replace(VM.name, "vm1")
    assert len(server.calls) == 2
    assert sum(clock.pauses) > 15 + 20


class Elsewhere(Busy):
    """Tasks run on the switch a step is sent to, not on the step's target."""

    SWITCH = "VmwareDistributedVirtualSwitch:dvs-1"

    def read_objects(self, refs, paths):
        if refs == [self.SWITCH]:
            return {self.SWITCH: Facts(self.SWITCH, {"recentTask": ("Task:task-9",)})}
        found = super().read_objects(refs, paths)
        return found if list(paths) == ["Task"] else {r: Facts(r) for r in found}


def test_a_task_on_what_the_step_is_sent_to_is_waited_for_too(clock):
    server = Elsewhere(LOST, tasks=["Task:task-9"] * 20)
    acting(server, (LEFT,)).do(
        Invoke(target=VM, summary="", kinds=("vgpu",), method="ReconfigureDvs_Task", on=Elsewhere.SWITCH), print
    )
    assert sum(clock.pauses) > 15 + 20


def test_a_task_whose_time_was_over_is_not_done_beside(clock):
    server = Busy(OutcomeUnknown("not ended", task="Task:task-9"), tasks=["Task:task-9"] * 1000)
    with pytest.raises(OutcomeUnknown, match="not ended"):
        acting(server, (LEFT,)).do(UPGRADE, print)
    assert len(server.calls) == 1
    assert sum(clock.pauses) < 30


def test_a_host_that_is_not_connected_shows_nothing_new(clock):
    readings = [{"runtime.connectionState": "notResponding"}] * 30 + [{"runtime.connectionState": "connected"}]
    server = Busy(LOST, readings=readings)
    acting(server, (LEFT,)).do(UPGRADE, print)
    assert len(server.calls) == 2
    assert sum(clock.pauses) > 45


def test_a_second_lost_answer_is_resolved_as_well():
    server = Busy(LOST, LOST)
    acting(server, (LEFT,)).do(UPGRADE, print)
    assert len(server.calls) == 3


def test_answers_that_keep_getting_lost_are_unknown():
    server = Busy(LOST, LOST, LOST)
    with pytest.raises(OutcomeUnknown):
        acting(server, (LEFT,)).do(UPGRADE, print)
    assert len(server.calls) == 3


@pytest.mark.parametrize(
    ("error", "kind", "code"), [(Unreachable("gone"), OutOfSight, 5), (Denied("expired"), OutcomeUnknown, 9)]
)
def test_a_vcenter_that_cannot_be_asked_leaves_the_outcome_open(error, kind, code):
    server = Busy(LOST, readings=[error])
    with pytest.raises(kind) as caught:
        acting(server, (LEFT,)).do(UPGRADE, print)
    assert caught.value.exit_code == code
    assert error.message in caught.value.message
    assert "resume" in caught.value.remedy


def test_a_gpu_instance_is_never_made_twice(clock):
    shells = Shells(LOST)
    step = Shell(target=ESX1, summary="", kinds=("mig",), argv=("nvidia-smi", "mig", "-cgi", "9"))
    left = PlanItem(ESX1, "mig", (FieldChange("layout", (), ("a",)),))
    with pytest.raises(OutcomeUnknown):
        executor(Server({}), shells, left=lambda *_: (left,)).do(step, print)
    assert len(shells.ran) == 1


def mig(*words, gpu="00000000:3B:00.0"):
    return Shell(target=ESX1, summary="", kinds=("mig",), argv=("nvidia-smi", "mig", "-i", gpu, *words))


GONE, NEXT, MADE = mig("-dci", "-gi", "3", "-ci", "0"), mig("-dgi", "-gi", "3"), mig("-cgi", "19:0,19:1", "-C")
REST = mig("-cgi", "19:1", "-C")
BESIDE = mig("-dgi", "-gi", "3", gpu="00000000:86:00.0")
RAN = CommandOutput(0, "done")


@pytest.mark.parametrize(
    ("step", "left", "ran"),
    [
        (GONE, (NEXT, MADE), 1),
        (GONE, (GONE, NEXT, MADE), 2),
        (NEXT, (MADE,), 1),
        (NEXT, (BESIDE, MADE), 1),
        (NEXT, (BESIDE, NEXT, MADE), 2),
        (MADE, (), 1),
        (MADE, (BESIDE,), 1),
        (MADE, (MADE,), 2),
        # what does not say it is left to people
        (NEXT, (GONE, NEXT, MADE), 0),
        (MADE, (REST,), 0),
        (MADE, (NEXT, MADE), 0),
        (NEXT, None, 0),
        (MADE, Unreachable("gone"), 0),
        (MADE, Denied("no"), 0),
    ],
)
def test_a_lost_command_about_instances_is_judged_by_what_would_have_to_be_done_now(clock, step, left, ran):
    def again(_target):
        if isinstance(left, Exception):
            raise left
        return left

    shells = Shells(LOST, RAN)
    item = PlanItem(ESX1, "mig", (FieldChange("layout", (), ("a",)),))
    acting = StepExecutor(Context(Server({}), shells, lambda *_: (item,), {ESX1.ref: 2}, {}, again=again))
    if ran:
        acting.do(step, print)
        assert len(shells.ran) == ran
    else:
        with pytest.raises(OutcomeUnknown):
            acting.do(step, print)
        assert len(shells.ran) == 1
    assert (sum(clock.pauses) >= 15) == (ran != 1 and not isinstance(left, Exception)), "a calm time comes first"


# -- busy targets


@pytest.mark.parametrize("name", ["TaskInProgress", "HostCommunication", "FailToLockFaultToleranceVMs"])
def test_what_passes_is_waited_for(clock, name):
    server, said = Busy(fault(name), fault(name)), []
    acting(server, ()).do(UPGRADE, said.append)
    assert len(server.calls) == 3
    assert any("trying again" in line for line in said)
    assert clock.pauses[0] == 2.0


def test_what_does_not_pass_is_given_up_after_ten_minutes(clock):
    server = Busy(*[fault("TaskInProgress")] * 1000)
    with refused(StepFailed, "fault.TaskInProgress"):
        acting(server, ()).do(UPGRADE, print)
    assert 570 < sum(clock.pauses) <= 600.1
    assert max(clock.pauses) <= 30


@pytest.mark.parametrize("name", ["InvalidArgument", "InvalidState", "HostNotConnected", "NotSupported"])
def test_what_will_not_pass_is_not_tried_again(clock, name):
    server = Busy(fault(name))
    with pytest.raises(StepFailed):
        acting(server, ()).do(UPGRADE, print)
    assert len(server.calls) == 1
    assert clock.pauses == []


def test_a_reboot_whose_host_did_not_answer_is_not_asked_for_again():
    server = Busy(fault("HostCommunication"), readings=[{"runtime.inMaintenanceMode": True}])
    with pytest.raises(StepFailed):
        acting(server, ()).do(Reboot(target=ESX1, summary="", via="api"), print)
    assert len(server.calls) == 1


# -- tasks that stand still


def stalled(server_progress, clock):
    class Slow(Server):
        def run_task(self, ref, method, args=None, *, timeout, progress=None):
            for percent in server_progress:
                clock.now += 8
                progress(percent)

    said, noticed = [], []
    StepExecutor(Context(Slow({}), Shells(), lambda *_: (), {}, {}, notice=noticed.append)).do(UPGRADE, said.append)
    return said, noticed


def test_a_task_that_stands_still_is_noticed_every_two_minutes(clock):
    _, noticed = stalled([20] * 40, clock)
    assert len(noticed) == 2
    assert noticed[0] == (
        f"{VM.name}: UpgradeVM stands at 20% for 120 s; vCenter goes on with it, and it is waited for"
    )


def test_a_task_that_is_not_begun_is_noticed(clock):
    _, noticed = stalled([None] * 16, clock)
    assert "is not begun yet for 128 s" in noticed[0] or "is not begun yet for 120 s" in noticed[0]


def test_a_task_that_moves_is_not_noticed(clock):
    said, noticed = stalled([n // 4 for n in range(400)], clock)
    assert noticed == []
    assert said[-1] == "99%"


# -- foreign changes


def planned(server, **properties):
    return StepExecutor(Context(server, Shells(), lambda *_: (), {}, {}, planned={VM.ref: Facts(VM.ref, properties)}))


DEVICES = "config.hardware.device"
ADD = {"_typeName": "VirtualDeviceConfigSpec", "operation": "add", "device": {"_typeName": "VirtualPCIPassthrough"}}
STEP = Reconfigure(target=VM, summary="", kinds=("vgpu",), device_changes=(ADD,), spec={"firmware": "efi"},
                   extra_config=(("k", "1"),))  # fmt: skip
THEN = {DEVICES: (vgpu_device(13000, "a"), pvrdma_device(4000)), "config.firmware": "bios",
        "config.extraConfig": ({"_typeName": "OptionValue", "key": "other", "value": "x"},),
        "config.changeVersion": "1"}  # fmt: skip


def test_each_refusal_reads_again_and_sends_the_new_version():
    readings = [{**THEN, "config.changeVersion": str(n)} for n in range(1, 5)]
    server = Busy(ConcurrentChange("x"), ConcurrentChange("x"), ConcurrentChange("x"), readings=readings)
    planned(server, **THEN).do(STEP, print)
    assert [c[2]["spec"]["changeVersion"] for c in server.calls] == ["1", "2", "3", "4"]


def test_after_four_refusals_it_is_a_conflict():
    server = Busy(*[ConcurrentChange("x")] * 9, readings=[THEN])
    with refused(Conflict, "object.keeps-changing", 4) as caught:
        planned(server, **THEN).do(STEP, print)
    assert len(server.calls) == 4
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ({DEVICES: (vgpu_device(13000, "b"), pvrdma_device(4000))}, "VirtualPCIPassthrough devices is b, was a"),
        ({DEVICES: (vgpu_device(13000, "a"), vgpu_device(13001, "a"), pvrdma_device(4000))}, "is a ×2, was a"),
        ({DEVICES: (pvrdma_device(4000),)}, "devices is none, was a"),
        ({"config.firmware": "efi"}, "firmware is efi, was bios"),
        ({"config.extraConfig": ({"_typeName": "OptionValue", "key": "k", "value": "0"},)}, "k is 0, was none"),
    ],
)
def test_what_differs_from_what_was_planned_is_shown_and_nothing_is_sent(now, says):
    server = Busy(readings=[{**THEN, **now}])
    with refused(Conflict, "object.changed", says) as caught:
        planned(server, **THEN).do(STEP, print)
    assert server.calls == []
    assert VM.name in caught.value.message


@pytest.mark.parametrize(
    "now",
    [
        {DEVICES: (vgpu_device(13000, "a"),)},  # an adapter is gone, which this step is not about
        {"config.extraConfig": ({"_typeName": "OptionValue", "key": "other", "value": "y"},)},
        {"config.annotation": "new"},
    ],
)
def test_what_a_step_is_not_about_may_change(now):
    server = Busy(readings=[{**THEN, **now}])
    planned(server, **THEN).do(STEP, print)
    assert len(server.calls) == 1


def test_an_effect_that_comes_at_the_last_moment_is_not_a_conflict():
    class Deferred(Busy):
        landed = False

        def read_objects(self, refs, paths):
            asked_again = self.calls and DEVICES in next(iter(paths.values()))
            self.landed = self.landed or bool(asked_again)
            self.readings = [{**THEN, "config.firmware": "efi"} if self.landed else THEN]
            return super().read_objects(refs, paths)

    server = Deferred(LOST, readings=[THEN])
    facts = {VM.ref: Facts(VM.ref, THEN)}
    StepExecutor(Context(server, Shells(), lambda *_: () if server.landed else (LEFT,), {}, {}, planned=facts)).do(
        STEP, print
    )
    assert server.landed
    assert len(server.calls) == 1


GRAPHICS = {"_typeName": "HostGraphicsConfig", "hostDefaultGraphicsType": "shared"}
WANTED = {"_typeName": "HostGraphicsConfig", "hostDefaultGraphicsType": "sharedDirect"}


def graphics(now):
    server = Server({"config.graphicsConfig": now})
    means_ = Context(server, Shells(), lambda *_: (), {}, {},
                   planned={ESX1.ref: Facts(ESX1.ref, {"config.graphicsConfig": GRAPHICS})})  # fmt: skip
    step = Invoke(target=ESX1, summary="", path="configManager.graphicsManager", method="UpdateGraphicsConfig",
                  args={"config": WANTED})  # fmt: skip
    StepExecutor(means_).do(step, print)
    return server.calls


def test_graphics_are_replaced_only_where_they_are_as_planned():
    assert len(graphics(GRAPHICS)) == 1
    assert graphics({**WANTED, "more": 1}) == [], "set already, by the call whose answer was lost"
    with refused(Conflict, "object.changed", "graphicsConfig"):
        graphics({**GRAPHICS, "sharedPassthruAssignmentPolicy": "consolidation"})


@pytest.mark.parametrize(
    ("now", "wanted", "held"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 2}, {"a": 1}, False),
        (({"a": 1, "b": 1},), ({"a": 1},), True),
        (({"a": 1}, {"a": 1}), ({"a": 1},), False),
        (None, {"a": 1}, False),
        (1, (1,), False),
    ],
)
def test_having_everything_that_is_wanted(now, wanted, held):
    assert holds(now, wanted) is held


# -- names of operations


def test_a_step_is_done_within_its_name():
    seen = []

    @contextmanager
    def within(name):
        seen.append(name)
        yield
        seen.append("end")

    StepExecutor(Context(Server({}), Shells(), lambda *_: (), {}, {}, within=within)).do(UPGRADE, print, "s007")
    assert seen == ["s007", "end"]
