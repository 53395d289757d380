"""The lab's requirement `encryption`: which hosts take encrypted VMs, and what vCenter turns on by itself."""

from __future__ import annotations

import pytest
from pyVmomi import vim

from vsphere_ai.lab import admission
from vsphere_ai.lab.admission import Occasion, case_of
from vsphere_ai.lab.build import build
from vsphere_ai.lab.managed.placement import move
from vsphere_ai.lab.managed.vms import encryption
from vsphere_ai.lab.scenario_file import parse

_KEY = vim.fault.EncryptionKeyRequired
FARM = """
name: x
clusters: [{name: c}]
hosts:
  - {name: a, cluster: c}
  - {name: b, cluster: c, encryption: %s}
vms: [{name: v, host: a, power: %s, tpm: %s}]
"""


def built(mode="safe", power="off", tpm="true"):
    farm = build(parse(FARM % (mode, power, tpm), "x.yml"), "")
    (vm,) = farm.store.of(vim.VirtualMachine)
    return farm, vm, next(h for h in farm.store.of(vim.HostSystem) if h["name"] == "b")


def is_refused(farm, vm, host, occasion):
    found = admission.refusals(case_of(farm, vm, host, occasion))
    return any(isinstance(fault, _KEY) for fault in found)


@pytest.mark.parametrize(
    ("mode", "tpm", "refused"),
    [
        ("safe", "true", False),
        ("prepared", "true", False),
        ("incapable", "true", False),
        ("pendingIncapable", "true", True),
        ("pendingIncapable", "false", False),
    ],
)
@pytest.mark.parametrize("occasion", [Occasion.POWER_ON, Occasion.VMOTION, Occasion.COLD, Occasion.HA_RESTART])
def test_the_host_gets_the_key(mode, tpm, refused, occasion):
    farm, vm, host = built(mode, "on" if occasion is Occasion.VMOTION else "off", tpm)
    assert is_refused(farm, vm, host, occasion) == refused


def test_an_encrypted_vm_turns_the_mode_of_its_new_host_on():
    farm, vm, host = built("incapable")
    assert host["runtime"].cryptoState == "incapable"
    move(farm, vm, host)
    farm.settle()
    assert host["runtime"].cryptoState == encryption.mode_of(farm, host) == "safe"


def test_a_mode_that_was_turned_off_is_off_after_a_restart():
    farm, vm, host = built(encryption.PENDING)
    farm.host(host).boot()
    assert encryption.mode_of(farm, host) == "incapable"
    assert not is_refused(farm, vm, host, Occasion.POWER_ON)
