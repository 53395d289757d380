"""Alarms in the lab: raised on a host, shown above it, acknowledged, cleared; and the one a reboot raises."""

from __future__ import annotations

import pytest
from pyVmomi import vmodl

MEMORY = "Host memory usage"


@pytest.fixture
def raised(lab, soap):
    """A red alarm on esx01."""
    lab.set_faults(f"- {{on: RetrieveHardwareUptime, do: {{raise-alarm: {MEMORY}}}}}\n")
    host = soap.host("esx01")
    host.RetrieveHardwareUptime()
    lab.clear_faults()
    return host


def cluster(soap):
    return soap.find(soap.vim.ClusterComputeResource, "gpu-a")


def clear(soap, **which):
    soap.content.alarmManager.ClearTriggeredAlarms(soap.vim.alarm.AlarmFilterSpec(**which))


def test_a_farm_begins_without_alarms(soap):
    assert soap.host("esx01").triggeredAlarmState == cluster(soap).triggeredAlarmState == []
    assert soap.host("esx01").overallStatus == "green"


def test_an_alarm_shows_on_its_host_and_above_it(soap, raised):
    (state,) = raised.triggeredAlarmState
    assert (state.overallStatus, state.entity, state.acknowledged) == ("red", raised, False)
    assert state.alarm.info.name == MEMORY
    assert raised.overallStatus == raised.summary.overallStatus == "red"
    for above in (cluster(soap), soap.content.rootFolder):
        assert [s.key for s in above.triggeredAlarmState] == [state.key]
    assert soap.host("esx02").triggeredAlarmState == []
    assert state.alarm in soap.content.alarmManager.GetAlarm(None)
    assert soap.content.alarmManager.GetAlarm(raised) == []


def test_an_alarm_that_is_red_already_keeps_its_time(lab, soap, raised):
    before = raised.triggeredAlarmState[0].time
    lab.set_faults(f"- {{on: RetrieveHardwareUptime, do: {{raise-alarm: {MEMORY}}}}}\n")
    raised.RetrieveHardwareUptime()
    assert [s.time for s in raised.triggeredAlarmState] == [before]


def test_an_acknowledged_alarm_stays_red(soap, raised):
    (state,) = raised.triggeredAlarmState
    manager = soap.content.alarmManager
    manager.AcknowledgeAlarm(state.alarm, raised)
    manager.AcknowledgeAlarm(state.alarm, raised)
    (now,) = raised.triggeredAlarmState
    assert (now.overallStatus, now.acknowledged, now.time) == ("red", True, state.time)
    assert now.acknowledgedByUser == "administrator@vsphere.local"
    assert [c for c in soap.calls() if c[1] == "AcknowledgeAlarm"] == [("esx01.lab.local", "AcknowledgeAlarm")]
    with pytest.raises(vmodl.fault.InvalidArgument):
        manager.AcknowledgeAlarm(state.alarm, soap.host("esx02"))


def test_cleared_alarms_are_gone_and_red_again_is_new(lab, soap, raised):
    before = raised.triggeredAlarmState[0].time
    clear(soap, status=["yellow"])
    clear(soap, typeEntity="entityTypeVm")
    assert len(raised.triggeredAlarmState) == 1
    clear(soap, status=["red"])
    assert raised.triggeredAlarmState == []
    assert raised.overallStatus == "green"
    lab.set_faults(f"- {{on: RetrieveHardwareUptime, do: {{raise-alarm: {MEMORY}}}}}\n")
    raised.RetrieveHardwareUptime()
    assert raised.triggeredAlarmState[0].time > before


def test_a_host_that_does_not_respond_has_an_alarm_until_it_is_back(soap):
    host = soap.host("esx01")
    soap.wait(host.RebootHost_Task(True))
    (state,) = soap.until(lambda: host.triggeredAlarmState)
    assert state.alarm.info.name == "Host connection and power state"
    clear(soap)  # what it is about has not changed
    assert len(host.triggeredAlarmState) == 1
    soap.until(lambda: host.runtime.connectionState == "connected")
    assert host.triggeredAlarmState == []
    assert host.overallStatus == "green"
