"""A play about VMs alone: what stands on the GPUs of their hosts is read, or said not to be known."""

from __future__ import annotations

import paramiko
import pytest
from support.labs import started

pytestmark = pytest.mark.lab
OPEN, SHUT = "esx01.lab.local", "esx02.lab.local"
GPU = "{pci: '0000:3b:00.0', board: a100-40gb, device_id: 20f1, mig: true, graphics_type: sharedDirect}"
FARM = f"""
name: vms
vcenter: {{version: 8.0.2, build: 22617221, api: 8.0.2.0}}
timing: {{boot_seconds: 0.4, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
hosts:
  - name: {OPEN}
    version: 8.0.2
    build: 22380479
    nvidia_driver: 550.163.01
    graphics_default: sharedDirect
    gpus: [{GPU}]
    ssh: {{running: true, policy: on}}
  - name: {SHUT}
    version: 8.0.2
    build: 22380479
    nvidia_driver: 550.163.01
    graphics_default: sharedDirect
    gpus: [{GPU}]
    ssh: {{running: false, policy: off}}
vms:
  - {{name: train-01, host: {OPEN}}}
  - {{name: train-02, host: {SHUT}}}
"""
HALF = "- vms: {}\n  vgpu: [grid_a100-3-20c]\n"


@pytest.fixture(scope="module")
def vm_lab(tmp_path_factory):
    from vsphere_ai.lab.front import process

    directory = tmp_path_factory.mktemp("vms")
    scenario = directory / "scenario.yml"
    scenario.write_text(FARM, encoding="utf-8")
    yield started(directory, scenario)
    process.stop(directory)


@pytest.fixture
def lab(vm_lab, monkeypatch):
    vm_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(vm_lab.directory))
    return vm_lab


@pytest.fixture
def seven_small(lab):
    """Somebody has cut the GPU of the host with SSH into 1g instances, and no VM uses them."""
    password = (lab.directory / "ssh_password").read_text(encoding="utf-8").strip()
    address = next(h for h in lab.get("/lab/farm")["hosts"] if h["name"] == OPEN)["ssh"]["address"]
    client = paramiko.SSHClient()
    client.load_host_keys(str(lab.directory / "known_hosts"))
    client.connect("127.0.0.1", int(address.rpartition(":")[2]), "root", password, look_for_keys=False,
                   allow_agent=False)  # fmt: skip
    _, out, _ = client.exec_command("nvidia-smi mig -i 0 -cgi 19,19,19,19,19,19,19")
    assert out.channel.recv_exit_status() == 0
    client.close()


def unknown(plan):
    found = [note for item in plan["items"] for note in item["notes"]]
    return [note for note in found if note.startswith("the GPU instances of")]


def test_a_host_whose_ssh_is_running_is_asked(cli, ledger):
    plan = cli.plan(cli.file(HALF.format("train-01")))
    assert (plan["problems"], unknown(plan)) == ([], [])
    assert ledger() == []


def test_instances_made_beforehand_are_seen(cli, seven_small):
    (problem,) = cli.plan(cli.file(HALF.format("train-01")))["problems"]
    assert problem["rule"] == "capacity.no-room"
    assert "train-01 cannot power on" in problem["message"]


def test_where_ssh_is_stopped_the_plan_says_what_it_does_not_know(cli, ledger):
    plan = cli.plan(cli.file(HALF.format("train-02")))
    assert plan["problems"] == []
    (note,) = unknown(plan)
    assert note.startswith(
        f"the GPU instances of {SHUT} are not known (the SSH service (TSM-SSH) of {SHUT} is stopped)"
    )
    assert ledger() == []  # nobody has allowed to start it


def test_where_ssh_may_be_started_it_is_asked_and_stopped_again(cli, farm):
    plan = cli.plan(cli.file(HALF.format("train-02")), "--start-ssh")
    assert (plan["problems"], unknown(plan)) == ([], [])
    assert farm()["hosts"][SHUT]["ssh"]["running"] is False


def test_a_play_without_vgpus_asks_no_host(cli, ledger):
    assert cli("plan", cli.file("- vms: all\n  hardware: {version: 19}\n"), "--start-ssh") in (0, 2), cli.out
    assert ledger() == []
