"""A configuration of mig-parted, named in a playbook, applied on the lab."""

from __future__ import annotations

import pytest
from support.labs import started

pytestmark = pytest.mark.lab
ESX = "esx01.lab.local"
FARM = f"""
name: parted
vcenter: {{version: 8.0.2, build: 22617221, api: 8.0.2.0}}
timing: {{boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters:
  - {{name: gpu-a}}
hosts:
  - name: {ESX}
    cluster: gpu-a
    version: 8.0.2
    build: 22380479
    nvidia_driver: 550.163.01
    graphics_default: sharedDirect
    gpus:
      - {{pci: "0000:3b:00.0", board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}}
      - {{pci: "0000:86:00.0", board: a30-24gb, mig: true, graphics_type: sharedDirect}}
    ssh: {{running: true, policy: on}}
vms: []
"""
PARTED = """\
version: v1
mig-configs:
  all-balanced:
    - device-filter: ["0x20B010DE", "0x20F110DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
"""
PLAY = f"- hosts: {ESX}\n  mig: {{parted: {{file: parted.yaml, config: all-balanced}}}}\n"
BALANCED = {("2g.10gb", 0), ("1g.5gb", 2), ("1g.5gb", 3), ("3g.20gb", 4)}


@pytest.fixture(scope="module")
def parted_lab(tmp_path_factory):
    from vsphere_ai.lab.front import process

    directory = tmp_path_factory.mktemp("parted")
    scenario = directory / "scenario.yml"
    scenario.write_text(FARM, encoding="utf-8")
    yield started(directory, scenario)
    process.stop(directory)


@pytest.fixture
def lab(parted_lab, monkeypatch):
    parted_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(parted_lab.directory))
    return parted_lab


def standing(farm, gpu):
    return {(i["profile"], i["start"]) for i in farm()["hosts"][ESX]["gpus"][gpu]["instances"]}


def test_a_gpu_it_is_about_is_cut_the_other_left_alone_and_then_nothing_is_left(cli, farm):
    cli.file(PARTED, "parted.yaml")
    play = cli.file(PLAY)
    assert cli("apply", play, "--yes") == 0, cli.out + cli.err
    assert (standing(farm, 0), standing(farm, 1)) == (BALANCED, set())
    assert cli("plan", play, "--detailed-exitcode") == 0, cli.out


def test_a_saved_plan_does_not_hang_on_the_file(cli, farm, tmp_path):
    parted, saved = cli.file(PARTED, "parted.yaml"), tmp_path / "plan.json"
    assert cli("plan", cli.file(PLAY), "--to", saved) == 0, cli.out + cli.err
    parted.unlink()
    assert cli("apply", saved, "--yes") == 0, cli.out + cli.err
    assert standing(farm, 0) == BALANCED


def test_a_fault_of_the_file_has_its_place_and_nothing_is_done(cli, ledger):
    cli.file(PARTED.replace("mig-enabled: true", "mig-enabled: maybe"), "parted.yaml")
    before = ledger()
    assert cli("apply", cli.file(PLAY), "--yes") == 65
    assert "parted.yaml:6:20" in cli.err
    assert ledger() == before
