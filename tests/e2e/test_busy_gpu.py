"""A GPU with running VMs is cut anew around them: their instances stay, those that no VM holds may go."""

from __future__ import annotations

import json

import pytest
from support.labs import started
from support.places import INVENTORY

pytestmark = pytest.mark.lab
ESX, BLIND = "esx01.lab.local", "esx02.lab.local"
GPU = "0000:3b:00.0"
HOST = f"""
    cluster: gpu-a
    version: 8.0.2
    build: 22380479
    nvidia_driver: 550.163.01
    graphics_default: sharedDirect
    gpus: [{{pci: {GPU}, board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}}]
    ssh: {{running: true, policy: on}}
"""
VM = "vgpu: [grid_a100-1-5c], power: on, hardware: 20, memory_reservation_locked: true"
FARM = f"""
name: busy
vcenter: {{version: 8.0.2, build: 22617221, api: 8.0.2.0}}
timing: {{boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters:
  - {{name: gpu-a}}
hosts:
  - name: {ESX}{HOST}
  - name: {BLIND}{HOST}
    vgpu_instances: false
vms:
  - {{name: train-01, host: {ESX}, {VM}, guest_driver: 535.54.03}}
  - {{name: train-02, host: {BLIND}, {VM}, guest_driver: 470.82.01, licence: unlicensed}}
  - {{name: train-03, host: {ESX}, {VM}, guest_driver: none, licence: unknown}}
"""


def play(host, *layout):
    return f"- hosts: {host}\n  mig: {{gpus: {{'{GPU}': [{', '.join(layout)}]}}}}\n"


@pytest.fixture(scope="module")
def busy_lab(tmp_path_factory):
    from vsphere_ai.lab.front import process

    directory = tmp_path_factory.mktemp("busy")
    scenario = directory / "scenario.yml"
    scenario.write_text(FARM, encoding="utf-8")
    yield started(directory, scenario)
    process.stop(directory)


@pytest.fixture
def lab(busy_lab, monkeypatch):
    busy_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(busy_lab.directory))
    return busy_lab


def standing(farm, host):
    return sorted(i["profile"] for i in farm()["hosts"][host]["gpus"][0]["instances"])


def test_idle_instances_of_a_busy_gpu_make_room(cli, farm, ledger):
    assert cli("apply", cli.file(play(ESX, "1g.5gb", "1g.5gb", "3g.20gb")), "--yes") == 0, cli.out + cli.err
    assert standing(farm, ESX) == ["1g.5gb", "1g.5gb", "3g.20gb"]
    assert cli("apply", cli.file(play(ESX, "1g.5gb", "1g.5gb", "2g.10gb", "2g.10gb")), "--yes") == 0, cli.out + cli.err
    assert standing(farm, ESX) == ["1g.5gb", "1g.5gb", "2g.10gb", "2g.10gb"]
    vms = farm()["vms"]
    assert {vms[n]["power"] for n in ("train-01", "train-03")} == {"poweredOn"}
    assert {e["call"] for e in ledger() if e["object"] == ESX} == {
        "nvidia-smi mig -cgi", "nvidia-smi mig -dci", "nvidia-smi mig -dgi"}  # fmt: skip
    assert [e for e in ledger() if e["object"].startswith("train") and e["call"] != "scenario"] == []


def test_an_instance_that_a_vm_holds_is_not_given_up(cli, ledger):
    done = ledger()
    assert cli("plan", cli.file(play(ESX, "1g.5gb", "3g.20gb"))) == 1
    assert "[mig.layout]" in cli.out
    assert "train-01" in cli.out or "train-03" in cli.out
    assert ledger() == done


def test_where_the_instance_is_not_told_none_is_given_up(cli, farm):
    assert cli("apply", cli.file(play(BLIND, "1g.5gb", "3g.20gb")), "--yes") == 0, cli.out + cli.err
    assert cli("plan", cli.file(play(BLIND, "1g.5gb", "2g.10gb", "2g.10gb"))) == 1
    assert "[mig.layout]" in cli.out
    assert standing(farm, BLIND) == ["1g.5gb", "3g.20gb"]


def test_capacity_shows_instance_driver_and_licence(cli, lab, farm):
    assert cli("capacity", "-i", INVENTORY, "-o", "json") == 0
    hosts = {h["host"]: h["gpus"][0] for h in json.loads(cli.out)["hosts"]}
    shown = {r["vm"]: r for gpu in hosts.values() for r in gpu["running"]}
    held = {i["vm"]: i["id"] for i in farm()["hosts"][ESX]["gpus"][0]["instances"]}
    assert {name: shown[name]["gpu_instance"] for name in shown} == {**held, "train-02": None}
    assert shown["train-01"]["guest_driver"] == "535.54.03"
    assert shown["train-01"]["licence"].startswith("Licensed (Expiry: ")
    assert (shown["train-02"]["guest_driver"], shown["train-02"]["licence"]) == (
        "470.82.01",
        "Unlicensed (Unrestricted)",
    )
    assert (shown["train-03"]["guest_driver"], shown["train-03"]["licence"]) == (None, None)


def test_check_tells_licence_and_guest_driver(cli, lab):
    cli("check", "-o", "json")
    found = {(f["target"]["name"], f["rule"]): f["verdict"] for f in json.loads(cli.out)["findings"]
             if f["rule"].startswith("vgpu.") and f["target"]}  # fmt: skip
    assert found == {
        ("train-01", "vgpu.licence"): "pass",
        ("train-01", "vgpu.guest-driver"): "pass",  # R535, the branch before R550
        ("train-02", "vgpu.licence"): "warn",
        ("train-02", "vgpu.guest-driver"): "warn",
        ("train-03", "vgpu.licence"): "unknown",
        ("train-03", "vgpu.guest-driver"): "unknown",
    }
