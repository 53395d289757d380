"""Passthrough devices, ATS, GPUDirect and tuning on the lab: one window, one reconfigure, and nothing a second time."""

from __future__ import annotations

import pytest
from support.places import PLAYBOOKS

pytestmark = pytest.mark.lab
ESX = "esx02.lab.local"
GPU, NIC = "0000:3b:00.0", "0000:3c:00.0"
REBOOT = "esxcli system shutdown reboot"
PLAY = f"""
- hosts: {ESX}
  rolling: {{evacuate: power_off}}
  passthrough: {{"{GPU}": true}}
- vms: train-04
  pci_devices: [{{host_device: "{GPU}"}}]
"""
SCENARIO = """
name: rdma
timing: {boot_seconds: 0.6, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
switches: [{name: dvs-lan, port_groups: [{name: dvpg-lan}]}]
hosts:
  - name: esx02.lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    gpus:
      - {pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1, bridges: ["0000:3a:00.0"]}
      - {pci: 0000:86:00.0, board: a100-40gb, device_id: 20f1, numa: 1}
    nics:
      - {name: vmnic0, pci: 0000:18:00.0, model: I350, switch: dvs-lan}
      - {name: vmnic4, pci: 0000:3c:00.0, model: ConnectX-6, bridges: ["0000:3a:00.0"]}
      - {name: vmnic5, pci: 0000:5e:00.0, model: ConnectX-6, rdma: vmrdma0}
    ssh: {running: true, policy: off}
vms:
  - {name: train-04, host: esx02.lab.local, power: on, hardware: 19, network: dvpg-lan}
  - {name: other, host: esx02.lab.local, power: on, network: dvpg-lan}
"""
DIRECT = f"""
- hosts: {ESX}
  rolling: {{evacuate: power_off}}
  kernel: {{ats_support: true}}
  passthrough: {{"{GPU}": true, "{NIC}": true}}
- vms: train-04
  pci_devices: [{{host_device: "{GPU}"}}, {{vendor: 15b3, device: 101b}}]
  gpudirect: true
  tuning:
    cpus: 32
    cores_per_socket: 16
    latency_sensitivity: high
    numa_affinity: gpu
    extra_config: {{sched.cpu.halt: "0", monitor.idle: true}}
"""


@pytest.fixture
def rdma(make_lab, monkeypatch):
    made = make_lab(SCENARIO)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))

    def entries(target=None, call=None):
        found = made.get("/lab/ledger")["entries"]
        return [e for e in found if target in (None, e["object"]) and call in (None, e["call"])]

    return entries


def settled(cli, playbook, ledger):
    before = len(ledger())
    assert cli("plan", playbook, "--detailed-exitcode") == 0, cli.out
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(ledger()) == before


def round_trip(cli, *words):
    assert cli("show") == 0
    assert all(word in cli.out for word in words), cli.out
    assert cli("plan", cli.file(cli.out, "shown.yml"), "--detailed-exitcode") == 0, cli.out


def test_a_gpu_goes_from_its_host_to_a_vm_and_back(cli, ledger, farm):
    playbook = cli.file(PLAY)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(ledger(ESX, REBOOT)) == 1
    (change,) = ledger("train-04", "ReconfigVM_Task")
    assert change["detail"]["devices"][0]["host_device"] == GPU
    settled(cli, playbook, ledger)
    round_trip(cli, f'passthrough: {{"{GPU}": true}}', f'pci_devices: [{{host_device: "{GPU}"}}]')
    early = cli.file(PLAY.replace("true", "false").replace(f'[{{host_device: "{GPU}"}}]', "[]"), "back.yml")
    assert cli("apply", early, "--yes") == 0, cli.out + cli.err
    settled(cli, early, ledger)


def test_everything_for_gpudirect_takes_one_window_and_one_reconfigure(cli, rdma):
    playbook = cli.file(DIRECT)
    assert cli("apply", playbook, "--yes") == 0, cli.out + cli.err
    assert len(rdma(ESX, REBOOT)) == 1
    assert rdma(ESX, "esxcli system settings kernel set")[0]["detail"] == {"atsSupport": True}
    (change,) = rdma("train-04", "ReconfigVM_Task")
    said = change["detail"]
    assert [d.get("host_device") or d["allowed"] for d in said["devices"]] == [GPU, ["15b3:101b"]]
    assert said["extraConfig"] == {
        "pciPassthru.use64bitMMIO": "TRUE",
        "pciPassthru.64bitMMIOSizeGB": "128",
        "pciPassthru.allowP2P": "TRUE",
        "pciPassthru.RelaxACSforP2P": "TRUE",
        "numa.nodeAffinity": "0",
        "sched.cpu.halt": "0",
        "monitor.idle": "TRUE",
    }
    assert (said["numCPUs"], said["numCoresPerSocket"], said["latencySensitivity"]) == (32, 16, "high")
    assert said["cpuAllocation.reservation"] == 32 * 2600
    assert len(rdma("train-04", "PowerOnVM_Task")) == 1
    settled(cli, playbook, rdma)
    round_trip(
        cli,
        "gpudirect: true",
        "kernel: {ats_support: true}",
        "latency_sensitivity: high",
        '{vendor: "15b3", device: "101b"}',
    )


def test_without_ats_or_with_a_far_gpu_nothing_is_planned(cli, rdma):
    far = DIRECT.replace(GPU, "0000:86:00.0").replace("ats_support: true", "ats_support: false")
    assert cli("plan", cli.file(far)) == 1
    for word in (
        "[gpudirect.topology]",
        "[gpudirect.ats]",
        "0000:85",
        "0000:3a",
    ):
        assert word in cli.out
    assert rdma() == []


def test_an_advanced_setting_that_is_ignored_is_not_taken_for_done(cli, ledger, monkeypatch):
    """VCenter says that the reconfigure went well; reading back shows that the key is not there."""
    monkeypatch.setattr("vsphere_ai.execution.actions.waits.READ_BACK_VM", 1)
    playbook = cli.file(
        '- vms: train-04\n  tuning: {extra_config: {virtualHW.productCompatibility: "x", sched.cpu.halt: "0"}}\n'
    )
    assert cli("apply", playbook, "--yes") == 1, cli.out + cli.err
    assert "virtualHW.productCompatibility" in cli.out + cli.err
    assert ledger("train-04", "ReconfigVM_Task")[0]["detail"]["extraConfig"] == {"sched.cpu.halt": "0"}


def test_two_vms_do_not_get_one_device(cli, ledger):
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    both = cli.file(f'- vms: train-[03:04]\n  pci_devices: [{{host_device: "{GPU}"}}]\n', "both.yml")
    assert cli("plan", both) == 1
    assert "[pci_devices.taken]" in cli.out


def test_the_example_gives_a_vm_that_powers_on(cli, ledger, soap):
    example = PLAYBOOKS / "passthrough.yml"
    assert cli("apply", example, "--yes") == 0, cli.out + cli.err
    settled(cli, example, ledger)
    soap.wait(soap.vm("train-04").PowerOnVM_Task())
    settled(cli, example, ledger)


def test_a_crash_before_the_restart_is_made_good_by_resume(cli, lab, ledger):
    lab.set_faults("- {on: ssh-connect, do: drop}")  # the command to reboot never leaves
    playbook = cli.file(PLAY.partition("- vms")[0])
    assert cli("apply", playbook, "--yes", "--no-ssh-login") != 0
    lab.clear_faults()
    (change,) = (c for item in cli.plan(playbook)["items"] for c in item["changes"])
    assert "restart" in str(change["before"]), "what waits for one is not taken for done"
    assert cli("resume", "--yes") == 0, cli.out + cli.err
    assert len(ledger(ESX, REBOOT)) == len(ledger(ESX, "UpdatePassthruConfig")) == 1
    settled(cli, playbook, ledger)


def test_the_other_gpus_of_the_host_go_on_as_before(cli, ledger):
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    mig = 'mig: {gpus: {"0000:86:00.0": {mode: enabled}}}'
    rest = cli.file(f"- hosts: {ESX}\n  rolling: {{evacuate: power_off}}\n  {mig}\n", "mig.yml")
    assert cli("apply", rest, "--yes") == 0, cli.out + cli.err
    settled(cli, rest, ledger)
