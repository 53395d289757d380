"""PCI addresses in playbooks: every kind takes the spellings of vSphere, lspci and nvidia-smi for the same device."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from vsphere_ai.resources._helpers.network_adapter import NetworkAdapter
from vsphere_ai.resources.mig import Mig
from vsphere_ai.resources.passthrough import Passthrough
from vsphere_ai.resources.pci_devices.device import PassthroughDevice
from vsphere_ai.resources.sriov import Sriov

ONE = "0000:3b:00.0"
KINDS = {
    "passthrough": lambda address: Passthrough(devices={address: True}).devices,
    "sriov": lambda address: Sriov(functions={address: 4}).functions,
    "mig": lambda address: Mig(gpus={address: {"mode": "enabled"}}).gpus,
    "pci_devices": lambda address: [PassthroughDevice(host_device=address).host_device],
    "adapters": lambda address: [NetworkAdapter(port_group="p", physical_function=address).physical_function],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spelled", [ONE, "0000:3B:00.0", "3b:00.0", "3B:00.0", "00000000:3B:00.0", "00000000:3b:00.0"])
def test_every_spelling_is_the_same_device(kind, spelled):
    assert list(KINDS[kind](spelled)) == [ONE]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", ["3b:00", "0000:3b:00.8", "12340000:3b:00.0", "000:3b:00.0", "GPU-1", "vmnic4", ""])
def test_what_is_no_address_is_refused(kind, wrong):
    with pytest.raises(ValidationError):
        KINDS[kind](wrong)


@pytest.mark.parametrize("state", [Passthrough, Sriov, Mig])
def test_one_device_is_named_once(state):
    field = {Passthrough: "devices", Sriov: "functions", Mig: "gpus"}[state]
    value = {Passthrough: True, Sriov: 4, Mig: {"mode": "enabled"}}[state]
    with pytest.raises(ValidationError, match="the same device"):
        state(**{field: {ONE: value, ONE.upper(): value}})
