"""What the lab writes by plan is what pyVmomi's serializer writes, to the letter."""

from __future__ import annotations

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

from vsphere_ai.lab import writer
from vsphere_ai.lab.build import build
from vsphere_ai.lab.front.shortcuts import take
from vsphere_ai.lab.scenario_file import load
from vsphere_ai.lab.wire import element

VERSIONS = ["vim.version.v7_0_2_0", VmomiSupport.newestVersions.GetName("vim"), "vim.version.version11"]


@pytest.fixture(scope="module")
def farm():
    made = build(load(None), "secret")
    yield made
    made.close()


def written(value, declared, version, *, by_plan, monkeypatch):
    with monkeypatch.context() as patch:
        if not by_plan:
            patch.setattr(writer, "_plan", lambda _kind, _version: None)
            patch.setattr(writer, "_plan_of", lambda _kind, _version: None)
        try:
            return element(value, "v", declared, version)
        except (TypeError, AttributeError) as error:
            return str(error)


def same(value, declared, version, monkeypatch):
    one, other = (written(value, declared, version, by_plan=way, monkeypatch=monkeypatch) for way in (True, False))
    assert one == other
    return one


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_a_farm_shows_is_written_as_pyvmomi_writes_it(farm, version, monkeypatch):
    size = 0
    for mo in farm.store.objects.values():
        for name in mo.props:
            value = mo.value(name, None)
            if value is not None:
                size += len(same(value, object if not isinstance(value, list) else type(value), version, monkeypatch))
    assert size > 200_000


DEVICE = vim.vm.device
VALUES = {
    "text that has to be escaped": vim.option.OptionValue(key="<a&b>\"'ä", value="]]> & <x/>"),
    "numbers": vim.vm.ConfigSpec(numCPUs=4, memoryMB=2**40, cpuHotAddEnabled=False, npivPortWorldWideName=[1, 2**60]),
    "any": vim.option.OptionValue(key="k", value=VmomiSupport.GetVmodlType("string[]")(["a", "b"])),
    "an empty list of any": vim.option.OptionValue(key="k", value=VmomiSupport.GetVmodlType("string[]")()),
    "a reference of any": vim.option.OptionValue(key="k", value=vim.HostSystem("h-1")),
    "a derived type": vim.vm.device.VirtualDeviceSpec(device=DEVICE.VirtualVmxnet3(key=1, macAddress="a")),
    "a fault": vim.event.VmFailedToPowerOnEvent(reason=vim.fault.NoPermission(msg="no", privilegeId="a")),
    "a required field is unset": vim.vm.device.VirtualDeviceSpec(),
    "an object of any": vim.option.OptionValue(key="k", value=vim.option.OptionValue(key="l", value=5)),
    "newer than the version": DEVICE.VirtualVmxnet3Vrdma(key=1, deviceProtocol="rocev2"),
    "a type": vmodl.query.PropertyCollector.PropertySpec(type=vim.HostSystem, all=False, pathSet=["name"]),
    "a list that must not be empty": vim.host.GraphicsConfig(hostDefaultGraphicsType="shared"),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("what", VALUES)
def test_it_is_written_as_pyvmomi_writes_it(what, version, monkeypatch):
    for declared in (object, type(VALUES[what]), vmodl.DynamicData):
        assert same(VALUES[what], declared, version, monkeypatch)


def test_objects_that_are_made_in_fewer_steps_are_the_same(monkeypatch):
    kinds = [type(value) for value in VALUES.values()] + [
        vim.fault.NoPermission,
        vim.vm.ConfigInfo,
        vim.host.ConfigInfo,
    ]
    before = [vars(kind()) for kind in kinds]
    listed = [kind._GetPropertyList() for kind in kinds]
    own = [kind._GetPropertyList(False) for kind in kinds]
    for name in ("__init__", "_GetPropertyList"):
        monkeypatch.setattr(VmomiSupport.DataObject, name, vars(VmomiSupport.DataObject)[name])  # put back afterwards
    take()
    assert [vars(kind()) for kind in kinds] == before
    assert [kind._GetPropertyList() for kind in kinds] == listed
    assert [kind._GetPropertyList(False) for kind in kinds] == own
    one, other = vim.vm.ConfigSpec(), vim.vm.ConfigSpec(numCPUs=4)
    one.extraConfig.append(vim.option.OptionValue(key="a"))
    assert (one.numCPUs, other.numCPUs, other.extraConfig) == (None, 4, [])
    with pytest.raises(TypeError):
        vim.vm.ConfigSpec(numCPUs="four")
    with pytest.raises(AttributeError):
        vim.vm.ConfigSpec(numberOfCPUs=4)
