"""A vGPU name of another product is a problem of the plan, before any host is touched; the right one is carried out."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.lab
SCENARIO = """
name: names
vcenter: {{version: 9.0.1, build: 24957454, api: 8.0.3.0}}
timing: {{boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}]
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    version: {version}
    build: 24022510
    nvidia_driver: {driver}
    gpus: [{{pci: "0000:3b:00.0", board: {board}, device_id: {device}}}]
    ssh: {{running: true, policy: on}}
vms:
  - {{name: "train-[01:{vms:02}]", host: esx01.lab.local, hardware: 21, tools: running, power: on, memory_gb: 1}}
"""
PLAY = """
- hosts: esx01.lab.local
  graphics: {{default_type: shared_direct}}
  mig: {{mode: enabled}}
  rolling: {{evacuate: power_off}}
- vms: "train-*"
  vgpu: [{name}]
"""


@pytest.fixture
def farm(make_lab, monkeypatch):
    def made(board, device, *, vms=1, version="8.0.3", driver="550.144.02"):
        lab = make_lab(SCENARIO.format(board=board, device=device, vms=vms, version=version, driver=driver))
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
        return lab

    return made


def changes(lab):
    return [e["call"] for e in lab.get("/lab/ledger")["entries"]]


@pytest.mark.parametrize(
    ("board", "device", "wrong", "right"),
    [
        ("a100-80gb", "20b2", "grid_a100d-3-40c", "grid_a100dx-3-40c"),
        ("a100-40gb", "20f1", "grid_a100x-3-20c", "grid_a100-3-20c"),
    ],
)
def test_the_name_of_another_product(cli, farm, board, device, wrong, right):
    lab = farm(board, device)
    playbook = cli.file(PLAY.format(name=wrong))
    before = changes(lab)
    assert cli("plan", playbook) == 1
    assert "vgpu.profile" in cli.out
    assert right in cli.out
    assert cli("apply", playbook, "--yes") == 1
    assert changes(lab) == before
    good = cli.file(PLAY.format(name=right), "right.yml")
    assert cli("apply", good, "--yes") == 0, cli.out + cli.err
    assert cli("plan", good, "--detailed-exitcode") == 0, cli.out


def test_vms_share_gpu_instances(cli, farm):
    """Nine VMs of 3 GB: eight share one instance of 24 GB, the ninth takes a second."""
    lab = farm("rtx-pro-6000-blackwell", "2bb5", vms=9, version="9.0.1", driver="580.65.05")
    playbook = cli.file(PLAY.format(name="nvidia_rtx_pro_6000_blackwell_dc-1-3q"))
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    gpu = lab.get("/lab/farm")["hosts"][0]["gpus"][0]
    assert [i["profile"] for i in gpu["instances"]] == ["1g.24gb", "1g.24gb"]
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("capacity", "-o", "json") == 0
    assert '"nvidia_rtx_pro_6000_blackwell_dc-1-3q": 23' in cli.out


def test_older_releases_do_not_share_gpu_instances(cli, farm):
    farm("rtx-pro-6000-blackwell", "2bb5", version="8.0.3", driver="580.65.05")
    playbook = cli.file(PLAY.format(name="nvidia_rtx_pro_6000_blackwell_dc-1-3q"))
    [problem] = cli.plan(playbook)["problems"]
    assert problem["rule"] == "vgpu.profile"
    assert {"9.0.1", "R580", "8.0.3"} <= set(re.findall(r"[\w.]*\w", problem["remedy"]))
