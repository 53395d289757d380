"""A VM whose reconfiguration is refused on a host that has changed beside it: only with its new devices can it run."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
FARM = """
name: hot
vcenter: {version: 8.0.3}
timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.05, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    version: 8.0.3
    nvidia_driver: 550.163.01
    graphics_default: sharedDirect
    gpus: [{pci: '0000:3b:00.0', board: h100-80gb-pcie, mig: true, graphics_type: sharedDirect}]
    ssh: {running: true, policy: on}
vms:
  - name: t-[01:02]
    host: esx01.lab.local
    power: on
    tools: running
    memory_reservation_locked: true
    vgpu: [nvidia_h100-3-40c]
"""
PLAY = """
- hosts: esx01.lab.local
  mig: {mode: disabled}
  rolling: {evacuate: power_off}
- vms: t-[01:02]
  vgpu: [nvidia_h100-20c]
"""
"""The old profile needs MIG mode, the new one none: after the host's part a VM fits only as it is wanted."""


@pytest.fixture
def lab(make_lab, monkeypatch):
    made = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    return made


def strike(lab, fault, **more):
    lab.set_faults([{"on": "ReconfigVM_Task", "target": "t-02", "do": {"task-fails": fault}, **more}])


def power(farm):
    return {name: vm["power"] for name, vm in farm()["vms"].items()}


def reconfigured(lab):
    """How often each VM was reconfigured, or refused it."""
    calls = [e["object"] for e in lab.get("/lab/ledger")["entries"] if e["call"] == "ReconfigVM_Task"]
    return {name: calls.count(name) for name in ("t-01", "t-02")}


def test_it_gets_them_once_more_and_runs(cli, lab, farm):
    strike(lab, "GenericVmConfigFault", nth=1)
    assert cli("apply", cli.file(PLAY), "--yes") == 1
    assert power(farm) == {"t-01": "poweredOn", "t-02": "poweredOn"}
    assert reconfigured(lab) == {"t-01": 1, "t-02": 1}
    assert "t-02: reconfigure: vGPU: remove nvidia_h100-3-40c, add nvidia_h100-20c" in cli.out.partition("PUT BACK")[2]
    assert cli("plan", cli.file(PLAY), "--detailed-exitcode") == 0, cli.out


def test_it_stays_off_and_is_named_where_that_is_refused_too(cli, lab, farm):
    strike(lab, "GenericVmConfigFault")
    assert cli("apply", cli.file(PLAY), "--yes") == 1
    assert power(farm) == {"t-01": "poweredOn", "t-02": "poweredOff"}
    assert "t-02 is powered off; it was running before" in cli.out.partition("LEFT OPEN")[2]


def test_a_change_that_may_have_taken_effect_is_not_sent_again(cli, lab, farm):
    """SystemError does not show how far the call came."""
    strike(lab, "SystemError", nth=1)
    assert cli("apply", cli.file(PLAY), "--yes") != 0
    assert power(farm)["t-02"] == "poweredOff"
    assert reconfigured(lab) == {"t-01": 1, "t-02": 0}
