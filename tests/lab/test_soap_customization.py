"""Customization of guests: what refuses it, its states and events, and the addresses it gives."""

from __future__ import annotations

import json

import pytest
from pyVmomi import vim, vmodl
from support.farm import DEV, devices_of, option, reconfigure

pytestmark = pytest.mark.lab

FARM = """
name: customized
{version}
timing: {{boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, guest_seconds: 0.2}}
clusters: [{{name: a}}]
switches: [{{name: dvs, port_groups: [{{name: lan}}, {{name: rail}}]}}]
hosts:
  - {{name: esx01.lab.local, cluster: a, nics: [{{name: vmnic0, pci: "0000:18:00.0", switch: dvs}}]}}
vms:
  - {{name: image, host: esx01.lab.local, template: true, network: lan, more_networks: [rail]}}
  - {{name: two, host: esx01.lab.local, network: lan, more_networks: [rail], guest: debian11_64Guest}}
  - {{name: windows, host: esx01.lab.local, guest: windows9Server64Guest}}
  - {{name: no-tools, host: esx01.lab.local, tools: none}}
  - {{name: cannot, host: esx01.lab.local, image: {{customization: false}}}}
"""
NEW = "vcenter: {version: 8.0.3}"
C = vim.vm.customization


@pytest.fixture
def soap(make_lab, new_client):
    return new_client(make_lab(FARM.format(version=NEW)), version="vim.version.v8_0_3_0")


def mapping(address, mac="", gateway=()):
    adapter = C.IPSettings(ip=C.FixedIp(ipAddress=address), subnetMask="255.255.255.0", gateway=list(gateway))
    if address.endswith(".6"):
        six = C.FixedIpV6(ipAddress="fd00::6", subnetMask=64)
        adapter.ipV6Spec = C.IPSettings.IpV6AddressSpec(ip=[six])
    return C.AdapterMapping(macAddress=mac or None, adapter=adapter)


def linux(*maps, name="trn-01", script=None):
    return C.Specification(
        identity=C.LinuxPrep(hostName=C.FixedName(name=name), domain="lab.local", scriptText=script),
        globalIPSettings=C.GlobalIPSettings(),
        nicSettingMap=list(maps),
    )


def clone(soap, spec, name="trn-01", source="image", **more):
    vm = soap.vm(source)
    pool = soap.find(vim.ClusterComputeResource, "a").resourcePool
    wanted = vim.vm.CloneSpec(
        location=vim.vm.RelocateSpec(pool=pool), template=False, powerOn=False, customization=spec, **more
    )
    return soap.wait(vm.CloneVM_Task(vm.parent, name, wanted))


def status(vm):
    info = vm.guest.customizationInfo
    return info.customizationStatus.removeprefix("TOOLSDEPLOYPKG_") if info else ""


def macs(vm):
    return [d.macAddress for d in devices_of(vm, DEV.VirtualEthernetCard)]


def shown(soap, vm):
    soap.until(lambda: vm.guest.net)
    return {nic.macAddress: list(nic.ipAddress) for nic in vm.guest.net}


def seen(soap, vm):
    wanted = vim.event.EventFilterSpec.ByEntity(entity=vm, recursion="self")
    spec = vim.event.EventFilterSpec(entity=wanted, type=[vim.event.CustomizationEvent])
    return [type(event)._wsdlName for event in soap.content.eventManager.QueryEvents(spec)]


TWO = (mapping("10.0.0.5", gateway=["10.0.0.1"]), mapping("10.0.1.6"))


def test_a_clone_is_customized_at_its_first_power_on(soap):
    vm = clone(soap, linux(*TWO))
    assert (status(vm), bool(vm.config.tools.pendingCustomization)) == ("PENDING", True)
    assert seen(soap, vm) == []
    soap.wait(vm.PowerOnVM_Task())
    first, second = macs(vm)
    assert shown(soap, vm) == {first: ["10.0.0.5"], second: ["10.0.1.6", "fd00::6"]}
    assert [a.prefixLength for a in vm.guest.net[0].ipConfig.ipAddress][:1] == [24]
    assert (vm.guest.hostName, vm.guest.ipAddress, status(vm)) == ("trn-01", "10.0.0.5", "SUCCEEDED")
    assert vm.guest.customizationInfo.endTime >= vm.guest.customizationInfo.startTime
    assert not vm.config.tools.pendingCustomization
    assert seen(soap, vm) == ["CustomizationStartedEvent", "CustomizationSucceeded"]
    soap.wait(vm.PowerOffVM_Task())
    soap.wait(vm.PowerOnVM_Task())
    assert shown(soap, vm)[first] == ["10.0.0.5"], "the guest keeps its network"
    assert len(seen(soap, vm)) == 2


def test_a_customization_that_fails_is_over_and_is_not_tried_again(soap):
    vm = clone(soap, linux(*TWO))
    soap.lab.set_faults([{"on": "PowerOnVM_Task", "nth": 1, "do": "customization-fails"}])
    soap.wait(vm.PowerOnVM_Task())
    assert list(shown(soap, vm).values()) == [[], []]
    assert status(vm) == "FAILED"
    assert vm.guest.customizationInfo.errorMsg
    assert seen(soap, vm) == ["CustomizationStartedEvent", "CustomizationNetworkSetupFailed"]
    assert not vm.config.tools.pendingCustomization
    soap.wait(vm.PowerOffVM_Task())
    soap.wait(vm.PowerOnVM_Task())
    assert status(vm) == "FAILED"
    assert len(seen(soap, vm)) == 2


def test_a_script_fails_where_the_guest_does_not_allow_it(soap):
    vm = clone(soap, linux(*TWO, script="#!/bin/sh\ntrue\n"))
    soap.wait(vm.PowerOnVM_Task())
    soap.until(lambda: status(vm) == "FAILED")
    assert "script" in vm.guest.customizationInfo.errorMsg


@pytest.mark.parametrize(
    ("source", "spec", "fault"),
    [
        ("image", linux(TWO[0]), vim.fault.NicSettingMismatch),
        ("image", linux(), vim.fault.NicSettingMismatch),
        ("windows", linux(TWO[0]), vim.fault.UncustomizableGuest),
        ("no-tools", linux(TWO[0]), vim.fault.UncustomizableGuest),
        ("cannot", linux(TWO[0]), vim.fault.UncustomizableGuest),
    ],
    ids=["one of two", "none of two", "windows", "no tools", "not supported"],
)
def test_what_cannot_be_customized_is_not_cloned(soap, source, spec, fault):
    with pytest.raises(fault):
        clone(soap, spec, source=source)
    assert soap.calls() == []
    vm = soap.vm(source)
    pool = soap.find(vim.ClusterComputeResource, "a").resourcePool
    wanted = vim.vm.CloneSpec(
        location=vim.vm.RelocateSpec(pool=pool), template=False, powerOn=False, customization=spec
    )
    (found,) = soap.wait(soap.content.vmProvisioningChecker.CheckClone_Task(vm, vm.parent, "x", wanted))
    assert isinstance(found.error[0], fault)
    with pytest.raises(fault):
        vm.CheckCustomizationSpec(spec)


def test_a_vm_that_is_there_is_customized_once_at_a_time_and_off(soap):
    vm = soap.vm("two")
    vm.CheckCustomizationSpec(linux(*TWO))
    soap.wait(vm.CustomizeVM_Task(linux(*TWO)))
    with pytest.raises(vim.fault.CustomizationPending):
        soap.wait(vm.CustomizeVM_Task(linux(*TWO)))
    soap.wait(vm.PowerOnVM_Task())
    soap.until(lambda: status(vm) == "SUCCEEDED")
    with pytest.raises(vim.fault.InvalidPowerState):
        soap.wait(vm.CustomizeVM_Task(linux(*TWO)))
    assert ("two", "CustomizeVM_Task") in soap.calls()
    with pytest.raises(vmodl.fault.NotSupported):
        vm.CheckCustomizationSpec(
            C.Specification(identity=C.CloudinitPrep(metadata="{}"), globalIPSettings=C.GlobalIPSettings())
        )


@pytest.mark.parametrize(("version", "crossed"), [("", True), (NEW, False)], ids=["7.0", "8.0"])
def test_before_8_0_mappings_are_taken_in_the_order_of_the_nics_whatever_their_address(
    make_lab, new_client, version, crossed
):
    client = {"version": "vim.version.v8_0_3_0"} if version else {}
    soap = new_client(make_lab(FARM.format(version=version)), **client)
    vm = soap.vm("two")
    first, second = macs(vm)
    soap.wait(vm.CustomizeVM_Task(linux(mapping("10.0.1.7", second.upper()), mapping("10.0.0.5", first.upper()))))
    soap.wait(vm.PowerOnVM_Task())
    wanted = {first: ["10.0.0.5"], second: ["10.0.1.7"]}
    assert (shown(soap, vm) != wanted) is crossed


def test_guestinfo_goes_before_a_customization(soap):
    vm = clone(soap, linux(*TWO))
    mac = macs(vm)[0]
    ethernets = {"a": {"match": {"macaddress": mac}, "addresses": ["10.9.0.5/24"]}}
    metadata = json.dumps({"network": {"version": 2, "ethernets": ethernets}})
    reconfigure(soap, vm, extraConfig=[option("guestinfo.metadata", metadata)])
    soap.wait(vm.PowerOnVM_Task())
    assert shown(soap, vm)[mac] == ["10.9.0.5"]


def test_a_customized_clone_takes_a_privilege_of_its_own(make_lab, new_client):
    text = FARM.format(version=NEW) + 'privileges_denied: ["VirtualMachine.Provisioning.Customize on image"]\n'
    soap = new_client(make_lab(text), version="vim.version.v8_0_3_0")
    with pytest.raises(vim.fault.NoPermission) as refused:
        clone(soap, linux(*TWO))
    assert refused.value.object == soap.vm("image")
    assert clone(soap, None).name == "trn-01"
