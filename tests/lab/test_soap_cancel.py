"""Cancelling tasks, as the API reference has it: once, while they last, and only where that is possible."""

import pytest
from pyVmomi import vim, vmodl


def entering(soap, host, timeout=60):
    """A host on its way into maintenance mode that never gets there: a VM on it is not moved."""
    soap.lab.post("/lab/faults", {"rules": [{"on": "EnterMaintenanceMode_Task", "do": {"task-stuck": 20}}]})
    task = host.EnterMaintenanceMode_Task(timeout)
    soap.until(lambda: task.info.progress == 20)
    return task


def test_a_task_is_cancelled_once_and_ends_with_request_canceled(soap):
    host = soap.host("esx01")
    task = entering(soap, host)
    assert task.info.cancelable
    task.CancelTask()
    assert task.info.cancelled
    with pytest.raises(vim.fault.InvalidState):
        task.CancelTask()
    with pytest.raises(vmodl.fault.RequestCanceled):
        soap.wait(task)
    with pytest.raises(vim.fault.InvalidState):
        task.CancelTask()
    assert not host.runtime.inMaintenanceMode
    assert soap.calls() == []


def test_a_task_that_was_cancelled_in_the_queue_does_not_begin(soap):
    soap.lab.post("/lab/faults", {"rules": [{"on": "EnterMaintenanceMode_Task", "do": {"task-stuck": "queued"}}]})
    host = soap.host("esx03")
    task = host.EnterMaintenanceMode_Task(60)
    soap.until(lambda: task.info.state == "queued")
    task.CancelTask()
    with pytest.raises(vmodl.fault.RequestCanceled):
        soap.wait(task)
    assert not host.runtime.inMaintenanceMode


def test_a_migration_under_way_is_given_up_with_its_task(make_lab, new_client, quick_scenario):
    text = quick_scenario.read_text("utf-8").replace("vmotion_seconds: 0.02", "vmotion_seconds: 30")
    soap = new_client(make_lab(text))
    task = soap.host("esx01").EnterMaintenanceMode_Task(60)
    soap.until(lambda: task.info.state == "running")
    task.CancelTask()
    with pytest.raises(vmodl.fault.RequestCanceled):
        soap.wait(task, 5)
    assert soap.calls() == []
    assert soap.vm("train-01").runtime.host == soap.host("esx01")


def test_what_cannot_be_cancelled_says_so(soap):
    soap.lab.post("/lab/faults", {"rules": [{"on": "PowerOffVM_Task", "do": {"task-stuck": "queued"}}]})
    task = soap.vm("train-01").PowerOffVM_Task()
    assert not task.info.cancelable
    with pytest.raises(vmodl.fault.NotSupported):
        task.CancelTask()
    soap.lab.post("/lab/faults", {"rules": []})
    soap.wait(task)
