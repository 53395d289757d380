"""The lab's record of what clients ask for: calls, bytes, and of how many objects a property was read."""

from __future__ import annotations

import pytest
from pyVmomi import vmodl

Collector = vmodl.query.PropertyCollector


def read(soap, objects, *paths):
    kind = type(objects[0])
    wanted = Collector.PropertySpec(type=kind, all=False, pathSet=list(paths))
    spec = Collector.FilterSpec(objectSet=[Collector.ObjectSpec(obj=o) for o in objects], propSet=[wanted])
    return soap.content.propertyCollector.RetrieveContents([spec])


def test_what_was_read_is_counted_by_object_and_property(lab, soap):
    vms = [soap.vm(f"train-0{n}") for n in (1, 2, 3)]
    read(soap, vms, "name")
    before = lab.get("/lab/traffic")
    read(soap, vms, "config.hardware.device", "runtime.powerState")
    read(soap, vms[:1], "runtime.powerState")
    after = lab.get("/lab/traffic")
    now, then = after["read"]["VirtualMachine"], before["read"]["VirtualMachine"]
    assert now["config.hardware.device"] == then.get("config.hardware.device", 0) + 3
    assert now["runtime.powerState"] == then.get("runtime.powerState", 0) + 4
    assert after["calls"]["RetrieveProperties"] == before["calls"].get("RetrieveProperties", 0) + 2
    assert after["bytes"]["RetrieveProperties"] - before["bytes"].get("RetrieveProperties", 0) > 1000


def test_a_call_that_is_refused_is_a_call(lab, soap):
    before = lab.get("/lab/traffic")["calls"].get("PowerOffVM_Task", 0)
    soap.wait(soap.vm("train-01").PowerOffVM_Task())
    assert lab.get("/lab/traffic")["calls"]["PowerOffVM_Task"] == before + 1
    soap.content.sessionManager.Logout()
    with pytest.raises(soap.vim.fault.NotAuthenticated):
        soap.content.sessionManager.Logout()
    assert lab.get("/lab/traffic")["calls"]["Logout"] == 2


def test_a_reset_begins_anew(lab, soap):
    soap.vm("train-01")
    lab.post("/lab/reset")
    assert lab.get("/lab/traffic") == {"calls": {}, "bytes": {}, "read": {}}
