"""Product and lab, which share no code: what a guest is given makes it come up and report as planned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyVmomi import vim
from support.farm import option, reconfigure

from vsphere_ai.guests.cloud_init import Guest, User, decoded, extra_config, missing_addresses
from vsphere_ai.guests.netplan import GuestNic
from vsphere_ai.guests.ready import READY, ready_problems, unprobed, verdict
from vsphere_ai.model.state import Target

pytestmark = pytest.mark.lab
VM = Target("vm", "trn-01", "VirtualMachine:vm-1")
CARD = vim.vm.device.VirtualEthernetCard


def clone(soap, name):
    source = soap.vm("train-04")
    spec = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(), powerOn=False)
    return soap.wait(source.CloneVM_Task(source.parent, name, spec))


def guest_of(vm, address, generation=1):
    (card,) = (d for d in vm.config.hardware.device if isinstance(d, CARD))
    nic = GuestNic("mgmt", card.macAddress.lower(), (address, "fd00::11/64"), 9000, ("10.9.0.1",), primary=True)
    return Guest(vm.name, vm.config.instanceUuid, (nic,), (User("ops", ("ssh-ed25519 A",)),), generation)


def booted(soap, vm, guest):
    reconfigure(soap, vm, extraConfig=[option(k, v) for k, v in extra_config(guest).items()])
    soap.wait(vm.PowerOn())
    soap.until(lambda: any(o.key == READY for o in vm.config.extraConfig))
    return {o.key: o.value for o in vm.config.extraConfig}


def test_a_guest_comes_up_with_its_addresses_and_says_that_it_is_ready(soap):
    vm = clone(soap, "trn-01")
    guest = guest_of(vm, "10.9.0.11/24", generation=3)
    settings = booted(soap, vm, guest)
    ready = verdict(settings[READY])
    assert list(ready_problems(VM, ready, guest.nics, 3)) == []
    assert list(unprobed(ready)) == []
    reported = {nic.macAddress: [a.ipAddress for a in nic.ipConfig.ipAddress] for nic in vm.guest.net}
    assert list(missing_addresses([(n.mac, n.addresses) for n in guest.nics], reported)) == []
    assert vm.guest.hostName == "trn-01"
    assert decoded(settings, "userdata") == "", "it is redacted"
    assert decoded(settings, "metadata") != "", "it stays for the next boot"


def test_a_second_guest_with_the_same_address_reports_the_first_one(soap):
    first, second = clone(soap, "trn-01"), clone(soap, "trn-02")
    one, two = guest_of(first, "10.9.0.11/24"), guest_of(second, "10.9.0.11/24")
    two = replace(two, nics=(replace(two.nics[0], addresses=("10.9.0.11/24", "fd00::12/64")),))
    booted(soap, first, one)
    found = verdict(booted(soap, second, two)[READY])
    (problem,) = ready_problems(VM, found, two.nics, 1)
    assert problem.rule == "guest.conflict"
    assert one.nics[0].mac in problem.message
