"""MAC addresses of running VMs: a conflict is an event, a finding of the judge, and a guest without a network."""

import json

import pytest
from pyVmomi import vim
from support.farm import DEV, device_spec, devices_of, option, reconfigure

pytestmark = pytest.mark.lab

MAC = "00:50:56:00:00:01"
EVENT = vim.event.VmMacConflictEvent


def clone(soap, name, mac=MAC, **config):
    source = soap.vm("train-04")
    (nic,) = devices_of(source, DEV.VirtualEthernetCard)
    own = DEV.VirtualVmxnet3(key=-1, backing=nic.backing, addressType="manual", macAddress=mac)
    own.backing.port.portKey = None
    ethernets = {"mgmt": {"match": {"macaddress": mac}, "addresses": ["10.9.0.5/24"]}}
    metadata = json.dumps({"network": {"version": 2, "ethernets": ethernets}})
    config["deviceChange"] = [device_spec(nic, "remove"), device_spec(own)]
    spec = vim.vm.CloneSpec(
        location=vim.vm.RelocateSpec(),
        config=vim.vm.ConfigSpec(extraConfig=[option("guestinfo.metadata", metadata)], **config),
        powerOn=False,
        template=False,
    )
    return soap.wait(source.CloneVM_Task(source.parent, name, spec))


def addresses(soap, vm):
    soap.until(lambda: vm.guest.net)
    return [text for nic in vm.guest.net for text in nic.ipAddress]


def conflicts(soap):
    return soap.content.eventManager.QueryEvents(vim.event.EventFilterSpec(type=[EVENT]))


def findings(soap, name):
    return next(v["findings"] for v in soap.lab.get("/lab/invariants")["invariants"] if v["name"] == name)


def test_the_second_vm_with_an_address_has_no_network(soap):
    first, second = clone(soap, "one"), clone(soap, "two")
    soap.wait(first.PowerOnVM_Task())
    assert addresses(soap, first) == ["10.9.0.5"]
    assert not conflicts(soap), "a VM that is off is not compared"
    assert findings(soap, "macs") == []
    soap.wait(second.PowerOnVM_Task())
    (event,) = conflicts(soap)
    assert (event.vm.vm, event.conflictedVm.name, event.mac) == (second, "one", MAC)
    assert soap.content.eventManager.latestEvent.mac == MAC
    below = vim.event.EventFilterSpec.ByEntity(entity=first.parent, recursion="children")
    of_folder = soap.content.eventManager.QueryEvents(vim.event.EventFilterSpec(entity=below))
    assert [type(each) for each in of_folder].count(EVENT) == 1, "among the events of tasks"
    assert addresses(soap, second) == []
    assert addresses(soap, first) == ["10.9.0.5"]
    assert findings(soap, "macs") == [f"{MAC} of two ({second._moId}) was that of one ({first._moId})"]


def test_an_address_is_free_again_when_its_vm_is_off(soap):
    first, second = clone(soap, "one"), clone(soap, "two")
    soap.wait(first.PowerOnVM_Task())
    soap.wait(first.PowerOffVM_Task())
    soap.wait(second.PowerOnVM_Task())
    assert addresses(soap, second) == ["10.9.0.5"]
    assert not conflicts(soap)
    assert findings(soap, "macs") == []


def test_a_vm_that_takes_the_identity_of_another_one_is_found(soap):
    taken = soap.vm("train-01").config.instanceUuid
    clone(soap, "one", instanceUuid=taken)
    assert findings(soap, "identities") == [f"one: {taken} was another VM's"]
    reconfigure(soap, soap.vm("train-04"), instanceUuid=taken)
    assert len(findings(soap, "identities")) == 2
