"""A plan whose VMs could not all power on is refused before anything is touched; the lab agrees with the verdict."""

from __future__ import annotations

import pytest
from support.capacity_judges import lab_hosts, names
from support.places import INVENTORY, PLAYBOOKS

from vsphere_ai.lab.hardware import vgpu

pytestmark = pytest.mark.lab
SLICED = (
    "- hosts: gpu_hosts\n  graphics: {default_type: shared_direct}\n  mig: {mode: enabled}\n"
    "  rolling: {evacuate: power_off}\n"
)


def test_a_profile_that_finds_no_gpu_left_is_refused(cli, ledger):
    assert cli("apply", PLAYBOOKS / "time-sliced.yml", "--yes") == 0
    done = ledger()
    # train-02 holds 20 GB of one GPU and train-01 would need two whole GPUs
    assert cli("plan", cli.file("- vms: train-01\n  vgpu: [grid_a100-40c, grid_a100-40c]\n")) == 1
    assert "[capacity.no-room]" in cli.out
    assert ledger() == done


def test_what_fits_powers_on_and_what_does_not_is_refused(cli, farm, ledger):
    play = SLICED + "- vms: 'train-[01:02]'\n  vgpu: [grid_a100-4-20c]\n"
    assert cli("apply", cli.file(play), "--yes") == 0, cli.out
    assert [farm()["vms"][f"train-0{n}"]["power"] for n in (1, 2)] == ["poweredOn"] * 2
    done = ledger()
    full = cli.file(
        "- vms: train-03\n  vgpu: [grid_a100-7-40c]\n- vms: train-04\n  vgpu: [grid_a100-7-40c]\n", "full.yml"
    )
    assert cli("apply", full, "--yes") == 0, cli.out
    assert len(ledger()) > len(done)


def test_a_spare_host_is_asked_for(cli, ledger):
    fits = SLICED + "- vms: training\n  vgpu: [grid_a100-3-20c]\n"
    assert cli("plan", cli.file(fits + "  spare_hosts: 1\n")) == 0, cli.out
    tight = SLICED + "- vms: training\n  vgpu: [grid_a100-7-40c]\n"
    assert cli("plan", cli.file(tight)) == 0, cli.out
    assert cli("plan", cli.file(tight + "  spare_hosts: 1\n")) == 1
    assert "[capacity.no-spare]" in cli.out
    assert ledger() == []


# several vGPUs with a part of a GPU each need vSphere 8
EIGHT = """
name: eight
vcenter: {version: 8.0.2, build: 22617221, api: 8.0.2.0}
timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters:
  - {name: gpu-a}
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    version: 8.0.2
    build: 22380479
    nvidia_driver: 550.163.01
    graphics_default: sharedDirect
    gpus:
      - {pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}
      - {pci: 0000:86:00.0, board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}
    ssh: {running: true, policy: on}
vms:
  - {name: "train-[01:02]", host: esx01.lab.local, power: on}
"""


def test_vms_power_on_in_the_order_that_works(cli, make_lab, monkeypatch):
    eight = make_lab(EIGHT)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(eight.directory))
    small, large = ("grid_a100-2-10c",) * 2, ("grid_a100-4-20c",) * 2
    both = lab_hosts({"one": [True, True], "other": [True, True]})
    vgpu.power_on(both["one"], "small", names("2-10c", "2-10c"))
    with pytest.raises(vgpu.NoGraphicsResource):
        vgpu.power_on(both["one"], "large", names("4-20c", "4-20c"))
    vgpu.power_on(both["other"], "large", names("4-20c", "4-20c"))
    vgpu.power_on(both["other"], "small", names("2-10c", "2-10c"))

    wants = "- vms: train-{}\n  vgpu: [{}]\n"
    play = cli.file(wants.format("01", ", ".join(small)) + wants.format("02", ", ".join(large)))
    plan = cli.plan(play)
    notes = {note for item in plan["items"] for note in item["notes"] if "in every order" in note}
    assert [n for n in notes if "train-02, train-01 works" in n], cli.out
    on = {s["target"]["name"]: s for s in plan["steps"] if s["summary"] == "power on"}
    assert on["train-02"]["id"] in on["train-01"]["after"]
    assert cli("apply", play, "--yes") == 0, cli.out
    assert {vm["power"] for vm in eight.get("/lab/farm")["vms"]} == {"poweredOn"}
    started = [e["object"] for e in eight.get("/lab/ledger")["entries"] if e["call"] == "PowerOnVM_Task"]
    assert started == ["train-02", "train-01"]


@pytest.mark.parametrize("given", ["-1", "two", "1.5", "true"])
def test_spare_hosts_is_a_number(cli, given):
    assert cli("plan", cli.file(f"- vms: train-01\n  vgpu: []\n  spare_hosts: {given}\n")) == 65
    assert ":3:16" in cli.err


FULL = """
name: full
timing: {boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
hosts:
  - name: esx[01:02].lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    graphics_default: sharedDirect
    gpus: [{pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect}]
    ssh: {running: true, policy: on}
vms:
  - {name: "train-[01:02]", host: esx01.lab.local, memory_reservation_locked: true}
"""
BESIDE = "  - {name: other, host: esx02.lab.local, power: on, memory_reservation_locked: true, vgpu: [grid_a100-20c]}\n"
MOVE = {"move", "train-01", "esx02.lab.local"}
BOTH = "- vms: train-[01:02]\n  vgpu: [grid_a100-40c]\n"


LOCAL = "datastores: [{name: local-01, type: VMFS, hosts: [esx01.lab.local]}, {name: vsan-gpu}]\n"
TIED = FULL.replace("locked: true}", "locked: true, datastore: local-01}") + LOCAL


@pytest.mark.parametrize(("beside", "moves"), [("", True), (BESIDE, False), (LOCAL, False)])
def test_capacity_and_plan_agree_and_name_the_move_that_helps(cli, make_lab, monkeypatch, beside, moves):
    lab = make_lab(TIED if beside == LOCAL else FULL + beside)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    play = cli.file(BOTH)
    plan = cli.plan(play)
    (problem,) = [p for p in plan["problems"] if p["rule"] == "capacity.no-room"]
    assert MOVE.issubset(problem["remedy"].split()) is moves
    assert cli("plan", play) == 1
    assert cli("capacity", "-i", INVENTORY, play) == 1
    assert any(MOVE.issubset(line.split()) for line in cli.out.splitlines()) is moves
    assert lab.get("/lab/ledger")["entries"] == []


def test_the_move_that_is_named_does_help(cli, make_lab, monkeypatch, new_client):
    lab = make_lab(FULL)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    soap, play = new_client(lab), cli.file(BOTH)
    soap.wait(soap.vm("train-01").MigrateVM_Task(host=soap.host("esx02"), priority="defaultPriority"))
    assert cli("capacity", "-i", INVENTORY, play) == 0, cli.out
    assert cli("apply", play, "--yes") == 0, cli.err
    for name in ("train-01", "train-02"):
        soap.wait(soap.vm(name).PowerOnVM_Task())


def test_capacity_refuses_what_plan_refuses_for_another_reason(cli, make_lab, monkeypatch):
    lab = make_lab(FULL.replace("train-[01:02]", "train-01").replace("locked: true", "locked: true, power: suspended"))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    play = cli.file("- vms: train-01\n  vgpu: [grid_a100-40c]\n")
    assert cli("plan", play) == 1
    assert cli("capacity", "-i", INVENTORY, play) == 1
    assert "vm.suspended" in cli.out


@pytest.mark.parametrize(("scenario", "code"), [(FULL, 0), (TIED, 1)], ids=["shared disks", "disks on the host"])
def test_a_spare_host_has_to_take_the_vm_and_not_only_its_vgpu(cli, make_lab, monkeypatch, scenario, code):
    lab = make_lab(scenario)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    play = cli.file("- vms: train-01\n  vgpu: [grid_a100-40c]\n  spare_hosts: 1\n")
    assert cli("plan", play) == code, cli.out
    assert ("capacity.no-spare" in cli.out) is bool(code)
    assert cli("capacity", "-i", INVENTORY, play) == code, cli.out
    assert ("local-01" in cli.out) is bool(code), "why the other host is none"
    assert cli("capacity", "-i", INVENTORY, "--spare-hosts", "0", play) == 0, cli.out
