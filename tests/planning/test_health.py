"""The health gate: what is not well with a host after its turn, and until when it may become well."""

from __future__ import annotations

import json

import pytest
from support.acting import Clock, Shells, lifecycle, on_clock
from support.estates import ESX1, ESX2, gpu_info, vm
from support.raising import refused

from vsphere_ai.errors import HostUnhealthy, StepFailed
from vsphere_ai.execution.actions import context
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.steps import Healthy, RunningVm
from vsphere_ai.planning.document import Approved, plain
from vsphere_ai.planning.scheduling.health import Alarm, HostBefore

GPUS = tuple(gpu_info(p) for p in ("0000:3b:00.0", "0000:86:00.0"))
WELL = {"runtime.connectionState": "connected", "runtime.inMaintenanceMode": False, "config.graphicsInfo": GPUS}
ON = {"runtime.powerState": "poweredOn", "runtime.host": ESX1.ref}
RED = {"key": "alarm-1.host-1", "alarm": "Alarm:alarm-1", "overallStatus": "red", "time": "2026-01-01T00:00:00+00:00"}
OLD = Alarm("alarm-1.host-1 2026-01-01T00:00:00+00:00", "Alarm:alarm-1", "Fan")


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    on_clock(monkeypatch, context, clock)
    return clock


class World:
    """Answers reads of one host (from a list, the last one stays), of VMs and of alarms."""

    def __init__(self, *hosts, vms=None, alarms=None):
        self.hosts, self.vms, self.alarms = list(hosts), vms or {}, alarms

    def read_objects(self, refs, paths):
        if "HostSystem" in paths:
            now = self.hosts.pop(0) if len(self.hosts) > 1 else self.hosts[0]
            return {ESX1.ref: Facts(ESX1.ref, now)}
        if "Alarm" in paths:
            if self.alarms is None:
                raise StepFailed("no")
            return {r: Facts(r, {"info.name": self.alarms[r]}) for r in refs}
        return {r: Facts(r, self.vms[r]) for r in refs if r in self.vms}


def gate(world, *, alarms=(), maintenance=False, vms=(), limit=30, found=True):
    """Pass the gate; return what was said meanwhile."""
    said = []
    known = {ESX1.ref: HostBefore(ESX1, 2, alarms)} if found else {}
    acting = StepExecutor(Context(world, Shells(), lambda target: (), {ESX1.ref: 2}, {}, found=known))
    options = {"timeout": limit, "maintenance": maintenance, "vms": vms}
    acting.do(Healthy(target=ESX1, summary="", **options), said.append)
    return said


def unhealthy(world, **more):
    with pytest.raises(HostUnhealthy) as caught:
        gate(world, **more)
    assert caught.value.remedy
    return caught.value.message


def test_a_host_as_it_was_is_healthy(clock):
    assert gate(World(WELL)) == []
    assert gate(World({**WELL, "runtime.inMaintenanceMode": True}), maintenance=True) == []
    assert gate(World(WELL), found=False) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"runtime.connectionState": "notResponding"}, "it is notResponding"),
        ({"runtime.connectionState": None}, "it is gone"),
        ({"runtime.inMaintenanceMode": True}, "it is in maintenance mode"),
        ({"config.graphicsInfo": GPUS[:1]}, "it shows 1 of 2 GPUs"),
        ({"config.graphicsInfo": ()}, "it shows 0 of 2 GPUs"),
        ({"triggeredAlarmState": (RED,)}, "the alarm 'Fan' is red"),
    ],
)
def test_what_is_not_as_it_was_is_said_after_the_deadline(clock, change, words):
    now = {k: v for k, v in {**WELL, **change}.items() if v is not None}
    assert words in unhealthy(World(now, alarms={"Alarm:alarm-1": "Fan"}))
    assert sum(clock.pauses) == pytest.approx(30)


def test_a_host_that_was_in_maintenance_has_to_be_in_it(clock):
    assert "it is not in maintenance mode any more" in unhealthy(World(WELL), maintenance=True)


def test_it_may_become_well_until_the_deadline(clock):
    said = gate(World({**WELL, "config.graphicsInfo": ()}, {**WELL, "triggeredAlarmState": (RED,)}, WELL))
    assert [line.rpartition(",")[0] for line in said] == ["it shows 0 of 2 GPUs", "a red alarm"]


# -- alarms


@pytest.mark.parametrize(
    ("state", "new"),
    [
        (RED, False),
        ({**RED, "acknowledged": True}, False),
        ({**RED, "time": "2026-01-01T00:00:01+00:00"}, True),  # it recovered, and is red again
        ({**RED, "key": "alarm-2.host-1"}, True),
        ({**RED, "key": "alarm-2.host-1", "overallStatus": "yellow"}, False),
    ],
)
def test_only_an_alarm_that_went_red_since_counts(clock, state, new):
    world = World({**WELL, "triggeredAlarmState": (state,)}, alarms={"Alarm:alarm-1": "Fan"})
    if new:
        assert "the alarm 'Fan' is red" in unhealthy(world, alarms=(OLD,))
    else:
        assert gate(world, alarms=(OLD,)) == []


def test_an_alarm_whose_name_cannot_be_read_is_named_by_its_reference(clock):
    assert "the alarm 'Alarm:alarm-1' is red" in unhealthy(World({**WELL, "triggeredAlarmState": (RED,)}))


def test_what_was_found_survives_the_journal():
    found = HostBefore(ESX1, 2, (OLD,))
    assert Approved.model_validate(json.loads(json.dumps({"impact": {"found": [plain(found)]}}))).impact.found == (
        found,
    )


# -- VMs

OURS = (RunningVm(vm(1).ref, "train-01", stays=True),)
FREE = (RunningVm(vm(1).ref, "train-01", stays=False),)


@pytest.mark.parametrize(
    ("vms", "now", "words"),
    [
        (OURS, {vm(1).ref: ON}, ""),
        (OURS, {vm(1).ref: {**ON, "runtime.powerState": "poweredOff"}}, "train-01 is poweredOff"),
        (OURS, {vm(1).ref: {**ON, "runtime.host": ESX2.ref}}, "train-01 runs on another host"),
        (FREE, {vm(1).ref: {**ON, "runtime.host": ESX2.ref}}, ""),
        (OURS, {}, "train-01 is gone from the inventory"),
    ],
)
def test_vms_that_were_switched_off_run_again(clock, vms, now, words):
    world = World(WELL, vms=now)
    if words:
        assert words in unhealthy(world, vms=vms)
    else:
        assert gate(world, vms=vms) == []


# -- before a host goes out of service, and before it comes back


def before(world, action, found=True, **options):
    known = {ESX1.ref: HostBefore(ESX1, 2)} if found else {}
    acting = StepExecutor(Context(world, Shells(), lambda target: (), {}, {}, found=known))
    return acting.before(lifecycle(action, **options))


def test_a_host_that_somebody_else_took_is_not_taken_over(clock):
    taken = World({"runtime.inMaintenanceMode": True})
    with refused(HostUnhealthy, "host.in-maintenance", "esx01"):
        before(taken, "enter-maintenance", begun=False)
    assert before(taken, "enter-maintenance", begun=True) == ""
    assert before(World(WELL), "enter-maintenance", begun=False) == ""


def test_a_host_that_lost_a_gpu_does_not_leave_maintenance(clock):
    lost = {"config.graphicsInfo": GPUS[:1]}
    with refused(HostUnhealthy, "host.gpus-missing", "esx01", "1 of 2 GPUs"):
        before(World(lost), "exit-maintenance", settle=20)
    assert sum(clock.pauses) == pytest.approx(20)
    assert before(World(lost, WELL), "exit-maintenance", settle=20) == ""
    assert before(World(lost), "exit-maintenance", found=False) == ""
