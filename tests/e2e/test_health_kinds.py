"""Every defect of the lab that health is to find is one message, on each kind of GPU; healthy VMs have none."""

from __future__ import annotations

import json

import pytest
from support.vm_sets import FARM, HOSTS, INVENTORY, play

from vsphere_ai.connect.secure_shell.guest_ssh import GuestSsh
from vsphere_ai.lab.guest.defects import KINDS
from vsphere_ai.security.state_dir import state_dir

pytestmark = pytest.mark.lab
VM = "train-02"
OTHER_SUITES = {
    "gpu-slow": "bench nccl", "pair-slow": "bench nccl", "nvlink-slow": "bench nccl", "gpu-busy": "pre-flight",
    "clock": "pre-flight", "path-mtu": "pre-flight", "port-taken": "pre-flight", "unreachable": "pre-flight",
    "port-rejected": "pre-flight", "file-missing": "pre-flight", "file-differs": "pre-flight",
    "pace": "bench megatron", "loss-nan": "bench megatron", "process-left": "bench megatron", "wrong-bit": "bench burn",
    "login-refused": "pre-flight",
    "setting": "place", "hot-add": "place", "ats-off": "place", "wrong-function": "place",
}  # fmt: skip
"""Defects that are not found by health, or whose test is another one: what finds them."""
OF_EACH = [
    ({"kind": "gpu-missing", "vm": VM}, "gpu-count"),
    ({"kind": "xid", "vm": VM, "number": 79}, "xid"),
    ({"kind": "ecc", "host": "{host}", "gpu": "{gpu}"}, "ecc"),
    ({"kind": "remap-pending", "host": "{host}", "gpu": "{gpu}"}, "remap"),
    ({"kind": "gpu-throttled", "host": "{host}", "gpu": "{gpu}"}, "throttle"),
    ({"kind": "gpu-pcie", "host": "{host}", "gpu": "{gpu}", "factor": 0.5}, "pcie"),
    ({"kind": "driver", "vm": VM, "version": ""}, "gpu-driver"),
    ({"kind": "hang", "vm": VM, "command": "nvidia-smi"}, "gpu-driver"),
    ({"kind": "log-line", "vm": VM, "text": "pcieport 0000:00:1c.0: AER: Corrected error"}, "pcie-log"),
    ({"kind": "flood", "vm": VM, "command": "dmesg"}, "kernel-log"),
    ({"kind": "host-log", "host": "{host}"}, "host-log"),
]
"""Defects of GPUs and guests, of every kind of GPU; of a vGPU those of the GPU itself are the host's to see."""
OF_RAILS = [
    ({"kind": "rail-down", "vm": VM}, "rdma-link"),
    ({"kind": "rail-flapping", "host": "{host}", "nic": "vmnic4"}, "flapping"),
    ({"kind": "link-outage", "host": "{host}", "nic": "vmnic4"}, "flapping"),
    ({"kind": "link-outage", "vm": VM, "nic": "vmnic4", "seen": "guest"}, "flapping"),
    ({"kind": "rail-slow", "vm": VM, "factor": 0.25}, "rail-speed"),
    ({"kind": "uplink-slow", "host": "{host}", "nic": "vmnic4", "factor": 0.25}, "uplink-speed"),
    ({"kind": "mtu", "vm": VM, "nic": "rdma1", "mtu": 1500}, "mtu"),
    ({"kind": "gid", "vm": VM, "nic": "rdma1"}, "gid"),
    ({"kind": "rule-missing", "vm": VM}, "policy-route"),
    ({"kind": "package", "vm": VM, "name": "torch", "version": "2.1"}, "versions"),
    ({"kind": "host-clock", "host": "{host}"}, "host-clock"),
]
OF_WHOLE = [
    ({"kind": "dcgm", "vm": VM, "result": "fail", "severity": 2}, "dcgm"),
    ({"kind": "dcgm", "vm": VM, "result": "skip"}, "dcgm"),
    ({"kind": "dcgm", "vm": VM, "result": "missing"}, "dcgm"),
]
TESTED_APART = {"counter", "gpu-replays"}
"""Counters that rise take two readings: see test_health, and the end of the test below."""
NICS = (
    "{name: mgmt, port_group: dvpg-lan, role: mgmt, primary: true, addresses: mgmt}",
    "{name: rdma1, port_group: dvpg-rdma, type: pvrdma, protocol: rocev2, role: rdma, rail: 1, "
    "mtu: 9000, addresses: rail1}",
)
WHOLE = """
- hosts: esx[01:02].lab.local
  pvrdma_host: {vmknic: vmk2, firewall: true}
  passthrough: {"0000:3b:00.0": true, "0000:86:00.0": true}
  rolling: {evacuate: power_off, max_unavailable: 2}
"""
MIG = HOSTS.replace("  pvrdma_host", "  mig: {mode: enabled}\n  pvrdma_host")
GPU_KINDS = {
    "vgpu": (HOSTS, "  vgpu: [grid_a100-10c]\n", OF_EACH + OF_RAILS),
    "mig-backed": (MIG, "  vgpu: [grid_a100-2-10c]\n", OF_EACH),
    "several": (HOSTS, "  vgpu: [grid_a100-40c, grid_a100-40c]\n", OF_EACH[1:3]),
    "passthrough": (WHOLE, "  pci_devices: [{vendor: 10de, device: 20f1}]\n", OF_EACH + OF_WHOLE),
}


def test_every_defect_has_its_finder():
    known = {d["kind"] for _, _, cases in GPU_KINDS.values() for d, _ in cases}
    assert known | set(OTHER_SUITES) | TESTED_APART == set(KINDS)


@pytest.mark.parametrize("name", GPU_KINDS)
def test_one_message_for_each_defect_and_none_without(name, cli, make_lab, monkeypatch):
    hosts, gpus, cases = GPU_KINDS[name]
    lab = make_lab(FARM)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    inventory = cli.file(INVENTORY, "inventory.yml")
    playbook = cli.file(
        hosts + play("train-[01:02]", cpus=16, memory_gb=64, cards=NICS, more="  hardware: {version: 19}\n" + gpus)
    )
    assert cli("apply", playbook, "--yes", "-i", inventory) == 0, cli.out + cli.err
    level = ("--dcgm", "2") if name == "passthrough" else ()

    def health(*more):
        for path in (state_dir() / "health").glob("*.json"):
            path.unlink()
        cli("health", playbook, "-i", inventory, "-o", "json", *level, *more)
        assert cli.out, cli.err
        document = json.loads(cli.out)
        counted = [f for f in document["findings"] if f["verdict"] not in ("pass", "info")]
        rows = [(f["rule"], f["target"]["name"], f["target"]["host"], f["target"].get("part", "")) for f in counted]
        return {vm["vm"]: vm for vm in document["vms"]}, rows

    learned = cli.folder / "learned.yml"
    assert cli("health", playbook, "-i", inventory, "--learn", learned) == 0, cli.err
    profile = cli.file(learned.read_text("utf-8") + "interval: 0\n", "profile.yml")
    vms, said = health("--profile", profile)
    assert said == []
    mine = vms[VM]
    assert all(gpu["host_pci"] for gpu in mine["gpus"]), mine["gpus"]
    place = {"{host}": mine["host"], "{gpu}": mine["gpus"][0]["host_pci"]}
    for defect, check in cases:
        lab.set_defects({key: place.get(value, value) for key, value in defect.items()})
        _, said = health("--profile", profile)
        assert {row[0] for row in said} == {check}, (defect, said)
        (own,) = (row for row in said if row[1] == VM)
        assert own[2] == mine["host"]
        assert place["{gpu}"] in own[3] or check not in ("xid", "ecc", "remap", "throttle", "pcie", "gpu-count")
        assert all(row[2] == mine["host"] for row in said)
    if name == "passthrough":
        lab.set_defects({"kind": "gpu-replays", "vm": VM})
        assert {row[:2] for row in health()[1]} == {("pcie-replay", VM)}, "by two readings, 10 s apart"
    if name == "several":
        real, asked = GuestSsh.run, []

        def run(shell, argv, **more):
            asked.append((shell.vm, argv[0]))
            return real(shell, argv, **{**more, "timeout": 0.5 if shell.vm == VM else more["timeout"]})

        monkeypatch.setattr(GuestSsh, "run", run)
        lab.set_defects({"kind": "hang", "vm": VM})
        assert health("--profile", profile)[1] == [("ssh", VM, mine["host"], "")]
        assert [program for vm, program in asked if vm == VM] == ["nvidia-smi", "true"], "nothing more is asked"
        monkeypatch.setattr(GuestSsh, "run", real)
    lab.set_defects()
    assert health("--profile", profile)[1] == []
