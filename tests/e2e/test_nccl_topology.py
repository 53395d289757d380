"""NCCL topology files of VMs on the lab: the planted PCI trees, through vCenter, guests and the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.pci_farms import shown

from vsphere_ai import app
from vsphere_ai.app.training.nodes.pci import placed_nodes
from vsphere_ai.errors import Refused
from vsphere_ai.language.inventories.inventory import find_inventory
from vsphere_ai.training.nccl_topo import written

pytestmark = pytest.mark.lab
SWITCH, OTHER = "0000:3c:00.0", "0000:b0:00.0"
SCENARIO = f"""
name: topology
timing: {{boot_seconds: 0.5, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: gpu-a}}]
switches:
  - {{name: dvs-lan, port_groups: [{{name: dvpg-lan}}]}}
  - {{name: dvs-rdma, mtu: 9000, uplinks: 1, port_groups: [{{name: dvpg-rdma}}]}}
hosts:
  - name: esx01.lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    cpu_cores: 32
    gpus:
      - {{pci: 0000:3e:00.0, board: a100-40gb, bridges: ["0000:3a:00.0", "{SWITCH}", "0000:3d:00.0"]}}
      - {{pci: 0000:b2:00.0, board: a100-40gb, numa: 1, bridges: ["0000:ae:00.0", "{OTHER}", "0000:b1:00.0"]}}
    nics:
      - {{name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}}
      - {{name: vmnic4, pci: 0000:3f:00.0, model: ConnectX-6, switch: dvs-rdma, rdma: vmrdma0,
         bridges: ["0000:3a:00.0", "{SWITCH}", "0000:3d:04.0"]}}
      - {{name: vmnic5, pci: 0000:b4:00.0, model: ConnectX-6, numa: 1,
         bridges: ["0000:ae:00.0", "{OTHER}", "0000:b1:04.0"]}}
    vmkernel: [{{name: vmk0, port_group: dvpg-lan}}, {{name: vmk2, port_group: dvpg-rdma}}]
    ssh: {{running: true, policy: off}}
  - name: esx02.lab.local
    cluster: gpu-a
    nvidia_driver: 470.256.02
    gpus:
      - {{pci: 0000:3b:00.0, board: a100-40gb, device_id: 20f1}}
      - {{pci: 0000:86:00.0, board: a100-40gb, device_id: 20f1, numa: 1}}
      - {{pci: 0000:af:00.0, board: a100-40gb, device_id: 20f1, numa: 1}}
    nics: [{{name: vmnic0, pci: 0000:18:00.0, model: X710, switch: dvs-lan}}]
    ssh: {{running: true, policy: off}}
vms:
  - {{name: virtual, host: esx02.lab.local, power: on, hardware: 19, network: dvpg-lan}}
  - {{name: both, host: esx01.lab.local, power: on, hardware: 19, network: dvpg-lan, cpus: 24, memory_gb: 64}}
"""
PLAY = """
- hosts: esx01.lab.local
  rolling: {evacuate: power_off}
  pvrdma_host: {vmknic: vmk2, firewall: true}
  passthrough: {"0000:3e:00.0": true, "0000:b2:00.0": true, "0000:b4:00.0": true}
- hosts: esx02.lab.local
  rolling: {evacuate: power_off}
  graphics: {default_type: shared_direct}
- vms: virtual
  vgpu: [grid_a100-40c, grid_a100-40c]
- vms: both
  pci_devices: [{host_device: "0000:3e:00.0"}, {host_device: "0000:b2:00.0"}, {host_device: "0000:b4:00.0"}]
  adapters: [{type: pvrdma, port_group: dvpg-rdma}]
"""


@pytest.fixture
def farm(make_lab, cli, monkeypatch):
    made = make_lab(SCENARIO)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(made.directory))
    assert cli("apply", cli.file(PLAY), "--yes") == 0, cli.out + cli.err
    return made


def test_the_file_of_a_vm_is_the_tree_of_its_host(farm, cli):
    assert cli("render", "nccl-topo", "both") == 0, cli.out + cli.err
    near, far = ("0000:03:00.0", "0000:13:00.0"), ("0000:04:00.0", "0000:05:00.0")
    text = cli.out
    assert shown(text) == {0: (near,), 1: (far,)}
    assert "PIX" in cli.err
    assert "cores_per_socket: 12" in cli.err
    file = cli.file(text, "both.xml")
    assert cli("render", "nccl-topo", "both", "--check", file) == 0, cli.out
    assert cli("render", "nccl-topo", "--check", file) == 0
    moved = cli.file(text.replace("0000:04:00.0", "0000:09:00.0"), "moved.xml")
    assert cli("render", "nccl-topo", "both", "--check", moved) == 2
    assert "GPU 1 of both (0000:04:00.0) is missing" in cli.out
    assert cli("render", "nccl-topo", "both", "-o", "json") == 0
    (vm,) = json.loads(cli.out)["vms"]
    assert [(g["host_pci"], g["numa"]) for g in vm["gpus"]] == [("0000:3e:00.0", 0), ("0000:b2:00.0", 1)]
    assert [g["rails"][0]["distance"] for g in vm["gpus"]] == ["PIX", "SYS"]

    # which GPU runs which of several vGPUs is what the host's nvidia-smi says
    assert cli("render", "nccl-topo", "virtual") == 0, cli.out + cli.err
    (host,) = [h for h in farm.get("/lab/farm")["hosts"] if h["name"] == "esx02.lab.local"]
    planted = {"0000:3b:00.0": 0, "0000:86:00.0": 1, "0000:af:00.0": 1}
    used = [planted[g["pci"]] for g in host["gpus"] if "virtual" in g["vms"]]
    tree = shown(cli.out)
    assert {numa: len(below) for numa, below in tree.items()} == {n: used.count(n) for n in set(used)}
    assert all(g["pci"] in cli.out for g in host["gpus"] if "virtual" in g["vms"])
    assert cli("health", "virtual", "-o", "json", "--profile", cli.file("interval: 0\n", "at-once.yml")) == 0
    (vm,) = json.loads(cli.out)["vms"]
    assert {g["host_pci"] for g in vm["gpus"]} == {g["pci"] for g in host["gpus"] if "virtual" in g["vms"]}

    assert cli("render", "nccl-topo", "nothing-*") == 64

    # what a launch does before it starts: every guest is asked, and what is missing is named
    settings = app.guest_settings(find_inventory(None))
    nodes = app.list_nodes(app.NodesRequest(vms=("both",)))
    (placed,) = placed_nodes(nodes.nodes, settings, nodes.states)
    assert shown(written(placed)) == {0: (near,), 1: (far,)}
    (node,) = nodes.nodes
    with pytest.raises(Refused, match="which part of esx01") as refused:
        placed_nodes([replace(node, gpus=())], settings, nodes.states)
    assert refused.value.rule == "launch.topology"


def test_what_is_to_be_written_or_checked_has_to_be_named(cli):
    assert cli("render", "nccl-topo") == 64
    assert cli("render", "nccl-topo", "--check", "nowhere.xml") == 64
