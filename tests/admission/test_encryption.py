"""The requirement `admission.encryption`: worked examples, and what makes a VM need a key."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.admission_farm import HOST, answer, farm, vm

from vsphere_ai.admission.base import EVERY
from vsphere_ai.admission.machine import machine_of
from vsphere_ai.admission.requirements.encryption import FAULT, STATE
from vsphere_ai.model.facts import Facts

RULE = "admission.encryption"


@pytest.mark.parametrize(
    ("state", "figures", "verdict"),
    [
        ("safe", {"encrypted": "a virtual TPM"}, "yes"),
        ("prepared", {"encrypted": "a virtual TPM"}, "unknown"),
        ("incapable", {"encrypted": "a virtual TPM"}, "unknown"),
        ("pendingIncapable", {"encrypted": "a virtual TPM"}, "no"),
        (None, {"encrypted": "encrypted files"}, "unknown"),
        ("incapable", {}, "yes"),
        ("pendingIncapable", {}, "yes"),
        (None, {}, "yes"),
    ],
)
@pytest.mark.parametrize("occasion", sorted(EVERY))
def test_the_host_takes_the_key_of_the_vm(state, figures, verdict, occasion):
    told, faults, rules = answer(farm(**{STATE: state}), vm(**figures), occasion)
    assert (RULE in rules) == (verdict != "yes")
    assert (told == "no") == (verdict == "no")
    assert (FAULT in faults) == (verdict == "no")


@pytest.mark.parametrize(
    ("shown", "encrypted"),
    [
        ({"config.keyId": {"keyId": "k"}}, "encrypted files"),
        ({"config.hardware.device": ({"_typeName": "VirtualTPM", "key": 11000},)}, "a virtual TPM"),
        ({"config.keyId": None}, ""),
        ({}, ""),
    ],
)
def test_which_vms_need_a_key(shown, encrypted):
    assert machine_of(Facts("VirtualMachine:v", {"name": "v", **shown})).encrypted == encrypted


def test_a_mode_that_ends_with_a_restart_of_the_plan_is_off_then():
    situation = farm(**{STATE: "pendingIncapable"})
    situation.view = replace(situation.view, rebooting=frozenset({HOST}))
    assert answer(situation, vm(encrypted="a virtual TPM"))[0] == "unknown"
