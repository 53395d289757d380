"""The lab's requirement `vmotion_network`: which host lacks an adapter, in the words of vCenter's fault."""

from __future__ import annotations

import pytest
from pyVmomi import vim

from vsphere_ai.lab import admission
from vsphere_ai.lab.admission import Occasion, case_of
from vsphere_ai.lab.build import build
from vsphere_ai.lab.scenario_file import parse

FARM = """
name: x
clusters: [{name: c}]
hosts:
  - {name: a, cluster: c, vmkernel: [%s]}
  - {name: b, cluster: c, vmkernel: [%s]}
vms: [{name: v, host: a, power: on}]
"""
ADAPTER = "{name: vmk0, port_group: VM Network}"
OTHER = "{name: vmk0, port_group: VM Network, services: [management]}"


def faults(source, target, occasion=Occasion.VMOTION):
    farm = build(parse(FARM % (source, target), "x.yml"), "")
    host = next(h for h in farm.store.of(vim.HostSystem) if h["name"] == "b")
    (vm,) = farm.store.of(vim.VirtualMachine)
    return [
        (f.failedHost, f.atSourceHost)
        for f in admission.refusals(case_of(farm, vm, host, occasion))
        if isinstance(f, vim.fault.VMotionNotConfigured)
    ]


@pytest.mark.parametrize(
    ("source", "target", "refused"),
    [
        (ADAPTER, ADAPTER, []),
        (OTHER, ADAPTER, [("a", True)]),
        (ADAPTER, OTHER, [("b", False)]),
        (OTHER, OTHER, [("a", True), ("b", False)]),
        ("", OTHER, [("b", False)]),
        ("", "", []),
    ],
)
@pytest.mark.parametrize("occasion", [Occasion.VMOTION, Occasion.EVACUATE])
def test_both_hosts_need_an_adapter(source, target, refused, occasion):
    assert faults(source, target, occasion) == refused


def test_a_vm_that_powers_on_needs_none():
    assert faults(OTHER, OTHER, Occasion.POWER_ON) == []
