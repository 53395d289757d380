"""Vendor device groups in the lab: offered from ESXi 8.0 on, added and removed whole, placed on joined GPUs."""

from __future__ import annotations

import pytest
from pyVmomi import vim, vmodl
from support.device_groups import FOUR, PAIR, SCENARIO, WHOLE
from support.farm import device_spec, devices_of, vgpu

from vsphere_ai.errors import InputError
from vsphere_ai.lab import scenario_file

pytestmark = pytest.mark.lab
DEV = vim.vm.device
PCI = DEV.VirtualPCIPassthrough
GROUPS = vim.vm.VirtualDeviceGroups
CARD = "nvidia_h100l-94c"
WINDOW = [
    vim.option.OptionValue(key="pciPassthru.use64bitMMIO", value="TRUE"),
    vim.option.OptionValue(key="pciPassthru.64bitMMIOSizeGB", value="1024"),
]


@pytest.fixture
def connected(make_lab, new_client):
    def connect(text=SCENARIO, version="vim.version.v8_0_2_0"):
        return new_client(make_lab(text), version=version)

    return connect


def offer(soap, name="esx01"):
    return {
        g.deviceGroupName: g
        for g in soap.host(name).configManager.assignableHardwareManager.RetrieveVendorDeviceGroupInfo()
    }


def member(template, key):
    device = PCI(key=-1000, backing=template.device.backing)
    sequence = template.device.deviceGroupInfo.sequenceId
    device.deviceGroupInfo = DEV.VirtualDevice.DeviceGroupInfo(groupInstanceKey=key, sequenceId=sequence)
    return device


def adding(soap, *names, host="esx01"):
    groups, changes = [], []
    for n, name in enumerate(names):
        groups.append(GROUPS.VendorDeviceGroup(groupInstanceKey=-1 - n, deviceGroupName=name))
        changes += [device_spec(member(c, -1 - n)) for c in offer(soap, host)[name].componentDeviceInfo]
    return {
        "deviceGroups": GROUPS(deviceGroup=groups),
        "deviceChange": changes,
        "memoryReservationLockedToMax": True,
        "extraConfig": WINDOW,
    }


def off(soap, name="train-01"):
    vm = soap.vm(name)
    if vm.runtime.powerState == "poweredOn":
        soap.wait(vm.PowerOffVM_Task())
    return vm


def send(soap, vm, **spec):
    return soap.wait(vm.ReconfigVM_Task(vim.vm.ConfigSpec(**spec)))


def refused(soap, vm, fault, **spec):
    before, entries = vm.config.changeVersion, soap.calls()
    with pytest.raises(fault):
        send(soap, vm, **spec)
    assert vm.config.changeVersion == before
    assert soap.calls() == entries


def state(vm):
    listed = vm.config.deviceGroups.deviceGroup if vm.config.deviceGroups else []
    members = [(d.deviceGroupInfo.groupInstanceKey, d.backing.vgpu) for d in devices_of(vm, PCI) if d.deviceGroupInfo]
    return {g.groupInstanceKey: g.deviceGroupName for g in listed}, members


def test_what_is_offered(connected):
    soap = connected()
    pair = offer(soap)[PAIR]
    assert [(c.type, c.device.backing.vgpu) for c in pair.componentDeviceInfo] == [("nvidiaVgpu", CARD)] * 2
    assert [c.device.deviceGroupInfo.sequenceId for c in pair.componentDeviceInfo] == [1, 2]
    assert set(offer(soap)) == {PAIR, FOUR}
    whole = offer(soap, "esx02")[WHOLE].componentDeviceInfo[0]
    assert whole.type == "pciPassthru"
    assert [(a.vendorId, a.deviceId) for a in whole.device.backing.allowedDevice] == [(0x10DE, 0x2321)]
    browser = soap.vm("train-01").environmentBrowser
    listed = browser.QueryConfigTarget(soap.host("esx01")).vendorDeviceGroupInfo
    assert {g.deviceGroupName for g in listed} == {PAIR, FOUR}
    assert {g.deviceGroupName for g in browser.QueryConfigTarget(None).vendorDeviceGroupInfo} == {PAIR, FOUR, WHOLE}


def test_a_host_before_8_offers_none_and_an_older_vcenter_knows_no_such_method(connected, new_client, make_lab):
    old = SCENARIO.replace("version: 8.0.2\n    build: 22380479", "version: 7.0.3\n    build: 21930508")
    soap = connected(old.replace("hardware: 20", "hardware: 19"))
    assert offer(soap) == {}
    older = old.replace("version: 8.0.2, build: 22617221, api: 8.0.2.0", "version: 7.0.3, build: 1, api: 7.0.3.0")
    soap = new_client(make_lab(older.replace("hardware: 20", "hardware: 19")), version="vim.version.v7_0_3_0")
    manager = soap.host("esx01").configManager.assignableHardwareManager
    with pytest.raises((vmodl.fault.MethodNotFound, vmodl.fault.NotSupported)):
        manager.RetrieveVendorDeviceGroupInfo()


def test_groups_come_and_go_whole(connected):
    soap = connected()
    vm = off(soap)
    send(soap, vm, **adding(soap, PAIR, PAIR))
    groups, members = state(vm)
    assert list(groups.values()) == [PAIR, PAIR]
    assert all(key > 0 for key in groups)
    assert sorted(members) == sorted((key, CARD) for key in groups for _ in (1, 2))
    stays, goes = groups
    gone = [device_spec(d, "remove") for d in devices_of(vm, PCI) if d.deviceGroupInfo.groupInstanceKey == goes]
    kept = GROUPS.VendorDeviceGroup(groupInstanceKey=stays, deviceGroupName=PAIR)
    send(soap, vm, deviceGroups=GROUPS(deviceGroup=[kept]), deviceChange=gone)
    assert state(vm) == ({stays: PAIR}, [(stays, CARD)] * 2)
    (entry,) = [e for e in soap.lab.get("/lab/ledger")["entries"] if e["detail"].get("deviceGroups", {}).get("removed")]
    assert entry["detail"]["deviceGroups"] == {"added": [], "removed": [PAIR]}
    # without a list, a group goes with its members
    send(soap, vm, deviceChange=[device_spec(d, "remove") for d in devices_of(vm, PCI)])
    assert state(vm) == ({}, [])


def test_parts_of_a_group_are_refused(connected):
    soap = connected()
    vm = off(soap)
    spec = adding(soap, PAIR)
    refused(soap, vm, vim.fault.InvalidDeviceSpec, **{**spec, "deviceChange": spec["deviceChange"][:1]})
    refused(soap, vm, vim.fault.InvalidDeviceSpec, **{**spec, "deviceChange": []})
    refused(soap, vm, vim.fault.InvalidDeviceSpec, deviceChange=spec["deviceChange"])  # no such group
    other = PCI(key=-1, backing=PCI.VmiopBackingInfo(vgpu="nvidia_h100l-47c"))
    other.deviceGroupInfo = spec["deviceChange"][0].device.deviceGroupInfo
    refused(soap, vm, vim.fault.InvalidDeviceSpec,
            **{**spec, "deviceChange": [device_spec(other), spec["deviceChange"][1]]})  # fmt: skip
    send(soap, vm, **spec)
    (key,) = state(vm)[0]
    kept = GROUPS(deviceGroup=[GROUPS.VendorDeviceGroup(groupInstanceKey=key, deviceGroupName=PAIR)])
    one, two = devices_of(vm, PCI)
    refused(soap, vm, vim.fault.InvalidDeviceSpec, deviceChange=[device_spec(one, "remove")])
    refused(soap, vm, vim.fault.InvalidDeviceSpec, deviceGroups=kept, deviceChange=[device_spec(two, "remove")])
    refused(soap, vm, vim.fault.InvalidDeviceSpec, deviceGroups=GROUPS(deviceGroup=[]))  # its members stay
    joining = vgpu(CARD)
    joining.deviceGroupInfo = DEV.VirtualDevice.DeviceGroupInfo(groupInstanceKey=key, sequenceId=3)
    refused(soap, vm, vim.fault.InvalidDeviceSpec, deviceGroups=kept, deviceChange=[device_spec(joining)])
    # a member may not be replaced either, though its device key is used again
    again = member(offer(soap)[PAIR].componentDeviceInfo[0], key)
    refused(soap, vm, vim.fault.InvalidDeviceSpec, deviceGroups=kept,
            deviceChange=[device_spec(one, "remove"), device_spec(again)])  # fmt: skip


def test_what_cannot_be_added(connected):
    soap = connected(SCENARIO.replace("power: on, hardware: 20, network: dvpg-lan}\n", "power: on, hardware: 19}\n", 1))
    on = soap.vm("train-04")
    refused(soap, on, vim.fault.InvalidPowerState, **adding(soap, PAIR))
    vm = off(soap, "train-04")
    spec = adding(soap, PAIR)
    spec["deviceGroups"].deviceGroup[0].deviceGroupName = WHOLE  # another host has it
    refused(soap, vm, vmodl.fault.InvalidArgument, **spec)
    spec = adding(soap, PAIR)
    spec["deviceGroups"].deviceGroup[0].groupInstanceKey = 5
    refused(soap, vm, vmodl.fault.InvalidArgument, **spec)
    refused(soap, off(soap), vim.fault.GenericVmConfigFault, **adding(soap, PAIR))  # hardware version 19


def test_a_pair_gets_joined_gpus(connected):
    soap = connected()
    four, two = off(soap, "train-04"), off(soap)
    send(soap, four, **adding(soap, PAIR))
    send(soap, two, **adding(soap, PAIR))
    soap.wait(four.PowerOnVM_Task())
    soap.wait(two.PowerOnVM_Task())
    gpus = {g["pci"]: g["vms"] for h in soap.lab.get("/lab/farm")["hosts"] for g in h["gpus"] if g["vms"]}
    users = sorted(tuple(sorted(pci for pci in gpus if name in gpus[pci])) for name in ("train-01", "train-04"))
    assert users == [("0000:3b:00.0", "0000:86:00.0"), ("0000:5e:00.0", "0000:af:00.0")]


def test_without_joined_gpus_free_it_does_not_power_on(connected):
    """Two GPUs are free, but each has lost its partner to a VM with a single vGPU."""
    soap = connected()
    single, pair = off(soap, "train-04"), off(soap)
    common = {"memoryReservationLockedToMax": True, "extraConfig": WINDOW}
    send(soap, single, deviceChange=[device_spec(vgpu(CARD)), device_spec(vgpu(CARD))], **common)
    soap.wait(single.PowerOnVM_Task())  # the first two GPUs in order: one of each pair
    send(soap, pair, **adding(soap, PAIR))
    with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
        soap.wait(pair.PowerOnVM_Task())
    soap.wait(single.PowerOffVM_Task())
    soap.wait(pair.PowerOnVM_Task())


def test_whole_devices_have_to_be_passed_through(connected):
    soap = connected()
    vm = off(soap, "train-02")
    send(soap, vm, **adding(soap, WHOLE, host="esx02"))
    with pytest.raises(vim.fault.GenericVmConfigFault):
        soap.wait(vm.PowerOnVM_Task())


def test_a_group_of_vgpus_or_of_devices():
    both = SCENARIO.replace('device: "10de:2321"', 'device: "10de:2321", vgpu: nvidia_h100l-94c')
    with pytest.raises(InputError, match="either vgpu or device"):
        scenario_file.parse(both, "x.yml")
    with pytest.raises(InputError, match="vendor and device id"):
        scenario_file.parse(SCENARIO.replace('"10de:2321"', "h100", 1), "x.yml")
