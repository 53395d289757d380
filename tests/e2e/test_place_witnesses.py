"""Witnesses of a place on the lab: planted defects of NUMA, functions, peer-to-peer and unified memory are found."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.lab
SCENARIO = """
name: places
timing: {boot_seconds: 0.5, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}
clusters: [{name: gpu-a}]
switches:
  - {name: dvs-lan, port_groups: [{name: dvpg-lan}]}
  - {name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{name: dvpg-rdma}]}
hosts:
  - name: esx[01:02].lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    cpu_cores: 64
    gpus: [{pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1}]
    nics:
      - {name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}
      - {name: vmnic4, pci: 0000:5e:00.0, model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0}
      - {name: vmnic5, pci: 0000:af:00.0, model: ConnectX-6, numa: 1}
    vmkernel: [{name: vmk0, port_group: dvpg-lan}, {name: vmk2, port_group: dvpg-rdma}]
    ssh: {running: true, policy: off}
vms:
  - {name: direct, host: esx01.lab.local, power: on, hardware: 19, network: dvpg-lan, cpus: 16, memory_gb: 32}
  - {name: shared, host: esx02.lab.local, power: on, hardware: 19, network: dvpg-lan, cpus: 16, memory_gb: 32}
"""
PLAY = """
- hosts: esx01.lab.local
  rolling: {evacuate: power_off}
  kernel: {ats_support: true}
  sriov: {"0000:5e:00.0": 4}
  passthrough: {"0000:3b:00.0": true}
- hosts: esx02.lab.local
  rolling: {evacuate: power_off}
  graphics: {default_type: shared_direct}
  pvrdma_host: {vmknic: vmk2, firewall: true}
- vms: direct
  pci_devices: [{host_device: "0000:3b:00.0"}]
  adapters: [{type: sriov, port_group: dvpg-rdma}]
  gpudirect: true
- vms: shared
  vgpu: [grid_a100-40c]
  adapters: [{type: pvrdma, port_group: dvpg-rdma}]
"""
CASES = [
    ({"kind": "setting", "vm": "direct", "name": "numa.nodeAffinity", "value": "1"}, "numa"),
    ({"kind": "setting", "vm": "shared", "name": "numa.nodeAffinity", "value": "1"}, "numa"),
    ({"kind": "setting", "vm": "direct", "name": "pciPassthru.RelaxACSforP2P", "value": "FALSE"}, "acs"),
    ({"kind": "ats-off", "host": "esx01*"}, "ats"),
    ({"kind": "package", "vm": "shared", "name": "nvidia-nccl-cu12", "version": "2.27.5"}, "nccl-uvm"),
]


def test_each_planted_defect_of_a_place_is_found_and_goes_with_it(make_lab, cli, monkeypatch):
    lab = make_lab(SCENARIO)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    at_once = cli.file("interval: 0\n", "at-once.yml")

    def found():
        cli("health", "direct,shared", "-o", "json", "--profile", at_once)
        assert cli.out, cli.err
        every = json.loads(cli.out)["findings"]
        return {(f["rule"], f["verdict"], f["target"]["name"]) for f in every if f["verdict"] not in ("pass", "info")}

    assert found() == set()
    for defect, check in CASES:
        lab.set_defects(defect)
        vm = str(defect.get("vm", "direct"))
        assert found() == {(check, "fail", vm)}, defect
    lab.set_defects({"kind": "wrong-function", "vm": "direct", "nic": "vmnic5"})
    assert found() == {("wrong-function", "fail", "direct"), ("rail-numa", "warn", "direct")}
    lab.set_defects()
    assert found() == set()
