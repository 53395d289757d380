"""A playbook for every kind, as its own test file declares it, and one of many kinds together for the lab's farm.

What ``tests/resources/test_MODULE.py`` of a kind says:

- ``ALONE``: a playbook that changes something with this kind; where it cannot be without others, they come along
- ``FARM``: the scenario it is for, unless it is for the lab's own farm
- ``BESIDE``: a play with it for the playbook of all kinds together, if it is not written there
- ``APART``: why it is not in `TOGETHER`, unless it is
"""

from __future__ import annotations

from pathlib import Path

from support.declared import loaded
from vsphere_ai.resources import kinds

TESTS = Path(__file__).parents[1] / "resources"


def file_of(kind: str) -> Path:
    """Return the test file of a kind."""
    return TESTS / f"test_{kinds()[kind].__module__.rpartition('.')[2]}.py"


def declared(name: str) -> dict[str, str]:
    """Return what the test files of the kinds say under a name, by kind; a kind that says nothing is left out."""
    files = {kind: file_of(kind) for kind in kinds()}
    return {kind: getattr(loaded(f), name) for kind, f in files.items() if f.is_file() and hasattr(loaded(f), name)}


ALONE, FARMS, APART = declared("ALONE"), declared("FARM"), declared("APART")
TOGETHER = """
- datacenters: DC0
  switches: {dvs-rdma: {mtu: 9000, nioc: true}}
  port_groups: {dvpg-rdma: {active_uplinks: [Uplink 1]}, dvpg-new: {switch: dvs-rdma, vlan: 7}}

- hosts: esx0[1:3].lab.local
  uplinks: {dvs-rdma: {Uplink 1: vmnic4}}
  vmkernel: {dvpg-rdma: {mtu: 9000, pvrdma: true}}
  pvrdma_host: {firewall: true}

- hosts: esx01.lab.local
  rolling: {evacuate: power_off}
  graphics: {default_type: shared_direct}
  mig: {mode: disabled}
  roce: {version: rocev2, pfc_priority: 3, trust: dscp, dscp: 26}
  nics: {vmnic1: {speed: auto}}
  sriov: {"0000:5e:00.0": 4}

- hosts: esx02.lab.local
  rolling: {evacuate: power_off}
  kernel: {ats_support: true}
  passthrough: {"0000:86:00.0": true}
  sriov: {"0000:5e:00.0": 4}

- vms: train-01
  hardware: {version: 19}
  vgpu: [grid_a100-10c]
  pvrdma: [{port_group: dvpg-rdma, protocol: rocev2}]
  adapters: [{port_group: dvpg-lan}, {port_group: dvpg-new}, {type: sriov, port_group: dvpg-rdma}]
  tuning: {numa_affinity: [0]}

- vms: train-04
  hardware: {version: 19}
  pci_devices: [{host_device: "0000:86:00.0"}]
  adapters: [{type: sriov, port_group: dvpg-rdma}]
  gpudirect: true
  tuning: {cpus: 8, cores_per_socket: 4, latency_sensitivity: high}
"""
TOGETHER += "".join(declared("BESIDE").values())
TOGETHER_AND_NEW = (
    TOGETHER.replace(
        "nioc: true}}\n", "nioc: true}, dvs-n1: {nioc: true, shares: {vmotion: high}}, dvs-n2: {nioc: true}}\n", 1
    )
    .replace("vlan: 7}}\n", "vlan: 7}, dvpg-n1: {switch: dvs-n1, vlan: 8}}\n", 1)
    .replace("active_uplinks: [Uplink 1]", "vlan: 9", 1)
    .replace("{mtu: 9000, pvrdma: true}}\n", "{mtu: 4500, pvrdma: true}, dvpg-new: {address: dhcp}}\n", 1)
)
"""The same with several new switches and port groups, and a new VMkernel adapter per host."""
