"""Windows without a reboot, and GPUs that a plan takes from vGPUs: what is switched off finds its GPU again.

The lab decides by its own rules where vGPUs land and whether VMs power on.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
SCENARIO = """
name: windows
vcenter: {{version: 8.0.3, build: 24022515, api: 8.0.3.0}}
timing: {{boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.05, guest_seconds: 0.1}}
clusters: [{{name: gpu-a, drs: fullyAutomated}}]
switches: [{{name: dvs-lan, uplinks: 1, port_groups: [{{name: dvpg-lan}}]}}]
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    version: 8.0.3
    build: 24022510
    nvidia_driver: 550.90.05
    graphics_default: sharedDirect
    gpus: [{gpus}]
    nics: [{{name: vmnic0, pci: '0000:18:00.0', model: X710, switch: dvs-lan}}]
    ssh: {{running: true, policy: on}}
    {more}
vms: [{vms}]
"""
FIRST, SECOND = "0000:3b:00.0", "0000:86:00.0"
GPU = "{{pci: '{}', board: a100-40gb, device_id: 20f1, graphics_type: sharedDirect{}}}"
VM = "{{name: {}, host: esx01.lab.local, network: dvpg-lan, tools: running, hardware: 21, memory_gb: 16{}}}"
RUNS = ", power: on, memory_reservation_locked: true, vgpu: [{}]"
MIG, MIXED = ", mig: true", ", vgpu_mode: mixedSize"
WINDOW = "- hosts: esx01.lab.local\n  {}\n  rolling: {{evacuate: power_off, timeout: 20s, settle: 2s}}\n"


@pytest.fixture
def farm(make_lab, monkeypatch):
    def make(gpus, vms, more=""):
        own = (GPU.format(pci, more) for pci, more in gpus.items())
        guests = (VM.format(name, profile and RUNS.format(profile)) for name, profile in vms.items())
        made = make_lab(SCENARIO.format(gpus=", ".join(own), vms=", ".join(guests), more=more))
        monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
        return made

    return make


def calls(lab, *names):
    return [e["call"] for e in lab.get("/lab/ledger")["entries"] if e["call"] in names]


# in the order in which they started: a lands at slice 4 when it is the first one, and d finds no start any more
PARTS = {"d": "grid_a100-3-20c", "a": "grid_a100-1-5c", "c": "grid_a100-2-10c", "b": "grid_a100-1-5c"}


def test_vms_of_a_full_gpu_come_back_in_an_order_in_which_all_find_their_instances(cli, farm):
    farm({FIRST: MIG}, PARTS)
    playbook = cli.file(WINDOW.format("nics: {vmnic0: {pause: {rx: true, tx: true}}}"))
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert cli("lab", "status") == 0
    off = [line for line in cli.out.splitlines() if line.split()[:1] in ([n] for n in PARTS) and " off " in line]
    assert off == []


def test_sizes_that_only_a_mixed_gpu_holds_refuse_the_change_to_one_size(cli, farm):
    lab = farm({FIRST: MIXED}, {"r1": "grid_a100-10c", "r2": "grid_a100-20c"})
    playbook = cli.file(WINDOW.format("graphics: {vgpu_mode: same_size}"))
    assert cli("plan", playbook) == 1
    assert "r2 cannot power on" in cli.out
    assert "capacity.no-room" in cli.out
    assert cli("capacity", playbook) == 1
    assert "DOES NOT FIT (exact)" in cli.out
    assert calls(lab, "PowerOffVM_Task", "ShutdownGuest", "UpdateGraphicsConfig") == []


def test_a_hole_between_mixed_sizes_is_offered_to_no_size_without_a_place_there(cli, farm, new_client):
    lab = farm({FIRST: MIXED}, {**{f"r{n}": "grid_a100-10c" for n in (1, 2, 3, 4)}, "big": ""})
    client = new_client(lab)
    for name in ("r1", "r3"):
        client.wait(client.vm(name).PowerOffVM_Task())
    playbook = cli.file("- vms: big\n  vgpu: [grid_a100-20c]\n")
    assert cli("capacity") == 0
    assert "fits    2 x 10c or 2 x 8c or 4 x 5c or 4 x 4c\n" in cli.out
    assert cli("plan", playbook) == 1, cli.out
    assert "big cannot power on" in cli.out
    client.wait(client.vm("r2").PowerOffVM_Task())
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err


def test_without_places_a_part_filled_gpu_of_mixed_sizes_is_not_certain(cli, farm, new_client):
    lab = farm({FIRST: MIXED}, {**{f"r{n}": "grid_a100-10c" for n in (1, 2)}, "big": ""}, more="vgpu_instances: false")
    client = new_client(lab)
    playbook = cli.file("- vms: big\n  vgpu: [grid_a100-20c]\n")
    assert cli("capacity", playbook) == 0
    assert "at most: what running VMs hold was not read" in cli.out
    assert "FITS (not certain)" in cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    client.wait(client.vm("r1").PowerOffVM_Task())
    whole = cli.file("- vms: big\n  vgpu: [grid_a100-40c]\n", "whole.yml")
    assert cli("plan", whole) == 1
    assert "big cannot power on" in cli.out


def test_the_vms_of_a_gpu_in_mig_mode_stay_on_when_another_gpu_changes_its_vgpu_mode(cli, farm):
    lab = farm({FIRST: MIG, SECOND: ""}, PARTS)
    playbook = cli.file(WINDOW.format("graphics: {vgpu_mode: mixed_size}"))
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert f"{FIRST} in MIG mode: the vGPU mode stays as it is there" in cli.out
    assert calls(lab, "ShutdownGuest", "EnterMaintenanceMode_Task") == []
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out


def test_a_time_sliced_gpu_beside_one_in_mig_mode_gives_its_vm_the_vgpu_back(cli, farm):
    farm({FIRST: MIG, SECOND: ""}, {"t": "grid_a100-20c"})
    playbook = cli.file(WINDOW.format("graphics: {vgpu_mode: mixed_size}"))
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out


def test_a_gpu_that_the_plan_passes_through_gives_no_vgpu(cli, farm):
    lab = farm({FIRST: "", SECOND: ""}, {"t1": "", "t2": ""})
    passed = WINDOW.format(f"passthrough: {{'{FIRST}': true}}")
    playbook = cli.file(passed + "- vms: t*\n  vgpu: [grid_a100-40c]\n")
    assert cli("plan", playbook) == 1
    assert "2 of grid_a100-40c are to power on on the 1 GPU of esx01.lab.local, where 1 fit" in cli.out.replace(
        "\n      ", " "
    )
    assert cli("capacity", playbook) == 1
    assert "DOES NOT FIT (exact)" in cli.out
    assert calls(lab, "ReconfigVM_Task", "UpdatePassthruConfig") == []
    one = cli.file(passed + "- vms: t1\n  vgpu: [grid_a100-40c]\n", "one.yml")
    assert cli("apply", one, "--yes") == 0, cli.out + cli.err


SHARED = "nvidia_rtx_pro_6000_blackwell_dc-1-{}"


def test_instances_that_vgpus_share_are_counted_where_nvidia_smi_shows_them(cli, make_lab, monkeypatch):
    """Three of 12 GB stand in two of the four instances of 24 GB, so two whole ones are left."""
    one = VM.replace("hardware: 21", "hardware: 22")
    vms = [one.format(f"a{n}", RUNS.format(SHARED.format("12q"))) for n in (1, 2, 3)]
    vms += [one.format(f"n{n}", "") for n in (1, 2, 3)]
    scenario = SCENARIO.replace("550.90.05", "580.82.02").replace("8.0.3.0", "9.0.0.0")
    scenario = scenario.replace("8.0.3", "9.0.1").replace("24022515", "24900000").replace("24022510", "24900000")
    gpu = f"{{pci: '{FIRST}', board: rtx-pro-6000-blackwell, graphics_type: sharedDirect, mig: true}}"
    made = make_lab(scenario.format(gpus=gpu, vms=", ".join(vms), more=""))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    assert cli("plan", cli.file(f"- vms: n*\n  vgpu: [{SHARED.format('24q')}]\n")) == 1
    assert "n3 cannot power on" in cli.out
    assert cli("apply", cli.file(f"- vms: n[1:2]\n  vgpu: [{SHARED.format('24q')}]\n"), "--yes") == 0, cli.out + cli.err
