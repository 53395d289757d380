"""The lab's requirement `licensed_vms`: how many VMs run on a host, and what its host shows of it."""

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
hosts: [{name: h, cluster: c, licensed_vms: %s}]
vms: [{name: there, host: h, power: on}, {name: new, host: h}]
"""


@pytest.mark.parametrize(("licensed", "shown", "refused"), [(1, 1, True), (2, 2, False), (0, None, False)])
def test_one_vm_runs_there_already(licensed, shown, refused):
    farm = build(parse(FARM % licensed, "x.yml"), "")
    (host,) = farm.store.of(vim.HostSystem)
    new = next(vm for vm in farm.store.of(vim.VirtualMachine) if vm["name"] == "new")
    assert host["capability"].maxRunningVMs == shown
    faults = [*admission.refusals(case_of(farm, new, host, Occasion.POWER_ON))]
    assert [f.limit for f in faults if isinstance(f, vim.fault.VmLimitLicense)] == ([1] if refused else [])
