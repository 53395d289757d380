"""The vGPU mode of GPUs, and passthrough without a reboot, on hosts that can: judged by the lab's ledger."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
ESX, GPU = "esx01.lab.local", "0000:3b:00.0"
REBOOT = "esxcli system shutdown reboot"
SCENARIO = """
name: sizes
vcenter: {version: 8.0.3, build: 24022515, api: 8.0.3.0}
timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    version: 8.0.3
    build: 24022510
    nvidia_driver: 550.144.02
    rebind: true
    graphics_default: sharedDirect
    gpus: [{pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}]
    ssh: {running: true, policy: on}
vms:
  - {name: "train-[01:02]", host: esx01.lab.local, hardware: 21, tools: running}
  - {name: busy, host: esx01.lab.local, hardware: 21, tools: running, power: on}
"""
MIXED = """
- hosts: esx01.lab.local
  graphics: {vgpu_mode: mixed_size}
  rolling: {evacuate: power_off}
"""
SIZES = """
- vms: train-01
  vgpu: [grid_a100-20c]
- vms: train-02
  vgpu: [grid_a100-10c]
"""


@pytest.fixture
def sizes(make_lab, monkeypatch):
    made = make_lab(SCENARIO)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    return made


def calls(lab, *names):
    return [e["call"] for e in lab.get("/lab/ledger")["entries"] if e["call"] in names]


def test_two_sizes_share_a_gpu_only_in_mixed_size_mode(cli, sizes):
    both = cli.file(SIZES, "sizes.yml")
    assert cli("plan", both) == 1
    assert "capacity." in cli.out
    playbook = cli.file(MIXED + SIZES)
    assert cli("plan", playbook) == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert calls(sizes, REBOOT, "EnterMaintenanceMode_Task") == []
    assert calls(sizes, "UpdateGraphicsConfig") == ["UpdateGraphicsConfig"]
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("show") == 0
    assert "vgpu_mode: mixed_size" in cli.out
    assert cli("plan", cli.file(cli.out, "shown.yml"), "--detailed-exitcode") == 0, cli.out


def test_a_gpu_in_use_changes_its_mode_in_a_maintenance_window(cli, sizes):
    first = cli.file("- vms: busy\n  vgpu: [grid_a100-20c]\n", "first.yml")
    assert cli("apply", first, "--yes") == 0, cli.out + cli.err
    playbook = cli.file(MIXED)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert calls(sizes, REBOOT) == []
    assert calls(sizes, "EnterMaintenanceMode_Task", "UpdateGraphicsConfig", "ExitMaintenanceMode_Task") == [
        "EnterMaintenanceMode_Task",
        "UpdateGraphicsConfig",
        "ExitMaintenanceMode_Task",
    ]
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out


def test_a_host_before_8_0_u3_has_no_such_mode(cli, make_lab, monkeypatch):
    older = SCENARIO.replace("version: 8.0.3\n    build: 24022510", "version: 8.0.2\n    build: 22380479")
    made = make_lab(older)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    assert cli("plan", cli.file(MIXED)) == 1
    assert "graphics.vgpu-mode-version" in cli.out
    assert calls(made, "UpdateGraphicsConfig") == []
    assert cli("show") == 0
    assert "graphics: " in cli.out
    assert "vgpu_mode" not in cli.out


def test_passthrough_is_applied_without_a_reboot_where_the_host_can(cli, sizes):
    playbook = cli.file(f'- hosts: {ESX}\n  passthrough: {{"{GPU}": true}}\n')
    assert cli.plan(playbook)["impact"]["reboots"] == []
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert calls(sizes, REBOOT, "EnterMaintenanceMode_Task") == []
    assert calls(sizes, "UpdatePassthruConfig") == ["UpdatePassthruConfig"]
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
